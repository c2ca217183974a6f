"""What a router can see of the fleet, and what a router is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request
    from gateway.core.plan import Kind, Plan, Wanted

NOWHERE: Final = -1
"""The router has no server for the request."""

HOLD: Final = -2
"""The request waits in the gateway; it is asked about again whenever an answer has ended."""


@dataclass(slots=True)
class View:
    """A fleet as its gateway sees it: lists by server, changed in place by the simulation.

    Attributes:
        models: What each server runs, as declared.
        in_flight: Requests that the gateway has open on each.
        since_scrape: Change of ``in_flight`` since the last scrape.
        running: Requests in the batch at the last scrape.
        waiting: Requests in the server's queue at the last scrape.
        kv_usage: Share of the KV cache in use at the last scrape.
        scraped: When that was; below 0 before the first. Without a scrape interval there is none.
        healthy: Whether a server answered last time.
        everyone: Indices of all servers.
    """

    models: list[Model]
    in_flight: list[int]
    since_scrape: list[int]
    running: list[int]
    waiting: list[int]
    kv_usage: list[float]
    scraped: list[float]
    healthy: list[bool]
    everyone: list[int]

    @classmethod
    def of(cls, models: Sequence[Model]) -> View:
        """A fleet without requests."""
        count = len(models)
        zeros = [0] * count
        return cls(
            list(models), zeros.copy(), zeros.copy(), zeros.copy(), zeros.copy(), [0.0] * count,
            [-1.0] * count, [True] * count, list(range(count)),
        )  # fmt: skip

    def capable(self, request: Request) -> list[int]:
        """Servers that answer and would not refuse the request; not to be changed."""
        if not request.needs and all(self.healthy):
            return self.everyone
        return [
            index
            for index, (model, healthy) in enumerate(zip(self.models, self.healthy, strict=True))
            if healthy and not (request.needs and model.draft_tokens)
        ]


class Progress(NamedTuple):
    """How far a request that decodes has come, as its stream shows it.

    Attributes:
        request: The request.
        at: When the last of its steps so far ended, seconds.
        steps: Decode steps so far.
        tokens: Output tokens of these steps.
        drafted: Draft tokens proposed in them.
    """

    request: Request
    at: float
    steps: int
    tokens: int
    drafted: int


class Router(Protocol):
    """A policy under simulation."""

    tick_seconds: float
    """How often :meth:`tick` is called; 0 for never."""

    follows: bool
    """Whether :meth:`first` is called."""

    def choose(self, request: Request, view: View, now: float, /) -> int:
        """Index of the server that gets the request, :data:`NOWHERE` or :data:`HOLD`."""
        ...

    def sent(self, request: Request, view: View, now: float, /) -> None:
        """The request is on the server; ``view`` counts it already."""
        ...

    def first(self, request: Request, view: View, now: float, /) -> None:
        """A first token has come."""
        ...

    def ended(self, request: Request, view: View, now: float, /) -> None:
        """An answer has ended, well or not; ``view`` does not count it any more."""
        ...

    def tick(self, progress: Callable[[int], list[Progress]], view: View, now: float, /) -> None:
        """Time has passed.

        Args:
            progress: Tells of the requests that decode on a server.
            view: The fleet.
            now: Seconds.
        """
        ...


class Plans(Protocol):
    """Who assigns servers to service classes, as :class:`gateway.runtime.planner.Planner` does."""

    def plan(self, kinds: Sequence[Kind], wanted: Sequence[Wanted], now: float) -> Plan:
        """The plan for now; ``ValueError`` where there is nothing to plan."""
        ...


class Plain:
    """A router that needs no feedback; a base for the simple ones."""

    tick_seconds = 0.0
    follows = False

    def sent(self, request: Request, view: View, now: float, /) -> None:
        """Nothing is kept."""

    def first(self, request: Request, view: View, now: float, /) -> None:
        """Nothing is learnt."""

    def ended(self, request: Request, view: View, now: float, /) -> None:
        """Nothing is learnt."""

    def tick(self, progress: Callable[[int], list[Progress]], view: View, now: float, /) -> None:
        """Nothing is learnt."""
