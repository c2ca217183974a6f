from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.features import WORKLOADS
from gateway.core.fleet import METHODS
from gateway.core.policy import ClassifierSettings, Resume, Timeouts, Waiting
from gateway.core.scorers import SCORERS
from gateway.policy.classify import ClassifySection
from gateway.policy.schema import (
    BackendSection,
    BreakerSection,
    FleetFile,
    MatchSection,
    PolicyFile,
    QueueSection,
    ResumeSection,
    RetriesSection,
    RouteSection,
    Section,
    SelectorSection,
    TimeoutsSection,
    json_schema,
)

SECTIONS = Section.__subclasses__()
POLICIES = Path(__file__).parents[3] / "policies"


@pytest.mark.parametrize(("name", "model"), [("fleet", FleetFile), ("policy", PolicyFile)])
def test_the_json_schemas_are_in_step_with_the_models(name: str, model: type[FleetFile | PolicyFile]) -> None:
    """Regenerate them with tools/policy_schemas.py."""
    assert (POLICIES / f"{name}.schema.json").read_text(encoding="utf-8") == json_schema(model)


def test_the_json_schema_lets_editors_complete_closed_sets_and_short_forms() -> None:
    definitions = PolicyFile.model_json_schema()["$defs"]
    workload = definitions["MatchSection"]["properties"]["workload"]
    assert workload["anyOf"][0]["anyOf"][0]["enum"] == sorted(WORKLOADS)
    assert workload["anyOf"][1] == {"type": "array", "items": workload["anyOf"][0]}
    short, full = definitions["SelectorSection"]["anyOf"]
    assert short["type"] == "string"
    assert set(full["properties"]) == {"name", "method", "draft_tokens", "labels", "max_in_flight"}
    assert definitions["DefaultsSection"]["properties"]["score"]["propertyNames"]["enum"] == sorted(SCORERS)
    backend = FleetFile.model_json_schema()["$defs"]["BackendSection"]
    assert backend["properties"]["method"]["enum"] == sorted(METHODS)
    assert backend["additionalProperties"] is False
    assert backend["required"] == ["name", "url", "model"]


def test_the_defaults_are_those_of_the_core() -> None:
    times, classify = TimeoutsSection(), ClassifySection()
    assert Timeouts(**times.model_dump()) == Timeouts()
    assert ClassifierSettings(**classify.model_dump(exclude={"rules"})) == ClassifierSettings()


def test_what_is_said_of_failures_by_default_is_what_the_core_says() -> None:
    assert BreakerSettings(**BreakerSection().model_dump()) == BreakerSettings()
    assert BudgetSettings(**RetriesSection().model_dump()) == BudgetSettings()
    assert Waiting(**QueueSection().model_dump()) == Waiting()
    assert Resume(**ResumeSection().model_dump()) == Resume()


def test_the_longest_time_out_is_not_shorter_than_the_first() -> None:
    with pytest.raises(ValidationError, match="open_max is shorter than open"):
        BreakerSection.model_validate({"open": "10s", "open_max": "9s"})


def test_every_key_that_must_be_given_has_an_example() -> None:
    for model in (BackendSection, FleetFile, RouteSection, PolicyFile):
        for name, field in model.model_fields.items():
            assert field.examples or not field.is_required(), (model, name)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_reference_has_every_key_method_and_scorer(section: type[Section]) -> None:
    text = (POLICIES.parent / "docs" / "policy.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    words = set(re.findall(r"[a-z0-9_-]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert {*section.model_fields} - {"version", "backends"} <= words
    assert {*METHODS, *WORKLOADS, *SCORERS} <= words


@pytest.mark.parametrize(
    ("written", "name", "method"),
    [("any", None, None), ("qwen*", "qwen*", None), ({"method": "dflash"}, None, "dflash")],
)
def test_a_preference_is_any_a_name_or_fields(written: object, name: str | None, method: str | None) -> None:
    selector = SelectorSection.model_validate(written)
    assert (selector.name, selector.method) == (name, method)


def test_a_list_of_one_may_be_its_item() -> None:
    match = MatchSection.model_validate({"workload": "math", "model": ["a", "b"], "language": "es"})
    assert (match.workload, match.model, match.language) == (["math"], ["a", "b"], ["es"])
