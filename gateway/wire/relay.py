"""The request path: bytes in, features, class, decision, attempts, bytes out, one record."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.core.classes import kept_in, service_of
from gateway.core.classify import Asked, classify_all
from gateway.core.decide import NoCandidate, decide
from gateway.core.features import GENERATING, RequestView, extract
from gateway.core.labels import without_suffix
from gateway.core.refusal import is_picky
from gateway.core.stand_in import instead
from gateway.runtime import clock
from gateway.runtime.alarms import Alarms
from gateway.runtime.queue import Picky
from gateway.wire import errors, forms, holding, inbound
from gateway.wire import headers as names
from gateway.wire.body import UneditableError
from gateway.wire.client import Client
from gateway.wire.endpoints import endpoint_of
from gateway.wire.exchange import Exchange
from gateway.wire.execute import Execution
from gateway.wire.identity import draw
from gateway.wire.keepalive import KeepAlive
from gateway.wire.pipe import pipe_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence

    from gateway.core.classify import Classification, Classifier
    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.outcome import Record
    from gateway.core.policy import ClassifierSettings, Policy, Waiting
    from gateway.runtime.admission import Admission
    from gateway.runtime.fleet import Fleet
    from gateway.runtime.learning import Learning
    from gateway.runtime.sessions import Sessions
    from gateway.wire.client import Receive, Scope, Send
    from gateway.wire.upstream import Upstream

_log = logging.getLogger(__name__)

EVENT_STREAM: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]


@dataclass(frozen=True, slots=True)
class Relay:
    """The ASGI application for every path that goes to a backend.

    Attributes:
        policy: Returns the policy in force; called once a request.
        hosted: Asks the hosted models that stand in for servers.
        emit: Takes the finished record; must not block.
        admission: Counts the requests that are open.
        sessions: Tells what the answers before a request were.
        learning: Hears of requests, and knows where conversations were answered.
        seed: Of the draws, so that a run can be repeated.
        body_limit: Largest request body, in bytes.
        trace_ratio: Share of the traces that begin here to export.
        pipe: Use the pipe where the server offers one.
        alarms: Those of the loop.
        running: Requests under way.
    """

    fleet: Fleet
    policy: Callable[[], Policy]
    classifier: Classifier
    upstream: Upstream
    hosted: Upstream
    emit: Callable[[Record], None]
    admission: Admission
    sessions: Sessions
    learning: Learning
    seed: int
    body_limit: int
    trace_ratio: float
    pipe: bool = True
    alarms: Alarms = field(default_factory=Alarms)
    running: set[Exchange] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = endpoint_of(scope["method"], scope["path"])
        line = pipe_of(scope)
        client = Client(receive, send, line if self.pipe else None, line)
        exchange = Exchange(scope, endpoint, client, trace_ratio=self.trace_ratio)
        try:
            if self.admission.full:
                await exchange.refuse(errors.OVERLOADED)
                return
            with self.admission:
                if (body := await self._read(exchange)) is not None:
                    await self._serve(exchange, body)
        except asyncio.CancelledError:  # the process is going down; the client is told, and that ends it
            await exchange.refuse(errors.GOING_DOWN)
        except Exception:  # noqa: BLE001 - logged; whatever it was, the client gets a proper answer
            _log.exception("request %s failed within the gateway", exchange.request_id)
            await exchange.refuse(errors.INTERNAL)
        finally:
            self.emit(exchange.record())
            # What knows each other is parted, so that it goes without a collection.
            exchange.trial = None
            client.release()

    async def _read(self, exchange: Exchange) -> bytes | None:
        """The request body; None if the exchange ended with reading it."""
        if not exchange.target.startswith("/"):  # as in OPTIONS *
            await exchange.refuse(errors.invalid("the request names no path that begins with /"))
            return None
        declared = exchange.fields.get(b"content-length")
        if (
            declared is not None and int(declared) > self.body_limit
        ):  # who asks whether to send it is told not to
            await exchange.refuse(errors.too_large(self.body_limit))
            return None
        body = await exchange.client.body(self.body_limit)
        if isinstance(body, errors.Problem):
            await exchange.refuse(body)
            return None
        return None if exchange.client.gone else body

    async def _serve(self, exchange: Exchange, body: bytes) -> None:
        seen, body = await _received(exchange, body)
        if isinstance(seen, inbound.Malformed):
            await exchange.refuse(errors.invalid(seen.message))
            return
        policy = self.policy()
        asked = without_suffix(seen, policy.classifier, policy.aliases)
        features, classification = await exchange.client.share(
            self._label, (asked, policy.classifier, exchange.started)
        )
        service = service_of(asked, policy.classes, trust=policy.trust_class)
        features = kept_in(features, asked, service, policy.classes)
        features = holding.bound(features, seen.path, policy, self.fleet, self.learning.homes, self.running)
        home = self.learning.homes.of(features.hints, exchange.started)
        numbers = draw(exchange.request_id, self.seed)
        limits = policy.queue if service.wait is None else replace(policy.queue, wait=service.wait)
        patience = min(service.patience, limits.wait) if not self.fleet.queue.full(limits.length) else 0.0
        until = exchange.started + patience if patience else 0.0
        task = asyncio.current_task()  # once: it takes a call of the system
        assert task is not None  # noqa: S101 - ASGI servers run an application in a task

        def look(until: float) -> Decision | NoCandidate:
            self.fleet.sync()
            snapshot, now = self.fleet.snapshot, clock.monotonic()
            decision = decide(
                features, classification, snapshot, policy, numbers, now, home, service, patience=until - now
            )
            exchange.decided(features, classification, decision, snapshot)
            return decision

        async def answer(decision: Decision | NoCandidate) -> None:
            kind = (policy.revision, features.model, decision.route, features.hints.backend, service.name)
            if self._must_wait(decision, limits, kind):
                since = clock.monotonic()
                try:
                    decision = await self._room(look, kind, limits, service.priority, until)
                finally:  # whoever left waited, too
                    exchange.queued = clock.monotonic() - since
            decision = self._settled(exchange, features, decision, policy)
            if isinstance(decision, NoCandidate):
                await exchange.refuse(errors.refused(decision, features.model))
                return
            execution = Execution.of(
                exchange, decision, policy, (seen, features, body), self.fleet, self.upstream, self.hosted
            )
            try:
                await execution.run(self.alarms, task)
            except UneditableError as error:
                await exchange.refuse(errors.invalid(str(error)))

        decision = look(until)
        self.learning.asked(service, classification, decision.target)
        self.running.add(exchange)
        keep_alive = (
            KeepAlive(
                exchange.client,
                self.alarms,
                policy.timeouts.keep_alive,
                partial(exchange.dress, EVENT_STREAM, None),
            )
            if seen.stream and exchange.endpoint in GENERATING and policy.timeouts.keep_alive
            else None
        )
        try:
            await _while_client_stays(exchange.client, task, answer(decision))
        finally:
            self.running.discard(exchange)
            if keep_alive is not None:
                keep_alive.close()
        await exchange.taken(exchange.started + policy.timeouts.total)

    def _label(
        self, requests: Sequence[tuple[RequestView, ClassifierSettings, float]]
    ) -> list[tuple[Features, Classification]]:
        """Facts and workload of requests, each given with what its policy says of them and when it began."""
        asked = []
        for view, settings, started in requests:
            features = extract(view)
            asked.append(Asked(view, features, settings, self.sessions.before(features.hints, started)))
        found = classify_all(asked, self.classifier)
        return [(one.features, label) for one, label in zip(asked, found, strict=True)]

    def _settled(
        self, exchange: Exchange, features: Features, decision: Decision | NoCandidate, policy: Policy
    ) -> Decision | NoCandidate:
        """What holds of a request that waits no more: where no server can take it, a hosted model may."""
        if not isinstance(decision, NoCandidate):
            self.learning.decided(decision, exchange.classification.label)
            return decision
        if (snapshot := self.fleet.snapshot).stand_ins:
            decision = instead(decision, features, policy, snapshot, clock.monotonic())
            exchange.decided(features, exchange.classification, decision, snapshot)
        return decision

    def _must_wait(self, decision: Decision | NoCandidate, limits: Waiting, kind: Hashable) -> bool:
        """Whether a request goes to the end of the queue: for want of room, or because others look for it.

        Args:
            decision: On the request.
            limits: Of its wait.
            kind: What makes requests find room at the same backends.
        """
        queue = self.fleet.queue
        if isinstance(decision, NoCandidate):
            wants_room = _may_hope(decision, limits)
        else:
            wants_room = queue.moving or queue.behind(kind)
        return wants_room and limits.wait > 0.0 and not queue.full(limits.length)

    async def _room(
        self,
        look: Callable[[float], Decision | NoCandidate],
        kind: Hashable,
        limits: Waiting,
        priority: int,
        until: float,
    ) -> Decision | NoCandidate:
        """Wait until there is room, or none to wait for, or the time is over.

        Args:
            look: Decides anew; takes until when the request may wait for servers of its class.
            kind: What makes requests find room at the same backends.
            limits: Of its wait.
            priority: Of its class.
            until: That time, monotonic seconds; 0 for not at all.
        """

        def settled() -> Decision | NoCandidate | Picky | None:
            found = look(until)
            if isinstance(found, NoCandidate) and _may_hope(found, limits):
                return Picky.NOTHING if is_picky(found.rejected) else None
            return found

        with self._patient(until) if until else nullcontext():
            return await self.fleet.queue.wait(kind, settled, limits.wait, priority) or look(0.0)

    @contextmanager
    def _patient(self, until: float) -> Iterator[None]:
        """For a request that waits for servers of its class until a time, though others may have room."""
        queue = self.fleet.queue

        def ended() -> None:
            queue.patient -= 1
            queue.news()  # it looks again, in its place

        queue.patient += 1
        alarm = self.alarms.at(until, ended)
        try:
            yield
        finally:
            if alarm.call is not None:
                alarm.off()
                queue.patient -= 1


def _may_hope(refused: NoCandidate, limits: Waiting) -> bool:
    """Whether there may be room before a request has waited for as long as it may."""
    return refused.busy and (refused.back_in is None or refused.back_in <= limits.wait)


async def _while_client_stays(
    client: Client, running: asyncio.Task[object], work: Coroutine[object, object, None]
) -> None:
    """Run the attempts in this task; stop them at once when the client leaves, at whatever moment."""

    def left() -> None:
        if not client.finished:
            running.cancel()

    end_of_watch = client.watch(left)
    try:
        await work
    except asyncio.CancelledError:
        if not client.gone or running.uncancel():
            raise
    finally:
        end_of_watch()


async def _received(exchange: Exchange, body: bytes) -> tuple[RequestView | inbound.Malformed, bytes]:
    """What can be read of a request, and what is forwarded of it.

    A body that is no JSON is passed on unread, except where it must be read.
    """
    headers, path = exchange.fields, exchange.target.partition("?")[0]
    content_type = headers.get(b"content-type", b"")
    if exchange.endpoint in GENERATING or names.media_type(content_type) == b"application/json":
        seen, whole = await inbound.received(exchange.endpoint, body, headers, path)
        if exchange.endpoint in GENERATING or not isinstance(seen, inbound.Malformed):
            return seen, whole
    return inbound.unread(exchange.endpoint, headers, path, forms.model(body, content_type)), body
