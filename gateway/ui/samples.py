"""Counters of the last minutes, so that the page can say what holds now rather than since the start."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.telemetry.tally import Values

INTERVAL: Final = 5.0
"""Seconds between two samples."""

KEPT: Final = 15 * 60.0
"""Seconds that samples go back."""

CELLS: Final = 100_000
"""Cells held at most, some 30 MB: with a thousand backends samples are further apart."""

BAD: Final = frozenset({"upstream_error", "timeout", "truncated", "rejected"})
"""Requests that failed by our fault or the backends'."""


FIRST_TOKEN: Final = names.GENAI["0.1.0"].server_first_token
"""What clients wait for; of the same name in all versions of the conventions."""


class Cell(NamedTuple):
    """Sums of one workload on one backend."""

    requests: float = 0.0
    failed: float = 0.0
    output_tokens: float = 0.0
    decode_tokens: float = 0.0
    decode_time: float = 0.0
    steps: float = 0.0
    drafted: float = 0.0
    accepted: float = 0.0
    first_tokens: float = 0.0
    first_token_time: float = 0.0

    def minus(self, other: Cell) -> Cell:
        """What was added since another sample."""
        return Cell(*(now - then for now, then in zip(self, other, strict=True)))

    def plus(self, other: Cell) -> Cell:
        """Both together."""
        return Cell(*(one + two for one, two in zip(self, other, strict=True)))


NOTHING: Final = Cell()


@dataclass(frozen=True, slots=True)
class Sample:
    """All sums at one moment.

    Attributes:
        at: Monotonic seconds.
        cells: By workload, backend and method.
        positions: Accepted draft tokens by backend and position.
        first_tokens: Streams that had a token, and the seconds that clients waited for it from the request's
            head, whatever backends were tried meanwhile.
    """

    at: float
    cells: dict[Values, Cell] = field(default_factory=dict)
    positions: dict[tuple[str, int], float] = field(default_factory=dict)
    first_tokens: tuple[float, float] = (0, 0.0)


class Source(Protocol):
    """Where the sums come from: what telemetry counts."""

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        """A counter by label values."""

    def sums(self, metric: names.Metric) -> dict[Values, tuple[int, float]]:
        """Measurements of a histogram and their sum, by label values."""


def take(source: Source, now: float) -> Sample:
    """The sums as they are.

    Args:
        source: Where they come from.
        now: Monotonic seconds.
    """
    numbers = source.numbers
    requests: dict[Values, float] = {}
    failed: dict[Values, float] = {}
    for (*labels, status), count in numbers(names.REQUESTS).items():
        key = tuple(labels)
        requests[key] = requests.get(key, 0.0) + count
        if status in BAD:
            failed[key] = failed.get(key, 0.0) + count
    columns = [
        numbers(metric)
        for metric in (
            names.OUTPUT_TOKENS, names.DECODE_TOKENS, names.DECODE_TIME, names.STEPS, names.DRAFTED,
            names.ACCEPTED,
        )
    ]  # fmt: skip
    first_tokens = source.sums(names.TTFT)
    cells = {}
    for key, count in requests.items():
        sums = (column.get(key, 0.0) for column in columns)
        cells[key] = Cell(count, failed.get(key, 0.0), *sums, *first_tokens.get(key, (0.0, 0.0)))
    positions: dict[tuple[str, int], float] = {}
    for (_, backend, _, position), count in numbers(names.ACCEPTED_AT).items():
        place = (backend, int(position))
        positions[place] = positions.get(place, 0.0) + count
    waited = source.sums(FIRST_TOKEN).values()
    first = (sum(count for count, _ in waited), sum(seconds for _, seconds in waited))
    return Sample(now, cells, positions, first)


class Samples:
    """The samples of the last minutes, oldest first. Has one owner, who adds to them."""

    def __init__(self, source: Source, now: float) -> None:
        self._source = source
        self._kept: deque[Sample] = deque([Sample(now)], maxlen=int(KEPT / INTERVAL) + 1)

    def add(self, now: float) -> None:
        """Take one more; where all together would be too many, every other one goes."""
        taken, before = take(self._source, now), self._kept[-1].cells
        for key, cell in taken.cells.items():
            if before.get(key) == cell:
                taken.cells[key] = before[key]  # one object for both
        kept = [*self._kept, taken]
        if sum(len(each.cells) for each in kept) > CELLS:
            kept = kept[::-2][::-1]
        self._kept = deque(kept, maxlen=self._kept.maxlen)

    async def run(self, clock: Callable[[], float]) -> None:
        """Take one now and then, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            await asyncio.to_thread(self.add, clock())

    def since(self, window: float, now: float) -> tuple[Sample, Sample]:
        """What was counted in a window: the sums at its beginning, and as they are now."""
        kept = self._kept
        begin = next((each for each in reversed(kept) if each.at <= now - window), kept[0])
        return begin, take(self._source, now)

    def all(self) -> tuple[Sample, ...]:
        """All of them."""
        return tuple(self._kept)
