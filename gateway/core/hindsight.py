"""What exploring cost after all: a server that was tried may have been better than it was thought to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core import reasons
from gateway.core.decide import NoCandidate
from gateway.core.outcome import OK
from gateway.core.predict import ask, predict

if TYPE_CHECKING:
    from gateway.core.outcome import Record
    from gateway.core.predict import Prediction


def regained(lost: float, cost: float, expected: Prediction, tokens: float, took: float) -> float:
    """Predicted seconds that were not lost after all, at most all of them.

    Args:
        lost: What the request was predicted to cost more than at the best server, in seconds.
        cost: What it was predicted to cost where it went.
        expected: What was predicted of its time there.
        tokens: Tokens of the answer.
        took: Seconds that the answer took.
    """
    share = took / (expected.ttft + expected.tpot * max(0.0, tokens - 1.0))
    return min(lost, max(0.0, cost - cost * share))


def regained_by(record: Record, stale_after: float) -> float:
    """The same of a finished request; 0 for one that did not explore, or was not answered where it explored.

    Args:
        record: The request.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """
    decision, outcome, snapshot = record.decision, record.outcome, record.snapshot
    if isinstance(decision, NoCandidate) or decision.reason != reasons.EXPLORES or snapshot is None:
        return 0.0
    first, tokens = decision.candidates[0], outcome.usage.output_tokens
    state = next(one for one in snapshot.states if one.backend.name == first.backend)
    if record.backend != first.backend or outcome.status != OK or tokens is None or state.model is None:
        return 0.0
    queue = state.queue(record.decided, stale_after)
    expected = predict(state.model, ask(record.features, record.classification), queue)
    took = record.ended - record.decided
    return regained(decision.lost, first.cost, expected, tokens, took)
