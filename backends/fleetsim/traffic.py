"""Where requests come from: a mix of workloads, lengths, and clients that wait or arrive at a rate."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.fleetsim.request import Request
from backends.sim import profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backends.fleetsim.draws import Draws
    from backends.sim.configuration import Lengths

CHAT70: Final = {
    "math": 0.06, "code": 0.10, "chat": 0.70, "tool_use": 0.05, "multilingual": 0.05, "grounded": 0.04,
}  # fmt: skip
CODE: Final = {
    "math": 0.10, "code": 0.60, "chat": 0.15, "tool_use": 0.05, "multilingual": 0.05, "grounded": 0.05,
}  # fmt: skip
RAG: Final = {
    "math": 0.05, "code": 0.10, "chat": 0.25, "tool_use": 0.10, "multilingual": 0.05, "grounded": 0.45,
}  # fmt: skip
EQUAL: Final = dict.fromkeys(CHAT70, 1 / 6)
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    "chat70": CHAT70,
    "code60": CODE,
    "rag": RAG,
    "equal": EQUAL,
}
"""Mixes of workloads by the name that the command line takes; shares of requests."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A number that changes at given times.

    Attributes:
        values: (from when on, value), ascending from 0.
        period: Seconds after which it starts anew; 0 for never.
    """

    values: tuple[tuple[float, float], ...]
    period: float = 0.0

    def __call__(self, now: float) -> float:
        """Value at a time."""
        at = now % self.period if self.period else now
        return self.values[max(0, bisect_right(self.values, (at, math.inf)) - 1)][1]

    @property
    def most(self) -> float:
        """Highest value."""
        return max(value for _, value in self.values)

    def changes(self, until: float) -> list[float]:
        """Times above 0 at which the value may change."""
        rounds = range(int(until / self.period) + 1) if self.period else range(1)
        times = [start + turn * self.period for turn in rounds for start, _ in self.values]
        return [time for time in times if 0.0 < time < until]


def steady(value: float) -> Steps:
    """A number that does not change."""
    return Steps(((0.0, value),))


def ramp(low: float, high: float, *, rise: float, steps: int = 24) -> Steps:
    """From ``low`` to ``high`` in ``rise`` seconds and back again, over and over."""
    up = [low + (high - low) * step / steps for step in range(steps)]
    down = [high - (high - low) * step / steps for step in range(steps)]
    values = tuple((rise * at / steps, value) for at, value in enumerate(up + down))
    return Steps(values, period=2.0 * rise)


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of workloads, which may change with time.

    Attributes:
        phases: (seconds, shares by workload), one after the other and then from the start again. Shares
            need not add up to 1.
    """

    phases: tuple[tuple[float, Mapping[str, float]], ...]
    _sums: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sums = []
        for _, shares in self.phases:
            total = sum(shares.values())
            sums.append((tuple(shares), tuple(accumulate(share / total for share in shares.values()))))
        object.__setattr__(self, "_sums", tuple(sums))

    def at(self, now: float) -> Mapping[str, float]:
        """Shares at a time."""
        return self.phases[self._phase(now)][1]

    def pick(self, uniform: float, now: float) -> str:
        """The workload that a uniform number in [0, 1) stands for."""
        names, sums = self._sums[self._phase(now)]
        return names[min(bisect_right(sums, uniform), len(names) - 1)]

    def _phase(self, now: float) -> int:
        if len(self.phases) == 1:
            return 0
        at = now % sum(seconds for seconds, _ in self.phases)
        for index, (seconds, _) in enumerate(self.phases):
            if at < seconds:
                return index
            at -= seconds
        return 0


def constant(shares: Mapping[str, float]) -> Mix:
    """A mix that does not change."""
    return Mix(((math.inf, shares),))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep to count as good: seconds to the first token, and seconds a token after it."""

    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class Source:
    """Clients of one kind.

    Attributes:
        mix: Workloads of their requests.
        clients: How many there are, in a closed loop without think time; None for an open loop.
        rate: Requests a second, in an open loop with Poisson arrivals; None for a closed loop.
        name: Service class of the requests.
        limits: What they ask for; None where only throughput counts.
        refused_share: By workload, share of requests with a parameter that servers with a draft refuse.
        label_errors: Share of requests whose label is another workload of the mix than the right one.
        lengths: Lengths by workload; the assumed ones of :mod:`backends.sim.profiles` where left out.
        turns: Mean turns of a conversation; above 1 each turn repeats what was said before.
    """

    mix: Mix
    clients: Steps | None = None
    rate: Steps | None = None
    name: str = "default"
    limits: Limits | None = None
    refused_share: Mapping[str, float] = field(default_factory=dict)
    label_errors: float = 0.0
    lengths: Mapping[str, Lengths] = field(default_factory=dict)
    turns: float = 1.0

    def __post_init__(self) -> None:
        if (self.clients is None) == (self.rate is None):
            raise ValueError(f"source {self.name!r} needs either clients or a rate")


NEEDS: Final = frozenset({"min_p"})
"""What a request carries that servers with a draft refuse."""

_BLOCK: Final = 4096


class Stream:
    """The requests of one source, drawn from a seed: the same ones in the same order for every policy.

    Args:
        source: What to draw.
        index: Of the source, kept in each request.
        seed: Of everything in it.
        draws: Acceptance draws of the simulation.
    """

    def __init__(self, source: Source, index: int, seed: int, draws: Draws) -> None:
        self.source = source
        self._index = index
        self._rng = np.random.default_rng((seed, index, 1))
        self._arrivals = np.random.default_rng((seed, index, 2))
        self._sessions = np.random.default_rng((seed, index, 3))
        self._draws = draws
        self._lengths = {
            workload: self._of(workload) for _, shares in source.mix.phases for workload in shares
        }
        self._block: Iterator[tuple[float, ...]] = iter(())
        self._open: list[tuple[int, str, int]] = []
        self._conversations = 0

    def _of(self, workload: str) -> tuple[float, float, float, float]:
        found = self.source.lengths.get(workload) or profiles.lengths(workload)
        variance = math.log(1.0 + found.variation**2)
        return found.prompt, found.output, variance / 2.0, math.sqrt(variance)

    def _refill(self) -> Iterator[tuple[float, ...]]:
        rng = self._rng
        uniform, refused, label, other = rng.random((4, _BLOCK)).tolist()
        prompt, output = rng.standard_normal((2, _BLOCK)).tolist()
        place = rng.integers(0, self._draws.size, _BLOCK).tolist()
        level = rng.integers(0, self._draws.levels, _BLOCK).tolist()
        return zip(uniform, prompt, output, place, level, refused, label, other, strict=True)

    def next(self, serial: int, now: float) -> Request:
        """Draw the next request, arriving now."""
        drawn = next(self._block, None)
        if drawn is None:
            self._block = self._refill()
            drawn = next(self._block)
        uniform, prompt, output, place, level, refused, label, other = drawn
        source = self.source
        workload = source.mix.pick(uniform, now)
        mean_prompt, mean_output, shift, width = self._lengths[workload]
        request = Request(
            serial,
            self._index,
            workload,
            max(1, round(mean_prompt * math.exp(width * prompt - shift))),
            max(1, round(mean_output * math.exp(width * output - shift))),
            now,
        )
        request.place, request.level = int(place), int(level)
        if source.refused_share and refused < source.refused_share.get(workload, 0.0):
            request.needs = NEEDS
        request.confidence = 1.0 - source.label_errors
        if label < source.label_errors:
            others = [name for name in self._lengths if name != workload] or [workload]
            request.label = others[int(other * len(others))]
        if source.turns > 1.0:
            self._converse(request)
        return request

    def _converse(self, request: Request) -> None:
        """Make it a turn of a conversation under way, or the first of a new one."""
        rng = self._sessions
        said = 0
        if self._open and rng.random() < 1.0 - 1.0 / self.source.turns:
            number, request.workload, said = self._open.pop(int(rng.integers(len(self._open))))
            request.label = request.workload
        else:
            self._conversations += 1
            number = self._conversations
        request.prefix = (self._index, number)
        request.shared_tokens = said
        request.prompt_tokens += said
        if said < 16_000:
            self._open.append((number, request.workload, request.prompt_tokens + request.output_tokens))

    def gap(self, now: float) -> float:
        """Seconds to the next arrival of an open loop whose rate may change (by thinning)."""
        rate = self.source.rate
        if rate is None or rate.most <= 0.0:
            return math.inf
        at = now
        while True:
            at += float(self._arrivals.exponential(1.0 / rate.most))
            if self._arrivals.random() * rate.most < rate(at):
                return at - now


@dataclass(frozen=True, slots=True)
class Traced:
    """One request of a recorded trace.

    Attributes:
        at: Seconds from the start of the trace.
        workload: What it is.
        prompt_tokens: Length of its prompt.
        output_tokens: Length of its answer.
    """

    at: float
    workload: str
    prompt_tokens: int
    output_tokens: int


def replayed(trace: Sequence[Traced], seed: int, draws: Draws) -> Callable[[int], Request]:
    """Requests of a trace by number, with draws of their own."""
    rng = np.random.default_rng((seed, 4))
    places = rng.integers(0, draws.size, len(trace)).tolist()
    levels = rng.integers(0, draws.levels, len(trace)).tolist()

    def request(number: int) -> Request:
        one = trace[number]
        made = Request(number, 0, one.workload, one.prompt_tokens, one.output_tokens, one.at)
        made.place, made.level = places[number], levels[number]
        return made

    return request
