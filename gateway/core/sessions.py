"""What a session's earlier answers say of the next one, where the request itself does not hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.answer import TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.core.features import RequestView

WORKLOADS_BY_NATURE: Final[Mapping[str, tuple[str, ...]]] = {
    "tool_use": ("tool_use",),
    "code": ("code",),
    "math": ("math",),
    "multilingual": ("multilingual",),
    TEXT: ("chat", "grounded"),
}
"""Labels that an answer of each of :data:`gateway.core.answer.NATURES` agrees with."""

REMEMBERED: Final = 4
"""Answers of a session that are remembered; the newest counts most, each one before it half as much."""

STRENGTH: Final = 0.5
"""By how much the odds of a label grow where all answers before were of its kind. Conversations of the
training data whose earlier turns were taken away are labelled 0.7 % better with it and 2 % worse with four
times that; those that hold their turns only become worse, since the model reads them (docs/classifier.md)."""


def remember(natures: Sequence[str], nature: str) -> tuple[str, ...]:
    """The natures of a session's last answers, the newest last, once one more has come."""
    return (*natures, nature)[-REMEMBERED:]


def agrees(workload: str, nature: str) -> bool | None:
    """Whether an answer is what its request was taken for; None for a label that answers do not show."""
    shown = [one for one, labels in WORKLOADS_BY_NATURE.items() if workload in labels]
    return nature in shown if shown else None


def unseen(view: RequestView) -> bool:
    """Whether a request holds none of the answers before it, so that memory adds to what it shows."""
    return not any(turn.role in {"assistant", "tool"} for turn in view.turns)


def weigh(scores: Mapping[str, float], natures: Sequence[str]) -> dict[str, float]:
    """Probabilities by label with what a session's earlier answers were.

    Args:
        scores: Probabilities by label that add up to 1.
        natures: Of the answers before, the newest last; at least one. One that is not of
            :data:`gateway.core.answer.NATURES` speaks for no label.
    """
    shares: dict[str, float] = {}
    weight = 1.0
    for nature in reversed(natures):
        for label in WORKLOADS_BY_NATURE.get(nature, ()):
            shares[label] = shares.get(label, 0.0) + weight
        weight /= 2
    whole = 2.0 * (1.0 - weight)
    odds = {
        label: score * (1.0 + STRENGTH * shares.get(label, 0.0) / whole) for label, score in scores.items()
    }
    total = sum(odds.values())
    return {label: one / total for label, one in odds.items()}
