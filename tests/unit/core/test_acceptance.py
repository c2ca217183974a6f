from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.acceptance import StreamSums, Stretch, mismatch, stream_sums
from gateway.core.classify import Classification
from gateway.core.decide import NoCandidate
from gateway.core.outcome import Outcome, Record, Trace, Usage
from tests.factories import features

OUTCOME = Outcome(
    status="ok",
    http_status=200,
    ttft=0.1,
    decode_seconds=1.0,
    first_tokens=1,
    events=21,
    usage=Usage(10, 51, 0),
)


def record(outcome: Outcome = OUTCOME, *, draft_tokens: int = 3, **asked: Any) -> Record:
    return Record(
        "r", Trace("0" * 32, "0" * 16), 0.0, 0, 0.0, 1.1, features(**asked), Classification("math", 0.9, "default"),
        NoCandidate("empty_pool", "", 0, None, (), "p", "f"), (), outcome, "b", "eagle3", draft_tokens,
    )  # fmt: skip


def test_each_event_after_the_first_is_a_step() -> None:
    sums = stream_sums(record())
    assert sums == StreamSums(1, 50, 20)
    assert sums.mean_accepted_length == 2.5
    assert stream_sums(record(replace(OUTCOME, most_tokens=4))) == sums
    assert sums.plus(StreamSums(1, 10, 10)) == StreamSums(2, 60, 30)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "cancelled"},
        {"tool_calls": True},
        {"backpressured": True},
        {"usage": Usage(10, None, None)},
        {"usage": Usage(10, 16, None)},
        {"decode_seconds": None},
        {"events": 1},
    ],
)
def test_a_stream_that_does_not_show_its_steps_tells_nothing(changes: dict[str, Any]) -> None:
    assert stream_sums(record(replace(OUTCOME, **changes))) is None


@pytest.mark.parametrize("changes", [{"most_tokens": 5}, {"events": 12}])
def test_of_a_stream_with_more_tokens_an_event_than_a_step_can_have_some_were_merged(
    changes: dict[str, Any],
) -> None:
    assert stream_sums(record(replace(OUTCOME, **changes))) == StreamSums(merged=50)


def test_where_many_events_were_merged_those_left_say_nothing() -> None:
    few = StreamSums(1, 95, 50).plus(StreamSums(merged=5))
    assert (few.mean_accepted_length, few.why_not) == (1.9, "")
    many = few.plus(StreamSums(merged=1))
    assert (many.mean_accepted_length, many.why_not) == (None, "merged_events")


def test_several_choices_other_endpoints_and_baselines_tell_nothing() -> None:
    assert stream_sums(record(n=2)) is None
    assert stream_sums(record(endpoint="responses")) is None
    assert stream_sums(record(endpoint="messages")) is None
    assert stream_sums(record(draft_tokens=0)) is None


def test_without_a_step_there_is_no_length() -> None:
    assert StreamSums().mean_accepted_length is None


def test_what_requests_told_is_compared_with_the_counter() -> None:
    assert mismatch(20.0, 20.0) == 0.0
    assert mismatch(20.0, 15.0) == 0.25
    assert mismatch(20.0, 25.0) == -0.2
    assert mismatch(20.0, 0.0) == 1.0


def test_a_server_that_counts_nothing_agrees_only_with_requests_that_told_nothing() -> None:
    assert mismatch(0.0, 0.0) == 0.0
    assert mismatch(0.0, 5.0) == -1.0


def test_a_stretch_is_judged_by_what_is_beyond_doubt() -> None:
    stretch = Stretch(opening=2.0, closing=1.0, generated=100.0, ours=96.0, counted=50.0, told=46.5)
    assert stretch.doubt == pytest.approx(0.03)
    assert not stretch.others
    assert not stretch.disagrees
    assert replace(stretch, opening=0.5).others
    assert replace(stretch, opening=0.5).disagrees
    assert replace(stretch, ours=94.0).others
    assert not replace(stretch, ours=150.0).others
    assert replace(stretch, told=55.0).disagrees


def test_a_stretch_in_which_nothing_was_generated_has_no_doubts() -> None:
    idle = Stretch(0.0)
    assert (idle.doubt, idle.others, idle.disagrees) == (0.0, False, False)
