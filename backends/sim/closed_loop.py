"""Drive an engine in virtual time with a fixed number of clients that never think."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sim.engine import Engine, Job


@dataclass(frozen=True, slots=True)
class Measured:
    """What a window of virtual time saw.

    Attributes:
        seconds: Length of the window, whole steps.
        tokens: Output tokens in it.
        finished: Jobs that ended in it.
        drafts: Sequences verified with drafts, summed over steps.
        accepted: Drafts accepted.
    """

    seconds: float
    tokens: int
    finished: int
    drafts: int
    accepted: int

    @property
    def tokens_per_second(self) -> float:
        """Aggregate output rate."""
        return self.tokens / self.seconds

    @property
    def mean_accepted_length(self) -> float:
        """Tokens a step, bonus token included; 1 without drafts."""
        return 1.0 + (self.accepted / self.drafts if self.drafts else 0.0)


def closed_loop(
    engine: Engine, jobs: Iterator[Job], *, clients: int, warm_up: float, window: float
) -> Measured:
    """Keep ``clients`` jobs in an idle engine and measure after a warm-up.

    Args:
        engine: Driven until the window is over; jobs under way stay in it.
        jobs: Endless; the next one is submitted whenever one finishes.
        clients: Jobs in the engine at any time.
        warm_up: Virtual seconds before the window.
        window: Virtual seconds measured.
    """
    for _ in range(clients):
        engine.submit(next(jobs))
    counters = engine.counters
    now = 0.0
    start: tuple[float, int, int, int] | None = None
    finished = 0
    while (step := engine.begin()) is not None:
        if start is None and now >= warm_up:
            start = (now, counters.generation_tokens, counters.drafts, counters.accepted_tokens)
            finished = 0
        now += step.duration
        for emission in engine.finish(step):
            if emission.finished:
                finished += 1
                engine.submit(next(jobs))
        if start is not None and now >= start[0] + window:
            since, tokens, drafts, accepted = start
            return Measured(
                now - since,
                counters.generation_tokens - tokens,
                finished,
                counters.drafts - drafts,
                counters.accepted_tokens - accepted,
            )
    raise ValueError("a closed loop needs at least one client")
