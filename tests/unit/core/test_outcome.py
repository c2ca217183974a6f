from __future__ import annotations

import pytest

from gateway.core.outcome import Outcome, Speculation, Usage, accepted_by_position


def test_numbers_of_a_measured_request() -> None:
    # N = 3; 10 steps, of which 2 accepted nothing, 3 one draft, 1 two, 4 all three.
    spec = Speculation("exact", steps=10, drafted=30, accepted=17, histogram=(2, 3, 1, 4))
    assert spec.mean_accepted_length == pytest.approx(2.7)
    assert spec.acceptance_rate == pytest.approx(17 / 30)
    assert accepted_by_position(spec.histogram) == (8, 5, 4)
    assert sum(accepted_by_position(spec.histogram)) == spec.accepted


def test_acceptance_by_position_never_rises() -> None:
    assert accepted_by_position((1, 0, 0, 2, 0)) == (2, 2, 2, 0)


@pytest.mark.parametrize("grade", ["none", "not_measured"])
def test_nothing_measured_is_not_zero(grade: str) -> None:
    spec = Speculation(grade)
    assert spec.mean_accepted_length is None
    assert spec.acceptance_rate is None
    assert accepted_by_position(spec.histogram) == ()


def test_steps_that_accepted_nothing_yield_one_token_each() -> None:
    spec = Speculation("exact", steps=4, drafted=12, accepted=0, histogram=(4, 0, 0, 0))
    assert spec.mean_accepted_length == 1.0
    assert spec.acceptance_rate == 0.0
    assert accepted_by_position(spec.histogram) == (0, 0, 0)


def test_tpot_is_the_time_of_a_token_after_the_first_event() -> None:
    outcome = Outcome("ok", 200, decode_seconds=2.0, first_tokens=5, usage=Usage(7, 105))
    assert outcome.decode_tokens == 100
    assert outcome.tpot == pytest.approx(0.02)


def test_an_answer_of_one_event_has_no_tpot() -> None:
    outcome = Outcome("ok", 200, decode_seconds=0.0, first_tokens=5, usage=Usage(7, 5))
    assert outcome.decode_tokens == 0
    assert outcome.tpot is None


def test_more_tokens_in_the_first_event_than_reported_are_not_negative() -> None:
    outcome = Outcome("ok", 200, decode_seconds=1.0, first_tokens=5, usage=Usage(7, 3))
    assert outcome.decode_tokens == 0
    assert outcome.tpot is None


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("ok", 200, decode_seconds=1.0),
        Outcome("ok", 200, usage=Usage(7, 105)),
        Outcome("rejected", 503),
    ],
)
def test_what_was_not_reported_has_no_rate(outcome: Outcome) -> None:
    assert outcome.decode_tokens is None
    assert outcome.tpot is None
