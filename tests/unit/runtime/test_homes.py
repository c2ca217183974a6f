from __future__ import annotations

from dataclasses import replace

from gateway.core.features import Hints
from gateway.core.outcome import Outcome, Usage
from gateway.core.predict import Home
from gateway.runtime.homes import Homes
from tests.factories import record

ANSWER = Outcome("ok", 200, usage=Usage(100, 50), response_id="resp-1")


def answered(homes: Homes, outcome: Outcome = ANSWER, at: float = 0.0, **asked: str) -> None:
    homes.on_record(replace(record(outcome, at=at, **asked), backend="a", ended=at))


def test_a_conversation_is_where_it_was_answered_last() -> None:
    homes = Homes()
    assert homes.of(Hints(session="s"), 0.0) is None
    answered(homes, session="s")
    assert homes.of(Hints(session="s"), 1.0) == Home("a", 150.0)
    assert homes.of(Hints(session="s", tenant="other"), 1.0) is None
    assert homes.of(Hints(), 1.0) is None
    assert len(homes) == 1


def test_a_response_can_be_gone_on_from() -> None:
    homes = Homes()
    answered(homes, endpoint="responses")
    assert homes.of(Hints(previous="resp-1"), 1.0) == Home("a", 150.0)


def test_what_went_wrong_or_is_long_ago_is_nowhere() -> None:
    homes = Homes(cold=60.0)
    answered(homes, replace(ANSWER, status="upstream_error"), session="s")
    answered(homes, replace(ANSWER, usage=Usage()), session="s")
    answered(homes)
    assert len(homes) == 0
    answered(homes, replace(ANSWER, usage=Usage(100)), session="s")
    assert homes.of(Hints(session="s"), 59.0) == Home("a", 100.0)
    assert homes.of(Hints(session="s"), 61.0) is None


def test_the_last_used_are_remembered() -> None:
    homes = Homes(most=2)
    for name in ("s", "t", "s", "u"):
        answered(homes, session=name)
    assert [homes.of(Hints(session=name), 1.0) is not None for name in "stu"] == [True, False, True]
