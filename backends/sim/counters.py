"""What an engine has counted since its start."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals since the start, as a server's ``/metrics`` shows them.

    Attributes:
        steps: Engine steps.
        drafts: Sequences that were verified with drafts, summed over steps.
        accepted_by_position: Accepted drafts at each of the N positions.
        prompt_tokens: Tokens of prompts whose prefill is complete, cached ones included.
        cached_tokens: Those of them found in the prefix cache.
        preemptions: Always 0: the KV cache is an estimate, not a limit.
    """

    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    generation_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0

    def verified(self, drafted: int, accepted: int) -> None:
        """Count one sequence that was verified with drafts."""
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        for position in range(accepted):
            self.accepted_by_position[position] += 1
