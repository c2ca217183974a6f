"""Whether a draft leaves the texts as they are: greedy answers beside those of the baseline."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from backends.sweep.stats import Measured

_Z: Final = 1.959963984540054


class Agreement(NamedTuple):
    """Whether greedy texts are those of the baseline.

    Attributes:
        compared: Prompts on which the baseline always said the same, and this one said something.
        different: Those on which this one said something else; of a prompt that was asked several times the
            share of its answers that did, and the sum of all rounded up.
        unstable: Prompts on which the baseline differs from itself; they show nothing.
    """

    compared: int
    different: int
    unstable: int

    @property
    def surely_different(self) -> float:
        """Lower bound of the share that differs: Wilson's 95 % interval."""
        if not self.compared:
            return 0.0
        n, share = self.compared, self.different / self.compared
        spread = _Z * math.sqrt(share * (1.0 - share) / n + (_Z / (2.0 * n)) ** 2)
        return max(0.0, (share + _Z**2 / (2.0 * n) - spread) / (1.0 + _Z**2 / n))


def agreement(backend: Measured, baseline: Measured | None) -> Agreement:
    """Compare the texts of two cells of one condition, prompt by prompt."""
    compared, different, unstable = 0, Fraction(), 0
    for prompt, texts in (baseline.digests if baseline else {}).items():
        if prompt not in backend.digests:
            continue
        if len(set(texts)) > 1:
            unstable += 1
            continue
        compared += 1
        own = backend.digests[prompt]
        different += Fraction(len(own) - own.count(texts[0]), len(own))
    return Agreement(compared, math.ceil(different), unstable)
