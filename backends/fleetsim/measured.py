"""What a simulation saw: a row for each request, and the figures of a window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backends.fleetsim.request import DONE, REFUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from backends.fleetsim.request import Request
    from backends.fleetsim.server import Server
    from backends.fleetsim.traffic import Limits


class Row(NamedTuple):
    """One request that ended; times are virtual seconds."""

    arrived: float
    first: float
    ended: float
    server: int
    source: int
    workload: str
    prompt_tokens: int
    output_tokens: int
    attempts: int
    ending: int
    serial: int

    @property
    def tpot(self) -> float:
        """Seconds a token after the first; 0 for an answer of one token."""
        return (self.ended - self.first) / max(1, self.output_tokens - 1)


@dataclass(slots=True)
class Log:
    """All requests that ended, and output tokens by server and source at the edges of the window.

    Attributes:
        start: Beginning of the window.
        end: End of the window.
        tokens: Output tokens that were made inside the window, by source.
        by_server: The same by server.
        rows: In the order in which they ended.
        unfinished: Requests under way at the end: (arrived, source).
        preemptions: Over the whole run.
        late: Requests of an open loop that were held in the gateway at the end.
    """

    start: float
    end: float
    tokens: list[int]
    by_server: list[int]
    rows: list[Row] = field(default_factory=list)
    unfinished: list[tuple[float, int]] = field(default_factory=list)
    preemptions: int = 0
    late: int = 0

    def add(self, request: Request) -> None:
        """Keep a request that has ended."""
        self.rows.append(
            Row(
                request.arrived, request.first, request.ended, request.server, request.source,
                request.workload, request.prompt_tokens, request.output_tokens, request.attempts,
                request.ending, request.serial,
            )
        )  # fmt: skip

    def open(self, servers: Sequence[Server], now: float) -> None:
        """Begin the window: what was made before does not count."""
        self._count(servers, now, -1)

    def close(self, servers: Sequence[Server], now: float) -> None:
        """End the window: what was made of answers under way counts, as all of those that ended in it."""
        self._count(servers, now, 1)
        for row in self.rows:
            if row.ending == DONE and self.start <= row.ended:
                self.tokens[row.source] += row.output_tokens
                self.by_server[row.server] += row.output_tokens

    def lost(self, server: Server, index: int, now: float) -> None:
        """Count what answers had got that a crash of their server breaks off now."""
        if self.start <= now < self.end:
            self._add(server, index, now, 1)

    def _count(self, servers: Sequence[Server], now: float, sign: int) -> None:
        for index, server in enumerate(servers):
            self._add(server, index, now, sign)

    def _add(self, server: Server, index: int, now: float, sign: int) -> None:
        for source, made in enumerate(server.emitted(now, len(self.tokens))):
            self.tokens[source] += sign * made
            self.by_server[index] += sign * made

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.end - self.start

    def tokens_per_second(self, source: int | None = None) -> float:
        """Output tokens a second in the window, of one source or all."""
        made = sum(self.tokens) if source is None else self.tokens[source]
        return made / self.seconds

    def arrivals(self, source: int | None = None) -> list[Row]:
        """Requests that arrived in the window and were answered."""
        return [
            row
            for row in self.rows
            if self.start <= row.arrived < self.end
            and row.ending == DONE
            and (source is None or row.source == source)
        ]

    def completion(self, source: int | None = None) -> NDArray[np.float64]:
        """Seconds from arrival to the last token of the requests that arrived in the window."""
        return np.array([row.ended - row.arrived for row in self.arrivals(source)])

    def kept(self, limits: Limits, source: int = 0) -> float:
        """Share of the requests of a source that arrived in the window and kept their limits.

        What was not answered, or was under way for longer than the limits allow, has missed them.
        """
        good = total = 0
        for row in self.rows:
            if row.source != source or not self.start <= row.arrived < self.end:
                continue
            total += 1
            if row.ending == DONE and row.first - row.arrived <= limits.ttft and row.tpot <= limits.tpot:
                good += 1
        total += sum(
            1 for arrived, of in self.unfinished if of == source and self.start <= arrived < self.end
        )
        return good / total if total else 1.0

    def shares(self, servers: int) -> list[float]:
        """Share of the answered requests that each server got."""
        counts = [0] * servers
        for row in self.rows:
            if row.ending == DONE and row.ended >= self.start:
                counts[row.server] += 1
        total = sum(counts) or 1
        return [count / total for count in counts]

    def failed(self) -> int:
        """Requests that arrived in the window and were refused, turned away or broken off."""
        return sum(self.start <= row.arrived < self.end and row.ending != DONE for row in self.rows)

    def answered(self) -> int:
        """Requests that were answered to the end, over the whole run."""
        return sum(row.ending == DONE for row in self.rows)

    def refused(self) -> int:
        """Requests that a server answered with 400."""
        return sum(row.ending == REFUSED for row in self.rows)

    def rate(self, edges: Sequence[float]) -> list[float]:
        """Output tokens a second between edges, from answers spread evenly over their decoding."""
        made = np.zeros(len(edges) - 1)
        bounds = np.asarray(edges)
        for row in self.rows:
            if row.ending != DONE:
                continue
            length = max(row.ended - row.first, 1e-9)
            inside = np.minimum(bounds[1:], row.ended) - np.maximum(bounds[:-1], row.first)
            made += row.output_tokens * np.maximum(inside, 0.0) / length
        return [float(value) for value in made / np.diff(bounds)]
