"""Carries out a decision: one backend after the other until the client has its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.failover import REFUSED, GiveUp, rule, sought, unseen
from gateway.core.features import GENERATING
from gateway.core.fleet import STAND_IN
from gateway.core.values import value
from gateway.telemetry import trace_context
from gateway.wire import body as bodies
from gateway.wire import errors, forms
from gateway.wire import headers as names
from gateway.wire.attempt import Trial
from gateway.wire.plan import Plan
from gateway.wire.repeating import repeatable
from gateway.wire.resume import Continuation, Splice, may_go_on
from gateway.wire.tape import Tape
from gateway.wire.upstream import UpstreamRequest

if TYPE_CHECKING:
    import asyncio

    from gateway.core.decide import Decision
    from gateway.core.features import Features, RequestView
    from gateway.core.fleet import Backend
    from gateway.core.policy import Policy
    from gateway.runtime.alarms import Alarms
    from gateway.runtime.fleet import Fleet
    from gateway.wire.attempt import Send
    from gateway.wire.exchange import Exchange
    from gateway.wire.headers import Headers
    from gateway.wire.upstream import Upstream

USAGE_ON_REQUEST: Final = frozenset({"chat", "completions"})
"""Endpoints whose streams report usage only where ``stream_options`` asks for it."""


@value(frozen=True, slots=True)
class Execution:
    """The attempts at one request.

    Attributes:
        body: The client's request body.
        features: What it asks for.
        ask_usage: Ask the backend for usage, and take it out of what the client gets.
        tape: Takes down what is delivered where another backend may go on with it.
        repeatable: Whether the request may be sent again once a backend may have read it.
        hosted: Asks the hosted models that stand in for servers.
    """

    exchange: Exchange
    decision: Decision
    policy: Policy
    seen: RequestView
    body: bytes
    features: Features
    fleet: Fleet
    upstream: Upstream
    ask_usage: bool
    tape: Tape | None
    repeatable: bool
    hosted: Upstream

    @classmethod
    def of(
        cls,
        exchange: Exchange,
        decision: Decision,
        policy: Policy,
        request: tuple[RequestView, Features, bytes],
        fleet: Fleet,
        upstream: Upstream,
        hosted: Upstream,
    ) -> Execution:
        """Prepare the attempts at a request, given as what was seen of it, its features and its body."""
        seen, features, body = request
        ask_usage = seen.stream and not seen.include_usage and seen.endpoint in USAGE_ON_REQUEST
        tape = Tape() if policy.resume.mode == "exact" and may_go_on(features, body) else None
        again = repeatable(exchange.method, seen.endpoint, kept=seen.kept)
        return cls(
            exchange, decision, policy, seen, body, features, fleet, upstream, ask_usage, tape, again, hosted
        )

    async def run(self, alarms: Alarms, task: asyncio.Task[object]) -> None:
        """Make them in this task, with their limits in time among these alarms."""
        exchange, client = self.exchange, self.exchange.client
        plan = Plan(
            endpoint=self.seen.endpoint,
            stream=self.seen.stream,
            choices=self.features.n,
            usage=self.seen.include_usage,
            strip_usage=self.ask_usage,
            tape=self.tape,
            timeouts=self.policy.timeouts,
            deadline=exchange.started + self.policy.timeouts.total,
            dress=exchange.dress,
            alarms=alarms,
            task=task,
        )
        refused: Trial | None = None
        while self._may_go_elsewhere and not isinstance(backend := self._next(plan.deadline), GiveUp):
            span_id = exchange.new_span_id()
            splice: Splice | None = None
            send: Send = self.hosted.send if backend.method == STAND_IN else self.upstream.send
            if not (goes_on := client.delivered):
                request = self._request(backend, span_id)
                if self.tape is not None:
                    self.tape.rewind()
            else:
                request, splice, send = self._continuation(backend, span_id)
            trial = Trial(plan, backend, request, client, span_id, splice)
            exchange.trial = trial
            if not goes_on:
                exchange.dispatched = trial.started
            self.fleet.dispatched(backend.name)
            try:
                await trial.run(send)
            finally:
                attempt = trial.attempt()
                self.fleet.finished(backend.name, attempt)
                exchange.attempts.append(attempt)
                exchange.resumed += goes_on and trial.status == 200
            if not trial.error:
                # Who lacks the response that is gone on from refuses no kind of request.
                if self.features.hints.previous is None:
                    self.fleet.answered(self.features, exchange.attempts)
                return
            if refused is None and rule(attempt) is REFUSED:
                refused = trial
        if refused is not None and not client.delivered:
            exchange.trial = refused  # it says what is wrong with the request
        await self._give_up()

    @property
    def _may_go_elsewhere(self) -> bool:
        """Whether nothing is done twice by another attempt."""
        attempts = self.exchange.attempts
        return self.repeatable or unseen(attempts) or sought(self.decision, attempts)

    def _next(self, deadline: float) -> Backend | GiveUp:
        """Where the request goes next: a server, or a hosted model in the place of those that failed."""
        attempts, delivered = self.exchange.attempts, self.exchange.client.delivered
        found = self.fleet.next_backend(
            self.decision, attempts, delivered=delivered, resumable=self._may_go_on(), deadline=deadline
        )
        if isinstance(found, GiveUp) and self.fleet.snapshot.stand_ins and not delivered:
            return self.fleet.stand_in(found, self.decision, attempts, self.features, self.policy)
        return found

    def _may_go_on(self) -> bool:
        """Whether what was delivered is known well enough for another backend to go on with it."""
        tape, exchange = self.tape, self.exchange
        return (
            tape is not None
            and exchange.trial is not None
            and not exchange.trial.reading.finish_reason
            and tape.can_go_on
            and not exchange.client.finished
            and exchange.resumed < self.policy.resume.limit
        )

    def _request(self, backend: Backend, span_id: str) -> UpstreamRequest:
        seen, body = self.seen, self.body
        model = backend.served_model if seen.model and seen.model != backend.served_model else None
        if model is not None and seen.endpoint not in GENERATING and forms.is_form(kind := self._kind()):
            body = forms.with_model(body, kind, model)
        elif model is not None or self.ask_usage or self.tape is not None:
            body = bodies.edit(
                body, model=model, include_usage=self.ask_usage, token_ids=self.tape is not None
            )
        return UpstreamRequest(
            method=self.exchange.method,
            url=backend.url + self.exchange.target,
            headers=self._headers(backend, span_id),
            body=body,
            repeatable=self.repeatable,
        )

    def _kind(self) -> bytes:
        return self.exchange.fields.get(b"content-type", b"")

    def _continuation(self, backend: Backend, span_id: str) -> tuple[UpstreamRequest, Splice, Send]:
        assert self.tape is not None  # noqa: S101 - _may_go_on has looked
        assert self.exchange.trial is not None  # noqa: S101 - something was delivered
        request = UpstreamRequest(
            "POST", f"{backend.url}/v1/completions", self._headers(backend, span_id), body=b""
        )
        splice = Splice(self.tape, self.exchange.trial.reading, strip_usage=self.ask_usage)
        return request, splice, Continuation(self.upstream, backend, self.tape, self.body).send

    def _headers(self, backend: Backend, span_id: str) -> Headers:
        exchange = self.exchange
        headers = names.to_backend(exchange.headers)
        headers.append((names.REQUEST_ID, exchange.request_id.encode()))
        headers.append((b"accept-encoding", b"identity"))
        headers.append((names.TRACEPARENT, trace_context.traceparent(exchange.trace, span_id).encode()))
        if exchange.trace.state:
            headers.append((names.TRACESTATE, exchange.trace.state.encode()))
        if backend.api_key:
            headers.append((b"authorization", b"Bearer " + backend.api_key.encode()))
        return headers

    async def _give_up(self) -> None:
        """Tell the client what became of its request, in the best form still possible."""
        exchange = self.exchange
        client, trial = exchange.client, exchange.trial
        if client.finished:
            return
        if not exchange.attempts:
            await exchange.refuse(errors.TOO_SLOW)
            return
        last = exchange.attempts[-1]
        held = trial.held if trial is not None else None
        if client.delivered:
            # Any other answer than an event stream can only be cut off, which the missing end of the body
            # tells.
            if trial is not None and trial.event_stream:
                said = trial.tap.error or errors.broken_off(last.backend, last.error).body()
                await client.close(exchange.event(said))
        elif held is None:
            await exchange.refuse(errors.unreachable(last.backend, last.error))
        elif client.started:  # by a comment
            said = errors.said(held.body, held.status, last.backend)
            await client.close(held.body if held.status < 400 else exchange.event(said))
        else:
            await client.answer(held.status, exchange.dress(held.headers, exchange.backend), held.body)
