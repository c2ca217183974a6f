"""The simulation itself: events on a virtual clock, until a window has been seen."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from backends.fleetsim.draws import Draws
from backends.fleetsim.measured import Log
from backends.fleetsim.request import BROKEN, REFUSED, REJECTED, Request
from backends.fleetsim.server import NEVER, Server
from backends.fleetsim.setup import ATTEMPTS, REFUSAL_SECONDS, RETRY_SECONDS, Setup
from backends.fleetsim.traffic import Stream, replayed
from backends.fleetsim.view import HOLD, NOWHERE, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from backends.fleetsim.view import Router

__all__ = ["Setup", "Simulation", "simulate"]

# What an entry of the heap stands for. Wakes of servers are by far the most frequent.
_WAKE, _ARRIVAL, _TRACED, _EVENT, _SCRAPE, _PROBE, _TICK, _CLIENTS, _RETRY, _EDGE = range(10)


@dataclass(slots=True)
class _Crowd:
    """Clients of a closed loop."""

    wanted: int = 0
    active: int = 0


@dataclass(slots=True)
class Simulation:
    """One run.

    Attributes:
        setup: What is simulated.
        router: The policy.
        on_progress: Called now and then with the share of virtual time that has passed.
    """

    setup: Setup
    router: Router
    on_progress: Callable[[float], None] | None = None
    servers: list[Server] = field(init=False)
    view: View = field(init=False)
    log: Log = field(init=False)
    _heap: list[tuple[float, int, int, int]] = field(init=False, default_factory=list)
    _count: int = field(init=False, default=0)
    _serial: int = field(init=False, default=0)
    _streams: list[Stream] = field(init=False)
    _crowds: list[_Crowd] = field(init=False)
    _held: dict[int, deque[Request]] = field(init=False)
    _traced: Callable[[int], Request] = field(init=False)

    def __post_init__(self) -> None:
        setup = self.setup
        draws = Draws(setup.seed)
        self.servers = [
            Server(
                model,
                draws,
                max_batched_tokens=setup.max_batched_tokens,
                kv_tokens=model.kv_tokens if setup.kv_limit else None,
                cache_tokens=setup.cache_tokens,
            )
            for model in setup.models
        ]
        self.view = View.of(setup.models)
        end = setup.warm_up + setup.window
        # The last source stands for the trace.
        self.log = Log(setup.warm_up, end, [0] * (len(setup.sources) + 1), [0] * len(setup.models))
        # By source; who has limits is asked about first, as it would be by its priority.
        limited = [*(source.limits is not None for source in setup.sources), False]
        turns = sorted(range(len(limited)), key=limited.__getitem__, reverse=True)
        self._held = {source: deque() for source in turns}
        self._streams = [
            Stream(source, index, setup.seed, draws) for index, source in enumerate(setup.sources)
        ]
        self._crowds = [_Crowd() for _ in setup.sources]
        self._traced = replayed(setup.trace, setup.seed, draws)

    def run(self) -> Log:
        """Run to the end of the window and the drain after it."""
        setup, heap, servers = self.setup, self._heap, self.servers
        last = setup.warm_up + setup.window + setup.drain
        self._begin(last)
        done = 0
        while heap:
            now, _, kind, index = heappop(heap)
            if now > last:
                break
            if kind == _WAKE:
                server = servers[index]
                if server.wake != now:
                    continue  # it was moved or crashed since
                self._wake(server, index, now)
                done += 1
                if self.on_progress is not None and not done % 2_000:
                    self.on_progress(now / last)
            else:
                self._other(kind, index, now)
        held = [request for waiting in self._held.values() for request in waiting]
        there = [request for server in servers for request in server.requests()]
        self.log.unfinished = [(request.arrived, request.source) for request in there + held]
        self.log.late = len(held)
        self.log.preemptions = sum(server.preemptions for server in servers)
        return self.log

    def _begin(self, last: float) -> None:
        setup = self.setup
        self._at(setup.warm_up, _EDGE, 0)
        self._at(setup.warm_up + setup.window, _EDGE, 1)
        for number, event in enumerate(setup.events):
            self._at(event.at, _EVENT, number)
        if setup.scrape_seconds:
            for index in range(len(self.servers)):
                self._at(setup.scrape_seconds * (index + 1) / len(self.servers), _SCRAPE, index)
        if self.router.tick_seconds:
            self._at(self.router.tick_seconds, _TICK, 0)
        for index, source in enumerate(setup.sources):
            if source.clients is not None:
                for time in (0.0, *source.clients.changes(last)):
                    self._at(time, _CLIENTS, index)
            else:
                self._at(self._streams[index].gap(0.0), _ARRIVAL, index)
        if setup.trace:
            self._at(setup.trace[0].at, _TRACED, 0)

    def _at(self, time: float, kind: int, index: int) -> None:
        self._count += 1
        heappush(self._heap, (time, self._count, kind, index))

    def _wake(self, server: Server, index: int, now: float) -> None:
        done = server.settle(now)
        view, router = self.view, self.router
        if router.follows:
            for request in server.firsts:
                router.first(request, view, now)
        for request in done:
            request.ended = now
            view.in_flight[index] -= 1
            view.since_scrape[index] -= 1
            router.ended(request, view, now)
            self.log.add(request)
        if done:
            self._release(now)
        for request in done:
            self._replace(request, now)
        server.plan(now)
        if server.wake != NEVER:
            self._at(server.wake, _WAKE, index)

    def _replace(self, request: Request, now: float) -> None:
        """The client whose answer ended asks for the next one, in a closed loop."""
        if request.source < len(self._crowds):
            self._again(request.source, now)

    def _again(self, source: int, now: float) -> None:
        crowd = self._crowds[source]
        if crowd.active > crowd.wanted:
            crowd.active -= 1
        elif crowd.active:
            self._route(self._next(source, now), now)

    def _next(self, source: int, now: float) -> Request:
        self._serial += 1
        return self._streams[source].next(self._serial, now)

    def _route(self, request: Request, now: float) -> bool:
        """Send a request somewhere.

        Returns:
            False where it has to wait in the gateway.
        """
        view, router = self.view, self.router
        while request.attempts < ATTEMPTS:
            index = router.choose(request, view, now)
            if index == HOLD:
                self._held[request.source].append(request)
                return False
            if index == NOWHERE:
                break
            server = self.servers[index]
            request.attempts += 1
            request.server = index
            request.sent = now
            if not server.up:
                view.healthy[index] = False
                self._at(now + self.setup.probe_seconds, _PROBE, index)
                continue
            if request.needs and server.model.draft_tokens:
                self._turned_away(request, REFUSED, now, REFUSAL_SECONDS)
                return True
            view.in_flight[index] += 1
            view.since_scrape[index] += 1
            router.sent(request, view, now)
            before = server.wake
            server.submit(request, now)
            if server.wake != before:
                self._at(server.wake, _WAKE, index)
            return True
        self._turned_away(request, REJECTED, now, RETRY_SECONDS)
        return True

    def _turned_away(self, request: Request, ending: int, now: float, after: float) -> None:
        request.ending, request.ended = ending, now + after
        self.router.ended(request, self.view, now)
        self.log.add(request)
        if request.source < len(self._crowds) and self._crowds[request.source].active:
            self._at(now + after, _RETRY, request.source)

    def _release(self, now: float) -> None:
        """Ask the router again about requests that it held, of each source until it holds one."""
        for waiting in self._held.values():
            for _ in range(len(waiting)):
                if not self._route(waiting.popleft(), now):
                    waiting.appendleft(waiting.pop())
                    break

    def _other(self, kind: int, index: int, now: float) -> None:
        (
            self._arrival, self._from_trace, self._happen, self._scrape, self._probe, self._tick,
            self._crowd, self._again, self._edge,
        )[kind - 1](index, now)  # fmt: skip

    def _arrival(self, index: int, now: float) -> None:
        self._route(self._next(index, now), now)
        self._at(now + self._streams[index].gap(now), _ARRIVAL, index)

    def _from_trace(self, index: int, now: float) -> None:
        trace = self.setup.trace
        request = self._traced(index)
        request.source = len(self._crowds)
        self._route(request, now)
        if index + 1 < len(trace):
            self._at(trace[index + 1].at, _TRACED, index + 1)

    def _probe(self, index: int, now: float) -> None:
        if self.servers[index].up:
            self.view.healthy[index] = True
        else:
            self._at(now + self.setup.probe_seconds, _PROBE, index)

    def _tick(self, _: int, now: float) -> None:
        self.router.tick(lambda server: self.servers[server].progress(now), self.view, now)
        self._at(now + self.router.tick_seconds, _TICK, 0)
        self._release(now)

    def _crowd(self, index: int, now: float) -> None:
        clients = self.setup.sources[index].clients
        crowd = self._crowds[index]
        crowd.wanted = int(clients(now)) if clients is not None else 0
        while crowd.active < crowd.wanted:
            crowd.active += 1
            self._route(self._next(index, now), now)

    def _scrape(self, index: int, now: float) -> None:
        server, view = self.servers[index], self.view
        self._at(now + self.setup.scrape_seconds, _SCRAPE, index)
        if not server.up:
            return
        view.running[index], view.waiting[index] = server.running, server.waiting
        view.kv_usage[index] = server.kv_usage(now)
        view.since_scrape[index] = 0
        view.scraped[index] = now

    def _happen(self, number: int, now: float) -> None:
        event = self.setup.events[number]
        server, index = self.servers[event.server], event.server
        before = server.wake
        if event.kind == "slow":
            server.slow_down(event.factor, now)
        elif event.kind == "replace" and event.model is not None:
            server.replace(event.model, now)
            self.view.models[index] = event.model
        elif event.kind == "up":
            server.up = True
        elif server.up:
            self._crash(server, index, now)
        if server.wake not in {before, NEVER}:
            self._at(server.wake, _WAKE, index)

    def _crash(self, server: Server, index: int, now: float) -> None:
        """Requests without a token go elsewhere, as the gateway's failover does; the others break off."""
        view = self.view
        self.log.lost(server, index, now)
        lost = sorted(server.crash(), key=lambda request: request.serial)
        view.healthy[index] = False
        view.in_flight[index] = view.since_scrape[index] = 0
        self._at(now + self.setup.probe_seconds, _PROBE, index)
        for request in lost:
            if request.first >= 0.0:
                request.ending, request.ended = BROKEN, now
                self.router.ended(request, view, now)
                self.log.add(request)
                self._replace(request, now)
            else:
                request.forget()
                self._route(request, now)

    def _edge(self, last: int, now: float) -> None:
        (self.log.close if last else self.log.open)(self.servers, now)


def simulate(setup: Setup, router: Router, *, on_progress: Callable[[float], None] | None = None) -> Log:
    """Run a fleet under a policy.

    Args:
        setup: What is simulated.
        router: The policy; it must be fresh, as it learns.
        on_progress: Called now and then with the share of virtual time that has passed.
    """
    return Simulation(setup, router, on_progress).run()
