from __future__ import annotations

import pytest

from gateway.core.fleet import REFUSED_WITH_DRAFT
from gateway.core.policy import Match, Selector, WeightedScorer
from gateway.policy.compile import Fleet, backend, match, revision, route, selector
from gateway.policy.schema import BackendSection, DefaultsSection, MatchSection, RouteSection, SelectorSection


def section(**fields: object) -> BackendSection:
    return BackendSection.model_validate({"name": "a", "url": "http://h:1", "model": "m/x", **fields})


def test_what_a_server_refuses_follows_its_method_unless_said() -> None:
    assert backend(section(), {}).refuses == frozenset()
    assert backend(section(method="mtp", draft_tokens=3), {}).refuses == REFUSED_WITH_DRAFT
    assert backend(section(method="mtp", draft_tokens=3, refuses=[]), {}).refuses == frozenset()
    assert backend(section(refuses=["logprobs"]), {}).refuses == {"logprobs"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, set()),
        ({"dtype": "float16"}, {"tools"}),
        ({"enable-auto-tool-choice": True}, set()),
        ({"enable_auto_tool_choice": True, "max_logprobs": 0}, {"top_logprobs", "prompt_logprobs"}),
        ({"enable-auto-tool-choice": False, "max-logprobs": 5}, {"tools"}),
    ],
)
def test_what_a_server_refuses_follows_from_its_flags(args: dict[str, object], expected: set[str]) -> None:
    assert backend(section(launch={"args": args}), {}).refuses == expected
    assert backend(section(launch={"args": args}, refuses=["n"]), {}).refuses == {"n"}


def test_servers_with_other_flags_are_of_another_kind() -> None:
    kinds = {
        backend(section(launch={"args": args}), {}).kind
        for args in ({}, {"dtype": "float16"}, {"dtype": "bfloat16"}, {"dtype": "bfloat16"})
    }
    assert len(kinds) == 3


def test_a_key_comes_from_the_environment() -> None:
    assert backend(section(api_key_env="KEY"), {"KEY": "secret"}).api_key == "secret"
    assert backend(section(api_key_env="KEY"), {}).api_key is None
    assert "secret" not in repr(backend(section(api_key_env="KEY"), {"KEY": "secret"}))


def test_the_served_model_is_the_target_unless_said() -> None:
    assert backend(section(), {}).served_model == "m/x"
    assert backend(section(served_model="x"), {}).served_model == "x"


def test_a_match_left_out_takes_everything_and_a_selector_any() -> None:
    assert match(MatchSection()) == Match()
    assert selector(SelectorSection.model_validate("any")) == Selector()


def test_a_route_takes_a_default_only_where_it_says_nothing() -> None:
    defaults = DefaultsSection.model_validate(
        {"score": {"load": 2}, "baseline_share": "5%", "max_attempts": 2}
    )
    silent = route(RouteSection.model_validate({"name": "r", "prefer": ["any"]}), defaults)
    assert (silent.scorers, silent.baseline_share, silent.max_attempts) == (
        (WeightedScorer("load", 2.0),),
        0.05,
        2,
    )
    said = {
        "name": "r",
        "prefer": ["any"],
        "score": {"preference": 0},
        "baseline_share": 0,
        "max_attempts": 1,
    }
    own = route(RouteSection.model_validate(said), defaults)
    assert (own.scorers, own.baseline_share, own.max_attempts) == (
        (WeightedScorer("preference", 0.0),),
        0.0,
        1,
    )


def test_a_revision_is_the_beginning_of_the_content_hash() -> None:
    assert revision("a") == "ca978112ca1b"
    assert revision("b") != revision("a")


def test_an_idle_fleet_has_every_backend_available() -> None:
    idle = Fleet((backend(section(), {}),), "r1").idle()
    assert [(state.backend.name, state.available(0.0), state.in_flight) for state in idle.states] == [
        ("a", True, 0)
    ]
    assert idle.revision == "r1"
