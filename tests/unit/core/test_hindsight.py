from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core import reasons
from gateway.core.candidates import Candidate
from gateway.core.decide import Decision
from gateway.core.hindsight import regained, regained_by
from gateway.core.outcome import Outcome, Usage
from gateway.core.predict import Prediction, ServerModel, predict
from gateway.core.predict import ask as asked
from tests.factories import record, snapshot, state

if TYPE_CHECKING:
    from gateway.core.outcome import Record

TOKENS = 101
MODEL = ServerModel("mtp", measured=1.0)


def explored(share: float) -> Record:
    """A request on a server where it took so many times what was predicted; 4 s of 10 were to be lost."""
    done = record(Outcome("ok", 200, usage=Usage(10, TOKENS, 0)))
    expected = predict(MODEL, asked(done.features, done.classification), 0.0)
    took = share * (expected.ttft + expected.tpot * (TOKENS - 1))
    candidates = (Candidate("a", 10.0, (10.0,)), Candidate("b", 6.0, (6.0,)))
    decision = Decision("all", "t", candidates, (), reasons.EXPLORES, 0.1, 3, "p", "f")
    seen = snapshot(state("b"), state("a", model=MODEL))
    return replace(done, decision=decision, backend="a", ended=done.decided + took, snapshot=seen)


@pytest.mark.parametrize(
    ("took", "found"), [(10.9, 0.0), (20.0, 0.0), (8.175, 2.5), (6.54, 4.0), (1.0, 4.0), (0.0, 4.0)]
)
def test_what_was_not_lost_is_the_less_the_longer_it_took(took: float, found: float) -> None:
    expected = Prediction(1.0, 0.1, 10.9, 0.0)
    assert regained(4.0, 10.0, expected, 100.0, took) == pytest.approx(found)


def test_an_answer_without_tokens_after_the_first_goes_by_the_first() -> None:
    assert regained(4.0, 10.0, Prediction(1.0, 0.1, 1.0, 0.0), 0.0, 0.9) == pytest.approx(1.0)


@pytest.mark.parametrize(("share", "found"), [(1.0, 0.0), (0.8, 2.0), (0.3, 4.0)])
def test_it_is_told_by_the_request_that_explored(share: float, found: float) -> None:
    assert regained_by(explored(share), 15.0) == pytest.approx(found)


def test_other_requests_tell_nothing() -> None:
    done = explored(0.5)
    assert isinstance(done.decision, Decision)
    for other in (
        record(Outcome("ok", 200)),
        replace(done, decision=replace(done.decision, reason=reasons.LOWEST_COST)),
        replace(done, snapshot=None),
        replace(done, snapshot=snapshot(state("a"))),
        replace(done, backend="b"),
        replace(done, outcome=Outcome("error", 500, usage=Usage(10, TOKENS, 0))),
        replace(done, outcome=Outcome("ok", 200)),
    ):
        assert regained_by(other, 15.0) == 0.0
