"""Service classes on a fleet: what they want, what servers can hold of it, and the roles that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.predict import SAMPLED, Cell, prompt_bin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from gateway.core.predict import ServerModel

TAIL: Final = 1.28
"""Standard deviations of the number in flight above its mean that a limit must still hold at: one in ten."""

MARGIN: Final = 1.15
"""Factor for answers that accept less than the mean does."""

_USUAL_PROMPT: Final = 300.0
"""Prompt tokens of a workload that none was seen of."""

_ROUNDING: Final = 0.005

_EACH: Final = 24
"""Batch up to which every size is looked at: limits are kept in small batches, where one more counts."""

_BINS: Final = 12
"""Sizes beyond it that are looked at."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What answers of a class must keep, in seconds; None where nothing is asked.

    Attributes:
        ttft: Until the first token.
        tpot: For each token after it.
    """

    ttft: float | None = None
    tpot: float | None = None

    @property
    def any(self) -> bool:
        """Whether anything is asked."""
        return self.ttft is not None or self.tpot is not None

    def kept(self, ttft: float | None, tpot: float | None) -> bool:
        """Whether an answer kept them; what was not measured counts as kept."""
        return (self.ttft is None or ttft is None or ttft <= self.ttft) and (
            self.tpot is None or tpot is None or tpot <= self.tpot
        )

    def scaled(self, factor: float) -> Limits:
        """Limits that are so many times as long."""
        return Limits(
            None if self.ttft is None else self.ttft * factor,
            None if self.tpot is None else self.tpot * factor,
        )


OPEN: Final = ""
"""Role of the servers that hold whatever has no limits."""

LEAST: Final = 1.0
"""Requests in flight at least of whoever asks for anything, though at this moment there may be none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one service class asks of the fleet.

    Attributes:
        service: Name of the class.
        limits: What its answers must keep.
        rates: Requests a second by workload.
        in_flight: Requests of it in the gateway, those that wait included.
        kept: Share of its answers under the present roles that kept their limits; None where too few tell.
        answers: How many of them tell, discounted.
    """

    service: str
    limits: Limits
    rates: Mapping[str, float]
    in_flight: float = 0.0
    kept: float | None = None
    answers: float = 0.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Servers that are alike: one configuration.

    Attributes:
        backends: Their names.
        model: What is known of them.
        runs: What they run, where that is known: kinds that run the same differ in nothing that a
            configuration could change, as in what they run on.
        room: Requests that each may have at a time.
    """

    backends: tuple[str, ...]
    model: ServerModel
    runs: str = ""
    room: float = math.inf

    @property
    def configuration(self) -> str:
        """Equal for kinds that run the same."""
        return self.runs or self.model.fingerprint


@dataclass(frozen=True, slots=True)
class Solution:
    """What the program says.

    Attributes:
        counts: Servers by (configuration, role), indices into the kinds and names of roles.
        most: Largest mean batch by (configuration, role).
        flow: Requests a second by (configuration, class, workload).
        prices: Tokens a second that one more server of each configuration would add.
        tokens_per_second: Output of the classes without limits, or of all where every class has some.
        kept: Share of the demand with limits that is served.
        seconds: Mean seconds a request spends in the fleet.
    """

    counts: Mapping[tuple[int, str], int]
    most: Mapping[tuple[int, str], int]
    flow: Mapping[tuple[int, str, str], float]
    prices: tuple[float, ...]
    tokens_per_second: float
    kept: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Which servers hold which class.

    Attributes:
        roles: By class, the servers kept for it; a class that is not in it may use all.
        caps: Most requests on a server of a class with limits, by server.
        shares: By class and workload, the share of its requests that each configuration should get.
        prices: By configuration, output tokens a second that one more server of it would add.
        tokens_per_second: Output of the classes without limits that the plan expects, or of all without any.
        kept: Share of the demand with limits that can be held.
        beyond: Classes whose limits no server keeps, not even for one request at a time: nothing of theirs
            counts as held, and they are planned with the least limits that some server does keep.
        sharing: Classes with limits that have no server of their own, but those of stricter ones.
        since: Monotonic seconds since when the roles are these.
    """

    roles: Mapping[str, frozenset[str]] = field(default_factory=dict)
    caps: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    tokens_per_second: float = 0.0
    kept: float = 1.0
    beyond: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()
    since: float = 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """The roles in sentences."""
        said = []
        for service, members in self.roles.items():
            if limited := members & self.caps.keys():
                servers = "server" if len(limited) == 1 else "servers"
                keep = f"{service} shares" if service in self.sharing else "keep"
                whose = "with stricter classes" if service in self.sharing else f"for {service}"
                said.append(f"{keep} {len(limited)} {servers} {whose}: {', '.join(sorted(limited))}")
        if self.kept < 1.0 - _ROUNDING and (said or not self.beyond):
            holds = "that holds" if said else "the servers hold"
            said.append(f"{holds} {self.kept:.0%} of what asks for limits: add servers or loosen them")
        return (*said, *self.alarms)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Which classes have no server, and whose limits none keeps, in sentences."""
        bare = [service for service, members in self.roles.items() if not members]
        return (
            *(f"no server is kept for {service}: it gets what others leave" for service in sorted(bare)),
            *(f"no server keeps the limits of {service}: loosen them" for service in sorted(self.beyond)),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What requests of some workloads take on one kind of server, by batch size.

    Attributes:
        sizes: Batch sizes n, shape (j,).
        decode: Seconds of the server that decoding one request takes, K·s(n)/n, shape (j, w).
        time: The same with its prompt, T = K·s(n)/n + p·X, shape (j, w).
        start: Seconds from arrival to the first token with nothing computed beside, shape (j, w).
        stay: Seconds that one request spends there, n·T + c·s(n), shape (j, w).
        token: Seconds a token at a moment that only one in ten is worse than, with no prompts computed
            beside, shape (j, w).
        tokens: Output tokens of a request, shape (w,).
    """

    sizes: NDArray[np.float64]
    decode: NDArray[np.float64]
    time: NDArray[np.float64]
    start: NDArray[np.float64]
    stay: NDArray[np.float64]
    token: NDArray[np.float64]
    tokens: NDArray[np.float64]

    def most(self, limits: Limits, weights: NDArray[np.float64]) -> int:
        """Largest mean batch in which a mix keeps its limits, 0 where not even one request does.

        Args:
            limits: What is asked.
            weights: Share of each workload, adding up to 1, shape (w,).
        """
        stretch = (self.time @ weights) / (self.decode @ weights)
        within = np.ones(len(self.sizes), dtype=bool)
        if limits.tpot is not None:
            within &= self.token @ weights * stretch <= limits.tpot
        if limits.ttft is not None:
            within &= self.start @ weights * stretch <= limits.ttft
        beyond = np.flatnonzero(~within)
        first = int(beyond[0]) if len(beyond) else len(self.sizes)
        return int(self.sizes[first - 1]) if first else 0


def work(model: ServerModel, workloads: Iterable[str], room: float = math.inf) -> Work:
    """Tabulate a kind of server that may have so many requests at a time."""
    names = tuple(workloads)
    last = float(min(model.max_running, room))
    beyond = np.geomspace(min(_EACH, last), last, _BINS)
    sizes = np.unique(np.round(np.concatenate([np.arange(1.0, min(_EACH, last)), beyond])))
    steps = np.array([model.step(size) for size in sizes])
    tail = np.array([model.step(size + TAIL * math.sqrt(size)) for size in sizes])
    tokens = np.array([model.output_tokens.get(name, model.other_output_tokens) for name in names])
    prompts = np.array([model.prompt_tokens.get(name, _USUAL_PROMPT) for name in names])
    theta = np.array(
        [
            model.steps_per_token.get(Cell(name, prompt_bin(prompt), SAMPLED), model.other_steps_per_token)
            for name, prompt in zip(names, prompts, strict=True)
        ]
    )
    prefill = model.prefill_seconds * prompts
    decode = (tokens * theta)[None, :] * (steps / sizes)[:, None]
    time = decode + prefill[None, :]
    first = model.start_steps * steps[:, None]
    return Work(
        sizes=sizes,
        decode=decode,
        time=time,
        start=first + prefill[None, :],
        stay=sizes[:, None] * time + first,
        token=MARGIN * theta[None, :] * tail[:, None],
        tokens=tokens,
    )
