"""Composition root: builds the objects of one gateway and ties them together; no logic of its own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from fastapi import FastAPI

from gateway import __version__, models
from gateway.adapters.litellm_target import LiteLlmUpstream
from gateway.core.labels import known
from gateway.runtime import clock, tasks
from gateway.runtime.acceptance import Acceptance
from gateway.runtime.admission import Admission
from gateway.runtime.agreement import Agreement
from gateway.runtime.consumers import Consumers
from gateway.runtime.draft_latency import DraftLatency
from gateway.runtime.fleet import Fleet
from gateway.runtime.gpus import GpuWatch
from gateway.runtime.learning import Learning
from gateway.runtime.probe import Prober
from gateway.runtime.reload import Configuration
from gateway.runtime.scrape import Scraper
from gateway.runtime.sessions import Sessions
from gateway.runtime.tallies import follow
from gateway.runtime.visits import Visits
from gateway.telemetry import logging, names
from gateway.telemetry import setup as telemetry
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.decision_log import DecisionLog
from gateway.ui.board import Board
from gateway.ui.decisions import Decisions
from gateway.ui.routes import Page
from gateway.ui.samples import Samples
from gateway.wire import control
from gateway.wire.errors import Problem
from gateway.wire.pages import Pages
from gateway.wire.pools import upstream_of
from gateway.wire.progress import open_since, progress
from gateway.wire.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from gateway.core.counters import Counters
    from gateway.core.observe import Progress
    from gateway.core.outcome import Record
    from gateway.policy.explain import Explanation
    from gateway.policy.load import Config, Loaded
    from gateway.runtime.shared import Shared
    from gateway.settings import Settings
    from gateway.wire.client import Receive, Scope, Send

DRAIN_SECONDS = 5.0
"""How long the last records may take on their way out."""

STEP_SECONDS = 10.0
"""How long one step of the shutdown may take; longer than the limits that steps have of their own."""


class Gateway:
    """One gateway as an ASGI application: control routes go to FastAPI, everything else is relayed."""

    def __init__(
        self,
        settings: Settings,
        loaded: Loaded[Config],
        *,
        on_record: Sequence[Callable[[Record], None]] = (),
        shared: Shared | None = None,
    ) -> None:
        """Build a gateway.

        Args:
            settings: Settings of the process.
            loaded: What the fleet and policy files say.
            on_record: Called with the record of every finished request, off the request path.
            shared: What it has in common with other processes that share its work; None where it is alone.

        Raises:
            OSError: The decision log cannot be written.
        """
        config = loaded.value
        self._settings = settings
        self._configuration = Configuration(settings.fleet, settings.policy, loaded)
        tally, elders = (shared.tally, shared.elders) if shared else (None, None)
        declared = config.fleet
        self._fleet = Fleet(
            declared.backends, declared.revision, tally=tally, elders=elders, stand_ins=declared.stand_ins
        )
        self._fleet.govern(config.policy.breaker, config.policy.retries)
        self._telemetry = telemetry.setup(
            service_name=settings.service_name,
            service_version=__version__,
            traces_to=settings.receiver("traces"),
            metrics_to=settings.receiver("metrics"),
            semconv=settings.semconv,
            trace_slow=settings.trace_slow,
        )
        self._telemetry.observe_fleet(lambda: self._fleet.snapshot, clock.monotonic)
        self._gained = self._telemetry.observe_gain(clock.monotonic)
        self._telemetry.observe_failures(
            self._fleet.trips, lambda: self._fleet.denied, lambda: self._fleet.retries_left
        )
        self._telemetry.observe_policy(
            lambda: (self._configuration.config.policy.revision, not self._configuration.problems)
        )
        self._telemetry.policy_loaded(config.policy)
        self._learning = Learning(self._fleet, config.policy, progress=self._progress, shared=shared)
        self._telemetry.observe_learning(
            lambda: self._fleet.snapshot,
            clock.monotonic,
            lambda: self._learning.purse.explored,
            lambda: self._learning.advice,
        )
        self._acceptance = Acceptance(
            window=settings.counter_window,
            lag=settings.counter_lag,
            alone=settings.workers == 1,
            open_since=lambda backend: open_since(self._relay.running, backend),
            on_restart=self._restarted,
        )
        self._telemetry.observe_acceptance(
            self._acceptance.lengths,
            lambda: self._acceptance.ages(clock.monotonic()),
            self._acceptance.mismatches,
            self._acceptance.restarts,
        )
        self._draft_latency = DraftLatency(lambda: self._fleet.snapshot, window=settings.counter_window)
        self._telemetry.observe_draft_latency(self._draft_latency.usual)
        self._gpus = GpuWatch()
        self._telemetry.observe_gpus(self._gpus.loads, clock.monotonic)
        self._telemetry.observe_dropped(names.LOG_DROPPED, logging.dropped)
        self._logs: list[DecisionLog | AccessLog] = []
        if settings.decision_log is not None:
            size, files = settings.decision_log_bytes, settings.decision_log_files
            decided = DecisionLog(settings.decision_log, settings.seed, max_bytes=size, keep=files)
            self._telemetry.observe_dropped(names.DECISIONS_DROPPED, lambda: decided.dropped)
            self._logs.append(decided)
        if settings.access_log:
            accessed = AccessLog()
            self._telemetry.observe_dropped(names.ACCESS_DROPPED, lambda: accessed.dropped)
            self._logs.append(accessed)
        sessions = Sessions()
        self._agreement = Agreement(config.policy.classifier)
        self._telemetry.observe_agreement(self._agreement.rates, self._agreement.drifts)
        decisions = Decisions(lambda: known(self._configuration.config.policy.classifier))
        self._samples = Samples(self._telemetry, clock.monotonic())
        self._consumers = Consumers(
            [
                decisions.on_record,
                self._telemetry.on_record,
                self._acceptance.on_record,
                sessions.on_record,
                self._learning.on_record,
                self._agreement.on_record,
                *(log.put for log in self._logs),
                *on_record,
            ],
            capacity=settings.record_queue,
        )
        self._telemetry.observe_dropped(names.RECORDS_DROPPED, lambda: self._consumers.dropped)
        admission = Admission(settings.max_requests)
        self._telemetry.observe_requests(lambda: admission.open, lambda: len(self._fleet.queue))
        classifier = models.trained()
        self._upstream, self._hosted = upstream_of(settings), LiteLlmUpstream()
        self._relay = Relay(
            fleet=self._fleet,
            policy=lambda: self._configuration.config.policy,
            classifier=classifier,
            upstream=self._upstream,
            hosted=self._hosted,
            emit=self._consumers.put,
            admission=admission,
            sessions=sessions,
            learning=self._learning,
            seed=settings.seed,
            body_limit=settings.body_limit,
            trace_ratio=settings.trace_ratio,
            pipe=settings.pipe,
        )
        self._control = FastAPI(
            title="Specroute",
            version=__version__,
            summary="Control routes of the gateway; every other path is relayed to a backend.",
            lifespan=self._lifespan,
            redoc_url=None,
            exception_handlers=control.HANDLERS,
        )
        routes = control.Control(
            configuration=self._configuration,
            fleet=self._fleet,
            classifier=classifier,
            sessions=sessions,
            learning=self._learning,
            agreement=self._agreement,
            acceptance=self._acceptance,
            draft_latency=self._draft_latency,
            exposition=self._telemetry.page,
            seed=settings.seed,
            body_limit=settings.body_limit,
        )
        self._control.include_router(routes.router())
        page = Page(
            board=Board(
                samples=self._samples,
                gain=self._telemetry.gain,
                speedups=self._gained.speedups,
                snapshot=lambda: self._fleet.snapshot,
                open_requests=lambda: admission.open,
                waiting=lambda: len(self._fleet.queue),
                clock=clock.monotonic,
                unix=lambda: clock.unix_ns() / 1e9,
            ),
            decisions=decisions,
            status=routes.state,
            explained=lambda body: _explained(routes, body),
            models=routes.model_names,
            body_limit=settings.body_limit,
            workers=settings.workers,
        )
        self._control.include_router(page.router())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http" or control.is_control(scope["path"]):
            await self._control(scope, receive, send)
        else:
            await self._relay(scope, receive, send)

    def _progress(self) -> Iterator[Progress]:
        return progress(self._relay.running, self._learning.homes)

    def _restarted(self, backend: str) -> None:
        self._telemetry.gain.restarted(backend)
        self._learning.restarted(backend)

    def _counted(self, backend: str, counters: Counters) -> None:
        self._acceptance.counted(backend, counters)
        self._draft_latency.counted(backend, counters)

    async def _warm_up(self) -> None:
        """Ask for the metrics: with the first request FastAPI builds routes and more, for 30 ms."""
        transport = httpx.ASGITransport(self._control)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            await client.get("/metrics")

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        await self._warm_up()
        stop = asyncio.Event()
        pages = Pages(upstream_of(self._settings))
        settings, fleet = self._settings, self._fleet
        scraper = Scraper(fleet, pages, timeout=settings.scrape_timeout, counted=self._counted)
        prober = Prober(fleet, pages, timeout=settings.probe_timeout)
        visits = (
            Visits(fleet, scraper.once, interval=settings.scrape_interval, name="scrape"),
            Visits(
                fleet,
                lambda backend: self._gpus.look(backend, pages, settings.scrape_timeout),
                interval=settings.scrape_interval,
                name="look at the GPUs of",
            ),
            Visits(fleet, prober.once, interval=settings.probe_interval, name="probe"),
        )

        def changed(config: Config) -> None:
            self._agreement.govern(config.policy.classifier)
            fleet.replace(config.fleet.backends, config.fleet.revision, config.fleet.stand_ins)
            self._hosted.prepare(config.fleet.stand_ins)
            fleet.govern(config.policy.breaker, config.policy.retries)
            self._learning.govern(config.policy)
            for each in visits:
                each.sync()
            self._telemetry.policy_loaded(config.policy)

        self._configuration.on_change(changed)
        self._hosted.prepare(self._configuration.config.fleet.stand_ins)
        self._consumers.start()
        for log in self._logs:
            log.start()
        for each in visits:
            each.sync()
        steady = {
            "watch files": self._configuration.watch(stop),
            "learn": self._learning.run(),
            "sample counters": self._samples.run(clock.monotonic),
            "follow other workers": follow(fleet),
        }
        running = {name: tasks.spawn(work, name=name) for name, work in steady.items()}
        try:
            yield
        finally:
            stop.set()
            for name, task in running.items():
                await _end(name, tasks.cancel(task))
            for each in visits:
                await _end("visits", each.close())
            await _end("upstream", self._upstream.close())
            await _end("hosted models", self._hosted.close())
            await _end("consumers", self._consumers.close(DRAIN_SECONDS))
            for log in self._logs:
                await _end("logs", asyncio.to_thread(log.close))
            await _end("telemetry", asyncio.to_thread(self._telemetry.close))
            await _end("control client", pages.aclose())


async def _end(name: str, closing: Coroutine[Any, Any, None]) -> None:
    """Take one step of the shutdown; whatever becomes of it, the next one follows."""
    await tasks.bounded(closing, within=STEP_SECONDS, name=f"close {name}")


async def _explained(routes: control.Control, body: bytes) -> Explanation | str:
    found = await routes.explained("chat", "", body, {})
    return found.message if isinstance(found, Problem) else found
