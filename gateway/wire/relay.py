"""The request path: bytes in, features, class, decision, attempts, bytes out, one record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from os import urandom
from typing import TYPE_CHECKING, Final

from gateway.core.classify import classify
from gateway.core.decide import NoCandidate, decide
from gateway.core.failover import REMOVED, Try, next_step
from gateway.core.features import GENERATING, RequestView, extract
from gateway.core.outcome import Attempt
from gateway.runtime import clock, tasks
from gateway.telemetry import trace_context
from gateway.wire import body as bodies
from gateway.wire import errors, inbound
from gateway.wire import headers as names
from gateway.wire.attempt import Plan, Trial
from gateway.wire.client import Client
from gateway.wire.endpoints import endpoint_of
from gateway.wire.exchange import Exchange
from gateway.wire.identity import draw
from gateway.wire.keepalive import KeepAlive
from gateway.wire.upstream import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gateway.core.classify import Classifier
    from gateway.core.decide import Decision
    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record
    from gateway.core.policy import Policy
    from gateway.runtime.fleet import Fleet
    from gateway.wire.client import Receive, Scope, Send
    from gateway.wire.headers import Headers
    from gateway.wire.upstream import Upstream

EVENT_STREAM: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]

USAGE_ON_REQUEST: Final = frozenset({"chat", "completions"})
"""Endpoints whose streams report usage only where ``stream_options`` asks for it."""


@dataclass(frozen=True, slots=True)
class Relay:
    """The ASGI application for every path that goes to a backend.

    Attributes:
        policy: Returns the policy in force; called once a request.
        emit: Takes the finished record; must not block.
        seed: Of the draws, so that a run can be repeated.
        body_limit: Largest request body, in bytes.
        trace_ratio: Share of the traces that begin here to export.
    """

    fleet: Fleet
    policy: Callable[[], Policy]
    classifier: Classifier
    upstream: Upstream
    emit: Callable[[Record], None]
    seed: int
    body_limit: int
    trace_ratio: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        endpoint = endpoint_of(scope["method"], scope["path"])
        exchange = Exchange(scope, endpoint, Client(receive, send), trace_ratio=self.trace_ratio)
        try:
            if (body := await self._read(exchange)) is not None:
                await self._serve(exchange, body)
        except asyncio.CancelledError:  # the process is going down
            if not exchange.client.gone:
                await exchange.refuse(errors.GOING_DOWN)
            raise
        finally:
            self.emit(exchange.record())

    async def _read(self, exchange: Exchange) -> bytes | None:
        """The request body; None if the exchange ended with reading it."""
        body = await exchange.client.body(self.body_limit)
        if isinstance(body, errors.Problem):
            await exchange.refuse(body)
            return None
        return None if exchange.client.gone else body

    async def _serve(self, exchange: Exchange, body: bytes) -> None:
        seen = _view(exchange, body)
        if isinstance(seen, inbound.Malformed):
            await exchange.refuse(errors.invalid(seen.message))
            return
        policy = self.policy()
        features = extract(seen)
        classification = classify(seen, features, policy.classifier, self.classifier)
        decision = decide(
            features,
            classification,
            self.fleet.snapshot,
            policy,
            draw(exchange.request_id, self.seed),
            clock.monotonic(),
        )
        exchange.decided(features, classification, decision)
        if isinstance(decision, NoCandidate):
            await exchange.refuse(errors.refused(decision))
            return
        keep_alive = (
            KeepAlive(exchange.client, policy.timeouts.keep_alive, exchange.dress(EVENT_STREAM, None))
            if seen.stream and policy.timeouts.keep_alive
            else None
        )
        try:
            await _while_client_stays(exchange.client, self._execute(exchange, decision, policy, seen, body))
        finally:
            if keep_alive is not None:
                keep_alive.close()

    async def _execute(
        self, exchange: Exchange, decision: Decision, policy: Policy, seen: RequestView, body: bytes
    ) -> None:
        """Try one backend after the other until one has answered or no rule allows another."""
        client = exchange.client
        ask_usage = seen.stream and not seen.include_usage and seen.endpoint in USAGE_ON_REQUEST
        plan = Plan(
            endpoint=seen.endpoint,
            stream=seen.stream,
            strip_usage=ask_usage,
            timeouts=policy.timeouts,
            deadline=exchange.started + policy.timeouts.total,
            dress=exchange.dress,
        )
        while isinstance(
            step := next_step(
                decision,
                exchange.attempts,
                delivered=client.delivered,
                now=clock.monotonic(),
                deadline=plan.deadline,
            ),
            Try,
        ):
            backend = self.fleet.get(step.backend)
            if backend is None:  # the fleet file changed since the decision
                now = clock.monotonic()
                exchange.attempts.append(Attempt(step.backend, "connect", REMOVED, 0, now, now))
                continue
            span_id = trace_context.new_span_id(urandom(8))
            request = UpstreamRequest(
                method=exchange.method,
                url=backend.url + exchange.target,
                headers=self._headers(exchange, backend, span_id),
                body=_body_for(backend, seen, body, ask_usage=ask_usage),
            )
            trial = Trial(plan, backend, request, client, span_id)
            exchange.trial = trial
            self.fleet.dispatched(backend.name)
            try:
                await trial.run(self.upstream)
            finally:
                self.fleet.finished(backend.name)
                exchange.attempts.append(trial.attempt())
            if not trial.error:
                return
            if trial.phase == "connect":
                self.fleet.failed(backend.name, trial.error)
        await _give_up(exchange)

    @staticmethod
    def _headers(exchange: Exchange, backend: Backend, span_id: str) -> Headers:
        headers = names.to_backend(exchange.headers)
        headers.append((names.REQUEST_ID, exchange.request_id.encode()))
        headers.append((b"accept-encoding", b"identity"))
        headers.append((names.TRACEPARENT, trace_context.traceparent(exchange.trace, span_id).encode()))
        if exchange.trace.state:
            headers.append((names.TRACESTATE, exchange.trace.state.encode()))
        if backend.api_key:
            headers.append((b"authorization", b"Bearer " + backend.api_key.encode()))
        return headers


async def _while_client_stays(client: Client, work: Coroutine[object, object, None]) -> None:
    """Run the attempts; stop them at once when the client leaves, at whatever moment."""
    running = asyncio.current_task()
    assert running is not None  # noqa: S101 - ASGI servers run an application in a task

    async def watch() -> None:
        await client.left()
        if not client.finished:
            running.cancel()

    watching = tasks.spawn(watch(), name="watch client")
    try:
        await work
    except asyncio.CancelledError:
        if not client.gone or running.uncancel():
            raise
    finally:
        watching.cancel()


def _view(exchange: Exchange, body: bytes) -> RequestView | inbound.Malformed:
    """What can be read of a request; a body that is no JSON is passed on unread, except where it must be."""
    content_type = names.first(exchange.headers, b"content-type") or b""
    headers = dict(exchange.headers)
    if exchange.endpoint in GENERATING or content_type.startswith(b"application/json"):
        seen = inbound.view(exchange.endpoint, body, headers)
        if exchange.endpoint in GENERATING or not isinstance(seen, inbound.Malformed):
            return seen
    return inbound.unread(exchange.endpoint, headers)


def _body_for(backend: Backend, seen: RequestView, body: bytes, *, ask_usage: bool) -> bytes:
    rename = backend.served_model if seen.model and seen.model != backend.served_model else None
    if rename is None and not ask_usage:
        return body
    return bodies.edit(body, model=rename, include_usage=ask_usage)


async def _give_up(exchange: Exchange) -> None:
    """Tell the client what became of its request, in the best form still possible."""
    client, trial = exchange.client, exchange.trial
    if client.finished:
        return
    last = exchange.attempts[-1]
    held = trial.held if trial is not None else None
    if client.delivered:
        # Any other answer than an event stream can only be cut off, which the missing end of the body tells.
        if trial is not None and trial.event_stream:
            await client.finish(errors.broken_off(last.backend, last.error).event())
    elif held is None:
        await exchange.refuse(errors.unreachable(last.backend, last.error))
    elif client.started:  # by a keep-alive comment
        await client.finish(held.body if held.status < 400 else errors.event(held.body))
    else:
        await client.answer(held.status, exchange.dress(held.headers, exchange.backend), held.body)
