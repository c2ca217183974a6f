"""What fleet.yaml and policy.yaml may hold, as pydantic models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import GenerateJsonSchema as JsonSchema

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.policy import Resume, Timeouts, Waiting
from gateway.policy.classify import ClassifySection
from gateway.policy.machine import Amount, Count, GpusSection, LaunchSection, Section, Text
from gateway.policy.registry import SCORERS
from gateway.policy.scalars import (
    HOSTED,
    BackendAddress,
    BackendName,
    Duration,
    DurationOrNever,
    Endpoint,
    Language,
    Listed,
    Method,
    Name,
    Parameter,
    Scorer,
    Share,
    Workload,
    mistake,
)
from gateway.policy.service import ClassSection, LearningSection

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

Version = Annotated[Literal[1], Field(description="Version of the file format.", examples=[1])]
Score = Annotated[dict[Scorer, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(min_length=1)]

_SCORE = (
    "Weights of the costs that are added up; the backend with the lowest sum is tried first. "
    + " ".join(f"{name}: {entry.summary}." for name, entry in SCORERS.items())
)
_BASELINE_SHARE = "Share of requests sent to a backend without speculation, to keep measuring the speed-up."
_MAX_ATTEMPTS = "Backends tried for one request, the first included."
_STAND_INS = "Whether hosted models may answer where no server can: prompts then leave the house."


class BackendSection(Section):
    """One vLLM server, or a hosted model that stands in for those of its target."""

    name: BackendName = Field(description="Unique in the fleet.", examples=["gemma31-mtp4"])
    url: BackendAddress = Field(
        description="Scheme, host and port; 'litellm://PROVIDER/MODEL' is a hosted model that answers where "
        "no server of its 'model' can, and has 'name', 'model', 'max_in_flight' and 'api_key_env' besides.",
        examples=["http://127.0.0.1:8000"],
    )
    model: Text = Field(
        description="Target model; servers with the same one are interchangeable.",
        examples=["google/gemma-4-31B-it"],
    )
    served_model: Text | None = Field(
        default=None, description="What the server answers to; the model if left out."
    )
    method: Method = Field(default="none", description="Speculative decoding method; 'none' is a baseline.")
    draft_tokens: Amount = Field(default=0, description="N, draft tokens a step.")
    draft: Text | None = Field(default=None, description="Draft checkpoint.")
    refuses: list[Parameter] | None = Field(
        default=None,
        description="Request parameters the server cannot take; left out: what vLLM refuses with its draft "
        "and the flags of `launch`.",
    )
    max_in_flight: Count = Field(default=256, description="Requests the gateway may hold open on it at once.")
    max_model_len: Count | None = Field(
        default=None, description="Context length in tokens, prompt and answer together."
    )
    labels: dict[str, Text] = Field(default_factory=dict, description="Free text by name, for selectors.")
    api_key_env: Text | None = Field(
        default=None, description="Environment variable that holds the server's API key."
    )
    gpus: GpusSection | None = Field(
        default=None, description="Where to read of its GPUs: memory, activity, power."
    )
    launch: LaunchSection = Field(
        default_factory=LaunchSection, description="How `specroute launch` starts it."
    )

    @property
    def stands_in(self) -> bool:
        """Whether it is a hosted model."""
        return self.url.startswith(HOSTED)


class FleetFile(Section):
    """Which backends exist."""

    version: Version
    backends: list[BackendSection] = Field(
        description="The servers.",
        examples=[[{"name": "base", "url": "http://127.0.0.1:8000", "model": "google/gemma-4-31B-it"}]],
        json_schema_extra={"minItems": 1},
    )


class SelectorSection(Section):
    """Which backends a preference names: 'any', a name with * and ?, or fields that must all fit."""

    name: Text | None = Field(
        default=None, description="Backend name; * and ? stand for any characters, any character."
    )
    method: Method | None = Field(default=None, description="Speculative decoding method.")
    draft_tokens: Amount | None = Field(default=None, description="N, draft tokens a step.")
    labels: dict[str, Text] = Field(
        default_factory=dict, description="Labels that must all have these values."
    )
    max_in_flight: Count | None = Field(
        default=None,
        description="Only while it has so many requests at most, this one included.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: object) -> object:
        if isinstance(written, str):
            return {} if written == "any" else {"name": written}
        if written == {}:
            raise mistake("the selector is empty", "write any to name every backend")
        return written

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        fields = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "minLength": 1}, {**fields, "minProperties": 1}]}


class MatchSection(Section):
    """Which requests a route takes; what is left out matches all, what is given must all match."""

    model: Listed[Text] = Field(default_factory=list, description="Model names as clients send them.")
    workload: Listed[Workload] = Field(default_factory=list, description="Nature of the answer.")
    min_confidence: Share = Field(default=0.0, description="Lowest confidence of the classification.")
    language: Listed[Language] = Field(
        default_factory=list, description="Language of the answer, as ISO 639-1 codes."
    )
    endpoint: Listed[Endpoint] = Field(default_factory=list, description="API endpoints.")
    stream: bool | None = Field(default=None, description="true: only streams; false: only whole answers.")
    tenant: Listed[Text] = Field(default_factory=list, description="Tenant names.")
    min_prompt_tokens: Amount = Field(default=0, description="Estimated prompt length, inclusive.")
    max_prompt_tokens: Amount | None = Field(default=None, description="Upper limit of the same.")

    @model_validator(mode="after")
    def _takes_something(self) -> Self:
        if self.max_prompt_tokens is not None and self.max_prompt_tokens < self.min_prompt_tokens:
            right = "make max_prompt_tokens the larger one"
            raise mistake(
                "no prompt is longer than min_prompt_tokens and shorter than max_prompt_tokens", right
            )
        return self


class RouteSection(Section):
    """One rule: which requests it takes and which backends they may go to."""

    name: Name = Field(description="Unique in the policy.", examples=["default"])
    match: MatchSection = Field(default_factory=MatchSection, description="Left out: every request.")
    prefer: list[SelectorSection] = Field(
        min_length=1,
        description="Backends in order of preference; those that none of these names are not used.",
        examples=[["any"]],
    )
    score: Score | None = Field(default=None, description=f"{_SCORE} Replaces the default as a whole.")
    baseline_share: Share | None = Field(default=None, description=_BASELINE_SHARE)
    max_attempts: Count | None = Field(default=None, description=_MAX_ATTEMPTS)
    stand_ins: bool | None = Field(default=None, description=_STAND_INS)


class DefaultsSection(Section):
    """What routes inherit where they do not say otherwise."""

    score: Score = Field(default={"preference": 1.0, "load": 128.0}, description=_SCORE)
    baseline_share: Share = Field(default=0.0, description=_BASELINE_SHARE)
    max_attempts: Count = Field(default=3, description=_MAX_ATTEMPTS)
    stand_ins: bool = Field(default=False, description=_STAND_INS)


class TimeoutsSection(Section):
    """Limits on the phases of one attempt, and on the whole request."""

    connect: Duration = Field(default=Timeouts().connect, description="Until the connection stands.")
    first_byte: Duration = Field(default=Timeouts().first_byte, description="From request to first byte.")
    idle: Duration = Field(default=Timeouts().idle, description="Between two pieces of a stream.")
    total: Duration = Field(default=Timeouts().total, description="The whole request, all attempts together.")
    keep_alive: DurationOrNever = Field(
        default=Timeouts().keep_alive,
        description="Silence after which a stream gets a comment, so that proxies keep it open.",
    )


class BreakerSection(Section):
    """When a backend is taken out for its failures, and how it comes back."""

    consecutive: Count = Field(
        default=BreakerSettings().consecutive, description="Failures in a row that take it out."
    )
    share: Share = Field(
        default=BreakerSettings().share, description="Share of failures within the window that takes it out."
    )
    window: Duration = Field(default=BreakerSettings().window, description="Time the share is taken over.")
    min_requests: Count = Field(
        default=BreakerSettings().min_requests,
        description="Requests within the window below which the share does not count.",
    )
    open: Duration = Field(
        default=BreakerSettings().open,
        description="Time until a request tries it again; doubles each time that fails.",
    )
    open_max: Duration = Field(
        default=BreakerSettings().open_max,
        description="Longest such time, and the longest Retry-After that is heeded.",
    )
    trials: Count = Field(default=BreakerSettings().trials, description="Requests that try it at a time.")
    slow_start: DurationOrNever = Field(
        default=BreakerSettings().slow_start,
        description="Time over which a backend that is back gets its full max_in_flight.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.open_max < self.open:
            raise mistake("open_max is shorter than open", "make open_max the longer one")
        return self


class RetriesSection(Section):
    """How many further attempts the gateway may make in all, so that failures do not become a storm."""

    share: Share = Field(
        default=BudgetSettings().share, description="Further attempts that each request pays for."
    )
    per_second: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=BudgetSettings().per_second, description="Further attempts that each second pays for."
    )
    burst: Count = Field(default=BudgetSettings().burst, description="Further attempts that can be saved up.")


class QueueSection(Section):
    """What becomes of requests while all backends that could take them are busy."""

    wait: DurationOrNever = Field(
        default=Waiting().wait, description="How long one waits before it is refused; 'never' waits."
    )
    length: Count = Field(default=Waiting().length, description="Requests that may wait at a time.")


class ResumeSection(Section):
    """What becomes of a stream that breaks off after a part of it was delivered."""

    mode: Literal["off", "exact"] = Field(
        default="off",
        description="off: it ends in an error event; exact: another backend goes on, token for token.",
    )
    limit: Count = Field(default=Resume().limit, description="How often others go on with one answer.")


class PolicyFile(Section):
    """How requests are routed."""

    version: Version
    models: dict[str, Text] = Field(
        default_factory=dict,
        description="Names that clients use → target model. A target is known by its own name too.",
    )
    defaults: DefaultsSection = Field(default_factory=DefaultsSection)
    timeouts: TimeoutsSection = Field(default_factory=TimeoutsSection)
    breaker: BreakerSection = Field(default_factory=BreakerSection)
    retries: RetriesSection = Field(default_factory=RetriesSection)
    queue: QueueSection = Field(default_factory=QueueSection)
    resume: ResumeSection = Field(default_factory=ResumeSection)
    classify: ClassifySection = Field(default_factory=ClassifySection)
    learning: LearningSection = Field(default_factory=LearningSection)
    classes: list[ClassSection] = Field(
        default_factory=list, description="Service classes; the first whose match fits takes the request."
    )
    trust_class: bool = Field(default=True, description="Whether the header x-specroute-class counts.")
    allow_pin: bool = Field(default=False, description="Whether the header x-specroute-backend is honoured.")
    stale_after: Duration = Field(default=15.0, description="Age at which scraped load is ignored.")
    evidence: Text | None = Field(
        default=None,
        description="File beside this one with the measurements it rests on, as `specroute sweep` writes it.",
        examples=["evidence.json"],
    )
    routes: list[RouteSection] = Field(
        description="Tried in order; the first whose match fits takes the request.",
        examples=[[{"name": "default", "prefer": ["any"]}]],
        json_schema_extra={"minItems": 1},
    )


def json_schema(model: type[FleetFile | PolicyFile]) -> str:
    """The JSON schema of a file, as text for an editor to read."""
    schema = {"$schema": JsonSchema.schema_dialect, **model.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
