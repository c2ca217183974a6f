from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.features import Hints
from gateway.core.outcome import Outcome
from gateway.core.sessions import REMEMBERED
from gateway.runtime.sessions import Sessions
from tests import factories

if TYPE_CHECKING:
    from gateway.core.outcome import Record


def answered(nature: str, *, at: float = 0.0, response_id: str = "", **request: str) -> Record:
    return factories.record(Outcome("ok", 200, nature=nature, response_id=response_id), at=at, **request)


def test_a_session_is_remembered_the_newest_answer_last() -> None:
    sessions = Sessions()
    for nature in ("text", "code", "math", "code", "code"):
        sessions.on_record(answered(nature, session="s"))
    assert sessions.before(Hints(session="s"), 0.0) == ("code", "math", "code", "code")
    assert len(sessions.before(Hints(session="s"), 0.0)) == REMEMBERED


@pytest.mark.parametrize("other", [Hints(), Hints(session="t"), Hints(session="s", tenant="acme")])
def test_other_sessions_and_those_of_other_tenants_are_not_mixed_up(other: Hints) -> None:
    sessions = Sessions()
    sessions.on_record(answered("code", session="s"))
    assert sessions.before(other, 0.0) == ()


def test_answers_that_show_nothing_are_not_remembered() -> None:
    sessions = Sessions()
    sessions.on_record(answered("", session="s"))
    sessions.on_record(answered("code"))
    sessions.on_record(answered("code", response_id="chatcmpl-1"))
    assert len(sessions) == 0


def test_a_response_is_gone_on_from_by_its_id_turn_by_turn() -> None:
    sessions = Sessions()
    sessions.on_record(answered("code", endpoint="responses", response_id="r1"))
    assert sessions.before(Hints(previous="r1"), 0.0) == ("code",)
    sessions.on_record(answered("text", endpoint="responses", response_id="r2", previous="r1"))
    assert sessions.before(Hints(previous="r2"), 0.0) == ("code", "text")
    assert sessions.before(Hints(previous="r1"), 0.0) == ("code",)  # which another turn may go on from
    assert sessions.before(Hints(session="s", previous="r1"), 0.0) == ()


def test_a_session_that_was_silent_for_long_is_forgotten() -> None:
    sessions = Sessions(forget=60.0)
    sessions.on_record(answered("code", at=100.0, session="s"))
    assert sessions.before(Hints(session="s"), 159.0) == ("code",)
    assert sessions.before(Hints(session="s"), 160.0) == ()
    sessions.on_record(answered("text", at=200.0, session="s"))
    assert sessions.before(Hints(session="s"), 200.0) == ("text",)


def test_memory_is_bounded_and_the_last_used_stay() -> None:
    sessions = Sessions(most=2)
    for name in ("a", "b", "a", "c"):
        sessions.on_record(answered("code", session=name))
    assert len(sessions) == 2
    known = [name for name in "abc" if sessions.before(Hints(session=name), 0.0)]
    assert known == ["a", "c"]


def test_a_failed_answer_changes_nothing() -> None:
    sessions = Sessions()
    sessions.on_record(answered("code", session="s"))
    failed = answered("", session="s")
    sessions.on_record(replace(failed, outcome=Outcome("timeout", 504)))
    assert sessions.before(Hints(session="s"), 0.0) == ("code",)
