"""What an engine has counted since its start."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate


@dataclass(slots=True)
class Counters:
    """Totals since the start, as a server's ``/metrics`` shows them.

    Attributes:
        histogram: Verified sequences by number of accepted drafts, index 0 to N, summed over steps; all
            numbers of speculation follow from it.
        steps: Engine steps.
        generation_tokens: Tokens handed out.
        prompt_tokens: Tokens of prompts whose prefill is complete, cached ones included.
        cached_tokens: Those of them found in the prefix cache.
        preemptions: Always 0: the KV cache is an estimate, not a limit.
    """

    histogram: list[int]
    steps: int = 0
    generation_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0

    @property
    def drafts(self) -> int:
        """Sequences verified with drafts, summed over steps."""
        return sum(self.histogram)

    @property
    def draft_tokens(self) -> int:
        """Draft tokens proposed."""
        return self.drafts * (len(self.histogram) - 1)

    @property
    def accepted_tokens(self) -> int:
        """Draft tokens accepted."""
        return sum(accepted * count for accepted, count in enumerate(self.histogram))

    @property
    def accepted_by_position(self) -> list[int]:
        """Accepted drafts at each of the N positions."""
        return list(accumulate(reversed(self.histogram[1:])))[::-1]
