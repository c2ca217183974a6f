"""Whether answers still are what their requests were taken for, label by label: a test against how it was."""

from __future__ import annotations

from math import sqrt
from typing import Final

from gateway.core.values import value

REFERENCE: Final = 500
"""Answers of a label that tell how often they agree. Frozen then, so that slow drift shows too."""

BLOCK: Final = 200
"""Answers that are compared with it at a time."""

ALARM: Final = 4.0
"""Standard errors by which a block must agree less: by chance one block in 30,000 does."""

LEAST_DROP: Final = 0.05
"""A smaller fall than this is no alarm, however certain."""


@value(frozen=True, slots=True)
class Share:
    """How many answers agreed."""

    answers: int = 0
    agreed: int = 0

    def plus(self, *, agreed: bool) -> Share:
        """With one more answer."""
        return Share(self.answers + 1, self.agreed + agreed)

    @property
    def rate(self) -> float | None:
        """The share of them; None without any."""
        return self.agreed / self.answers if self.answers else None


def standard_errors(before: Share, now: Share) -> float:
    """By how many standard errors a share has fallen: the two-sample test of proportions, pooled.

    Args:
        before: At least one answer.
        now: At least one answer.
    """
    pooled = (before.agreed + now.agreed) / (before.answers + now.answers)
    variance = pooled * (1.0 - pooled) * (1.0 / before.answers + 1.0 / now.answers)
    fall = before.agreed / before.answers - now.agreed / now.answers
    return fall / sqrt(variance) if variance > 0.0 else 0.0


@value(frozen=True, slots=True)
class Watch:
    """What is known of one label's answers.

    Attributes:
        reference: The first :data:`REFERENCE` answers.
        block: Those that have come since the last full block.
        last: The last full block of :data:`BLOCK`.
    """

    reference: Share = Share()
    block: Share = Share()
    last: Share = Share()

    def after(self, *, agreed: bool) -> Watch:
        """With one more answer."""
        if self.reference.answers < REFERENCE:
            return Watch(self.reference.plus(agreed=agreed), self.block, self.last)
        block = self.block.plus(agreed=agreed)
        if block.answers < BLOCK:
            return Watch(self.reference, block, self.last)
        return Watch(self.reference, Share(), block)

    @property
    def fall(self) -> float:
        """Standard errors by which the last full block agrees less than the reference; 0 without one."""
        return standard_errors(self.reference, self.last) if self.last.answers else 0.0

    @property
    def drifted(self) -> bool:
        """Whether that is an alarm."""
        before, now = self.reference.rate, self.last.rate
        return before is not None and now is not None and before - now >= LEAST_DROP and self.fall >= ALARM
