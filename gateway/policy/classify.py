"""What policy.yaml may say of classification, as pydantic models."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from gateway.core.policy import ClassifierSettings
from gateway.policy.machine import Section, Text
from gateway.policy.scalars import Endpoint, Label, Listed, Pattern, Share, Workload, mistake


class RuleSection(Section):
    """A label for the requests that fit all that is given here."""

    label: Label = Field(
        description="A built-in label, or one of your own: it exists by being named here.", examples=["sql"]
    )
    text: Pattern | None = Field(
        default=None, description="Regular expression, searched in the last user message."
    )
    system: Pattern | None = Field(
        default=None, description="Regular expression, searched in the system prompt."
    )
    header: dict[Text, Pattern] = Field(
        default_factory=dict, description="Request header → regular expression, searched in its value."
    )
    metadata: dict[Text, Pattern] = Field(
        default_factory=dict, description="Key of the body's metadata → regular expression."
    )
    model: Listed[Text] = Field(
        default_factory=list, description="Model names as clients send them; * and ? as in file globs."
    )
    tenant: Listed[Text] = Field(default_factory=list, description="Tenant names.")
    endpoint: Listed[Endpoint] = Field(default_factory=list, description="API endpoints.")
    path: Pattern | None = Field(
        default=None,
        description="Regular expression, searched in the path as the client sent it, without the query.",
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not self.model_fields_set - {"label"}:
            *most, last = (name for name in type(self).model_fields if name != "label")
            raise mistake("the rule takes every request", f"give it {', '.join(most)} or {last}")
        return self


class ClassifySection(Section):
    """How requests are classified."""

    default: Workload = Field(
        default=ClassifierSettings().default, description="Label where none is sure enough."
    )
    threshold: Share = Field(
        default=ClassifierSettings().threshold, description="Confidence that is sure enough."
    )
    unsure: Literal["default", "mix"] = Field(
        default="default",
        description="Below it: take the default, or the likeliest label, and let predictions of speed count "
        "each label by its probability.",
    )
    trust_hints: bool = Field(
        default=ClassifierSettings().trust_hints,
        description="Whether the header x-specroute-workload counts.",
    )
    model: Literal["trained", "rules"] = Field(
        default="trained", description="The shipped model, or the built-in rules alone."
    )
    examples: Text | None = Field(
        default=None,
        description="File of `specroute classify --train` beside the policy, with labels of your own.",
    )
    rules: list[RuleSection] = Field(
        default_factory=list, description="Tried in order before the model; the first that fits labels."
    )
