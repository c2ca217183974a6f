from __future__ import annotations

from dataclasses import replace

from gateway.core.features import Hints
from gateway.core.outcome import Outcome, Usage
from gateway.core.predict import Home
from gateway.runtime.homes import COLD_SECONDS, Homes
from gateway.runtime.notes import Notebooks
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


def test_workers_tell_each_other_where_conversations_were_answered() -> None:
    notebooks, names = Notebooks(2), {hash(name): name for name in "ab"}
    one, two = (
        Homes(notes=notebooks.of(number), name_of=lambda key: names.get(key, "")) for number in (0, 1)
    )
    answered(one, session="s", at=5.0)
    assert two.of(Hints(session="s"), 6.0) == Home("a", 150.0)
    assert two.of(Hints(session="s", tenant="other"), 6.0) is None
    assert two.of(Hints(session="s"), 5.0 + COLD_SECONDS) is None
    answered(two, replace(ANSWER, usage=Usage(200)), session="s", at=7.0)
    assert one.of(Hints(session="s"), 8.0) == Home("a", 200.0)
    answered(one, session="late", at=9.0)  # and is told of after what was answered since
    answered(two, replace(ANSWER, usage=Usage(300)), session="late", at=10.0)
    assert two.of(Hints(session="late"), 11.0) == Home("a", 300.0)


def test_a_server_that_another_worker_does_not_have_is_no_home() -> None:
    notebooks = Notebooks(2)
    one, two = (Homes(notes=notebooks.of(number), name_of=lambda _: "") for number in (0, 1))
    answered(one, session="s")
    assert two.of(Hints(session="s"), 1.0) is None
    assert len(two) == 0
