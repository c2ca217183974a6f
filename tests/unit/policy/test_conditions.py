from __future__ import annotations

from dataclasses import fields

import pytest

from gateway.core.classify import Classification
from gateway.core.features import Hints, RequestView, Turn, extract
from gateway.core.policy import Match, Selector
from gateway.policy.conditions import conditions, describe, spell_selector

REQUEST = extract(
    RequestView("chat", "x", stream=True, turns=(Turn("user", "hello " * 20, 120),), hints=Hints(tenant="t"))
)
MATH = Classification("math", 0.7, "rule:latex")

MET = Match(
    models=frozenset({"x"}),
    workloads=frozenset({"math", "code"}),
    min_confidence=0.6,
    languages=frozenset({REQUEST.output_language}),
    endpoints=frozenset({"chat"}),
    stream=True,
    tenants=frozenset({"t", "u"}),
    min_prompt_tokens=10,
    max_prompt_tokens=40,
)
UNMET = Match(
    models=frozenset({"y"}),
    workloads=frozenset({"chat"}),
    min_confidence=0.8,
    languages=frozenset({"zu"}),
    endpoints=frozenset({"completions"}),
    stream=False,
    tenants=frozenset({"u"}),
    min_prompt_tokens=31,
    max_prompt_tokens=29,
)


def test_every_condition_is_said_and_held_against_the_request() -> None:
    found = conditions(MET, REQUEST, MATH)
    assert all(one.met for one in found)
    assert [(one.wanted, one.actual) for one in found] == [
        ("model x", "model x"),
        ("workload code or math", "workload math"),
        ("confidence at least 0.6", "confidence 0.7"),
        (f"language {REQUEST.output_language}", f"language {REQUEST.output_language}"),
        ("endpoint chat", "endpoint chat"),
        ("a stream", "a stream"),
        ("tenant t or u", "tenant t"),
        ("at least 10 prompt tokens", "about 30 prompt tokens"),
        ("at most 40 prompt tokens", "about 30 prompt tokens"),
    ]
    assert len(found) == len(fields(Match))


def test_each_condition_is_judged_by_itself() -> None:
    found = conditions(UNMET, REQUEST, MATH)
    assert len(found) == len(fields(Match))
    assert not any(one.met for one in found)
    assert found[5].wanted == "no stream"


def test_what_the_request_does_not_say_is_said_so() -> None:
    silent = extract(RequestView("completions", ""))
    actual = {one.actual for one in conditions(MET, silent, MATH)}
    assert {"model (none named)", "no stream", "tenant (none)", "endpoint completions"} <= actual


def test_a_route_without_conditions_takes_everything() -> None:
    assert conditions(Match(), REQUEST, MATH) == ()
    assert describe(Match()) == "every request"
    assert describe(Match(workloads=frozenset({"math"}), stream=False)) == "workload math, no stream"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (Selector(), "any"),
        (Selector(name="qwen*"), "qwen*"),
        (Selector(method="dflash", draft_tokens=7), "method: dflash, draft_tokens: 7"),
        (Selector(name="a", labels={"hardware": "MI300X"}), "name: a, hardware: MI300X"),
        (Selector(method="mtp", max_in_flight=11), "method: mtp, max_in_flight: 11"),
        (Selector(max_in_flight=2), "any, max_in_flight: 2"),
    ],
)
def test_a_selector_is_spelled_as_it_may_be_written(selector: Selector, text: str) -> None:
    assert spell_selector(selector) == text
