from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.features import ENDPOINTS, WORKLOADS
from gateway.core.language import UNKNOWN
from gateway.core.language_words import LANGUAGES
from gateway.core.policy import Match
from gateway.policy import coverage
from gateway.policy.coverage import Requests

EVERY = Match()
WIDE = Match(
    models=frozenset({"a", "b"}),
    workloads=frozenset({"math"}),
    min_confidence=0.5,
    languages=frozenset({"es"}),
    endpoints=frozenset({"chat"}),
    stream=True,
    tenants=frozenset({"t"}),
    min_prompt_tokens=10,
    max_prompt_tokens=20,
)


def takers(*earlier: Match, of: Match = EVERY, **known: Any) -> tuple[int, ...]:
    return Requests([*earlier, of], **known).takers(of, earlier)


@pytest.mark.parametrize(
    "narrower",
    [
        {"models": frozenset({"a"})},
        {"min_confidence": 0.6},
        {"min_prompt_tokens": 11},
        {"max_prompt_tokens": 19},
        {},
    ],
)
def test_a_match_takes_what_is_narrower_in_any_respect(narrower: dict[str, Any]) -> None:
    assert takers(WIDE, of=replace(WIDE, **narrower)) == (0,)
    assert takers(EVERY, of=replace(WIDE, **narrower)) == (0,)


@pytest.mark.parametrize(
    "wider",
    [
        {"models": frozenset({"a", "c"})},
        {"models": frozenset()},
        {"workloads": frozenset()},
        {"languages": frozenset({"de"})},
        {"endpoints": frozenset()},
        {"tenants": frozenset({"u"})},
        {"min_confidence": 0.4},
        {"stream": None},
        {"stream": False},
        {"min_prompt_tokens": 9},
        {"max_prompt_tokens": 21},
        {"max_prompt_tokens": None},
    ],
)
def test_a_match_leaves_something_of_what_is_wider_in_one_respect(wider: dict[str, Any]) -> None:
    assert takers(WIDE, of=replace(WIDE, **wider)) == ()


def test_only_those_are_named_that_are_needed() -> None:
    short, long = Match(max_prompt_tokens=100), Match(min_prompt_tokens=50)
    math = Match(workloads=frozenset({"math"}))
    assert takers(math, short, math, long) == (1, 3)
    assert takers(short, long, EVERY) == (2,)
    assert takers(short, math) == ()


def test_names_of_closed_sets_can_all_be_taken() -> None:
    languages = sorted({*LANGUAGES, UNKNOWN})
    assert takers(
        Match(languages=frozenset(languages[::2])), Match(languages=frozenset(languages[1::2]))
    ) == (0, 1)
    assert takers(Match(endpoints=frozenset(ENDPOINTS[:3])), Match(endpoints=frozenset(ENDPOINTS[3:]))) == (
        0,
        1,
    )
    labels = [Match(workloads=frozenset({one})) for one in WORKLOADS]
    assert takers(*labels, labels=WORKLOADS) == tuple(range(6))
    assert takers(*labels, labels=(*WORKLOADS, "own")) == ()
    assert takers(*labels, labels=None) == ()


def test_a_request_without_a_model_is_one_too_unless_it_is_left_out() -> None:
    of = [Match(models=frozenset({one})) for one in "ab"]
    requests = Requests([*of, EVERY], models="ab")
    assert requests.takers(EVERY, of) == ()
    assert requests.takers(EVERY, of, named=True) == (0, 1)
    assert Requests([*of, EVERY], models="abc").takers(EVERY, of, named=True) == ()
    assert Requests([*of, EVERY]).takers(EVERY, of, named=True) == ()


def test_whether_something_gets_past_the_others() -> None:
    streams = [Match(stream=True), Match(stream=False)]
    requests = Requests([*streams, EVERY])
    assert requests.reaches(EVERY, streams) is False
    assert requests.reaches(EVERY, streams[:1]) is True


def test_what_is_too_hard_to_say_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [Match(stream=True), Match(stream=False)]
    monkeypatch.setattr(coverage, "MOST_LOOKS", 1)
    requests = Requests([*streams, EVERY])
    assert requests.reaches(EVERY, streams) is None
    assert requests.takers(EVERY, streams) == ()


def test_where_there_is_no_time_to_choose_all_that_have_a_part_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = [Match(stream=True), Match(stream=True, tenants=frozenset({"t"})), Match(stream=False)]
    monkeypatch.setattr(coverage, "MOST_LOOKS", 9)
    assert takers(*streams) == (0, 1, 2)
    monkeypatch.setattr(coverage, "MOST_LOOKS", 1000)
    assert takers(*streams) == (0, 2)


def test_there_is_an_end_to_all_answers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "MOST_LOOKS_IN_ALL", 2)
    requests = Requests([EVERY])
    assert [requests.takers(EVERY, [EVERY]) for _ in range(3)] == [(0,), (0,), ()]
