from __future__ import annotations

from dataclasses import replace

from gateway.core.outcome import Outcome
from gateway.runtime.holders import Holders
from gateway.runtime.notes import Notebooks
from tests.factories import record

NAMES = {hash(name): name for name in "ab"}


def name_of(key: int) -> str:
    return NAMES.get(key, "")


def answered(
    holders: Holders, response: str = "", backend: str = "a", *, status: str = "ok", **asked: object
) -> None:
    outcome = Outcome(status, 200, response_id=response)
    holders.on_record(replace(record(outcome, **asked), backend=backend))


def test_a_response_is_held_by_who_gave_it() -> None:
    holders = Holders(None, name_of)
    answered(holders, "resp_1", endpoint="responses")
    answered(holders, "resp_2", "b", endpoint="responses", status="client_gone")
    answered(holders, "chat_1", endpoint="chat")
    answered(holders, "", endpoint="responses")
    found = [holders.of(one) for one in ("resp_1", "resp_2", "chat_1", "", "resp_3")]
    assert found == ["a", "b", "", "", ""]


def test_a_response_is_held_by_who_was_found_to_have_it() -> None:
    holders = Holders(None, name_of)
    answered(holders, "resp_1", "b", endpoint="other", previous="resp_1")
    answered(holders, "resp_2", "a", endpoint="other", previous="resp_2", status="client_error")
    answered(holders, "resp_4", "a", endpoint="responses", previous="resp_3")
    answered(holders, "", "a", endpoint="other", previous="resp_1", held=True)
    assert [holders.of(f"resp_{number}") for number in range(1, 5)] == ["b", "", "a", "a"]


def test_a_server_that_is_gone_holds_nothing() -> None:
    holders = Holders(None, lambda _: "")
    answered(holders, "resp_1", endpoint="responses")
    assert not holders.of("resp_1")


def test_the_last_ones_are_remembered() -> None:
    holders = Holders(None, name_of, most=2)
    for response in ("resp_1", "resp_2", "resp_1", "resp_3"):
        answered(holders, response, endpoint="responses")
    assert [holders.of(f"resp_{number}") for number in (1, 2, 3)] == ["a", "", "a"]


def test_workers_tell_each_other_who_holds_what() -> None:
    notebooks = Notebooks(2)
    one, two = (Holders(notebooks.of(number), name_of) for number in (0, 1))
    answered(one, "resp_1", endpoint="responses")
    answered(two, "resp_2", "b", endpoint="responses")
    assert [holders.of(f"resp_{number}") for holders in (one, two) for number in (1, 2)] == ["a", "b"] * 2
