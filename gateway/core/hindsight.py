"""What exploring cost after all: a server that was tried may have been better than it was thought to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core import reasons
from gateway.core.decide import NoCandidate
from gateway.core.outcome import OK
from gateway.core.predict import ask, predict

if TYPE_CHECKING:
    from gateway.core.classify import Classification
    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.fleet import Snapshot
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


def expected_first(
    decision: Decision,
    features: Features,
    classification: Classification,
    snapshot: Snapshot,
    now: float,
    stale_after: float,
) -> Prediction | None:
    """What was predicted of a request's time on its first candidate; None where nothing was known of that.

    Args:
        decision: Where it went.
        features: Of the request.
        classification: Of the request.
        snapshot: The fleet that the decision saw.
        now: When it was made, in monotonic seconds.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """
    first = decision.candidates[0].backend
    state = next(one for one in snapshot.states if one.backend.name == first)
    if state.model is None:
        return None
    return predict(state.model, ask(features, classification), state.queue(now, stale_after))


def regained_by(record: Record, stale_after: float) -> float:
    """What a finished request regained; 0 if it did not explore, or was not answered where it explored.

    Args:
        record: The request.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """
    decision, outcome, snapshot = record.decision, record.outcome, record.snapshot
    if isinstance(decision, NoCandidate) or decision.reason != reasons.EXPLORES or snapshot is None:
        return 0.0
    first, tokens = decision.candidates[0], outcome.usage.output_tokens
    if record.backend != first.backend or outcome.status != OK or tokens is None:
        return 0.0
    expected = expected_first(
        decision, record.features, record.classification, snapshot, record.decided, stale_after
    )
    if expected is None:
        return 0.0
    return regained(decision.lost, first.cost, expected, tokens, record.ended - record.decided)
