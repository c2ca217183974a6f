"""One request on its way: everything its record will say, filled in as it happens."""

from __future__ import annotations

from functools import lru_cache, partial
from os import urandom
from typing import TYPE_CHECKING, Final

from gateway.core import outcome as outcomes
from gateway.core import reasons
from gateway.core.answer import nature
from gateway.core.classify import Classification
from gateway.core.decide import NoCandidate
from gateway.core.features import GENERATING, RequestView, extract
from gateway.core.outcome import Outcome, Record, Speculation
from gateway.runtime import clock
from gateway.telemetry import trace_context
from gateway.wire import errors, identity
from gateway.wire import headers as names
from gateway.wire.credentials import has_to_do_with
from gateway.wire.identity import request_id

if TYPE_CHECKING:
    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.fleet import Backend, Snapshot
    from gateway.core.outcome import Attempt
    from gateway.wire.attempt import Trial
    from gateway.wire.client import Client, Scope
    from gateway.wire.headers import Headers

CLIENT_CLOSED: Final = 499
"""Status recorded for a client that left before it got one."""


_SPAN_BYTES: Final = 8
_RANDOM_BYTES: Final = identity.BYTES + trace_context.BYTES + _SPAN_BYTES


class Exchange:
    """One request on its way.

    Attributes:
        endpoint: Name of the endpoint.
        target: Path and query as the client sent them.
        fields: Its headers by name; of several with one name the first.
        attempts: Backends tried, oldest first.
        trial: The last of them, once there is one.
        dispatched: Monotonic seconds at which the attempt began that gave the first byte.
        queued: Seconds that it waited for a backend to have room.
        resumed: How often another backend went on with a stream that had broken off.
        trace: Trace context, continued from the caller's if it sent one.
    """

    queued = 0.0

    def __init__(self, scope: Scope, endpoint: str, client: Client, *, trace_ratio: float) -> None:
        self.started = clock.monotonic()
        self._started_unix_ns = clock.unix_ns()
        self._decided = self.started
        self._ended: float | None = None
        self.client = client
        self.endpoint = endpoint
        self.method: str = scope["method"]
        client.bare = self.method == "HEAD"
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        self._asked: bytes = scope.get("query_string", b"")
        asked = self._asked
        query = names.without_secrets(asked)
        self.target = (path + b"?" + query if query else path).decode("ascii", "replace")
        self.headers: Headers = scope["headers"]
        self.fields: dict[bytes, bytes] = dict(reversed(self.headers))
        fields = self.fields
        random = urandom(_RANDOM_BYTES)  # at once: each call is one of the system
        self.request_id = request_id(
            fields.get(names.REQUEST_ID), self.headers, asked, random[: identity.BYTES]
        )
        self.trace = trace_context.begin(
            fields.get(names.TRACEPARENT, b"").decode("latin-1"), self._states,
            random[identity.BYTES : -_SPAN_BYTES], ratio=trace_ratio,
        )  # fmt: skip
        self._span_random = random[-_SPAN_BYTES:]
        trace_context.CURRENT.set(self.trace)
        self.attempts: list[Attempt] = []
        self.trial: Trial | None = None
        self.dispatched = self.started
        self.resumed = 0
        self._features: Features | None = None
        self._classification = Classification("", 0.0, "default")
        self._decision: Decision | NoCandidate | None = None
        self._snapshot: Snapshot | None = None
        self._problem: errors.Problem | None = None

    @property
    def _states(self) -> str:
        """All that the caller says of the state of its trace."""
        if names.TRACESTATE not in self.fields:
            return ""
        return b",".join(value for name, value in self.headers if name == names.TRACESTATE).decode("latin-1")

    def new_span_id(self) -> str:
        """Of one more attempt."""
        random, self._span_random = self._span_random or urandom(_SPAN_BYTES), b""
        return trace_context.new_span_id(random)

    def decided(
        self,
        features: Features,
        classification: Classification,
        decision: Decision | NoCandidate,
        snapshot: Snapshot,
    ) -> None:
        """Note where the request is to go, and the fleet that this was decided on."""
        self._decided = clock.monotonic()
        self._features = features
        self._classification = classification
        self._decision = decision
        self._snapshot = snapshot

    def dress(self, headers: Headers, backend: Backend | None, *, ours: bool = False) -> Headers:
        """A backend's headers as the client gets them, with ours; or those of an answer of our own."""
        dressed = names.to_client(headers)
        if (ours or backend is None) and names.ORIGIN in self.fields:
            dressed.append(names.FOR_ANY_ORIGIN)
        if self.client.bare and (length := names.first(headers, b"content-length")) is not None:
            dressed.append((b"content-length", length))
        dressed.append((names.REQUEST_ID, self.request_id.encode()))
        decision = self._decision
        dressed += _ours(
            None if decision is None else decision.policy_revision,
            self._classification.label,
            None if backend is None else backend.name,
        )
        return dressed

    async def refuse(self, problem: errors.Problem) -> None:
        """Answer with an error of our own, in the form that is still possible."""
        client = self.client
        if client.finished:
            return
        self._problem = problem
        if not client.started:
            headers = self.dress(problem.response_headers(), self.backend, ours=True)
            await client.answer(problem.status, headers, problem.body(self.endpoint))
        elif self.trial is None or self.trial.event_stream or not client.delivered:
            await client.close(self.event(problem.body()))

    def event(self, error: bytes) -> bytes:
        """The body of an error as the event that says so in a stream of the endpoint, on lines of its own."""
        number = self.trial.reading.sequence if self.trial is not None else 0
        border = b"" if self.client.between_events else b"\n\n"
        return border + errors.event(error, self.endpoint, number)

    @property
    def features(self) -> Features | None:
        """Facts of the request, once they are known."""
        return self._features

    @property
    def classification(self) -> Classification:
        """Its workload."""
        return self._classification

    async def taken(self, deadline: float) -> None:
        """Wait until the client has read its answer, which is no part of what is measured."""
        self._ended = clock.monotonic()
        if self.client.behind:
            await self.client.taken(deadline)
        if self.trial is not None and self.trial.event_stream:  # others may end at the same time
            await self.client.turn()

    @property
    def backend(self) -> Backend | None:
        """The last backend tried."""
        return self.trial.backend if self.trial is not None else None

    def record(self) -> Record:
        """The whole, once it has ended."""
        backend = self.backend
        return Record(
            request_id=self.request_id,
            trace=self.trace,
            started=self.started,
            started_unix_ns=self._started_unix_ns,
            decided=self._decided,
            ended=self._ended or clock.monotonic(),
            features=self._features or extract(RequestView(self.endpoint, model="")),
            classification=self._classification,
            decision=self._decision or _undecided(self._problem),
            attempts=tuple(self.attempts),
            outcome=self._outcome(),
            backend=backend.name if backend else "",
            method=backend.method if backend else "",
            draft_tokens=backend.draft_tokens if backend else 0,
            baseline=backend.is_baseline if backend else False,
            snapshot=self._snapshot,
            queued=self.queued,
            of_client=partial(has_to_do_with, headers=self.headers, query=self._asked),
        )

    def _outcome(self) -> Outcome:
        client, trial = self.client, self.trial
        status, error = self._status()
        http_status = client.status or CLIENT_CLOSED
        if trial is None:
            return Outcome(status, http_status, bytes_out=client.bytes_out, error=error)
        reading = trial.reading
        first, since, last = reading.first_token_at, reading.decoding_since, reading.last_token_at
        alone = self.resumed == 0 and self._features is not None and self._features.n == 1
        return Outcome(
            status=status,
            http_status=http_status,
            ttft=None if first is None else first - self.dispatched,
            first_token=None if first is None else first - self.started,
            decode_seconds=last - since if alone and since is not None and last is not None else None,
            first_tokens=reading.first_tokens,
            events=reading.events,
            most_tokens=reading.most_tokens,
            usage=reading.usage,
            speculation=Speculation("not_measured") if self.resumed else reading.speculation(trial.backend),
            finish_reason=reading.finish_reason,
            tool_calls=reading.tool_calls,
            tool_arguments=reading.calls.verdict(reading.finish_reason),
            response_id=reading.response_id,
            response_model=reading.response_model,
            bytes_out=client.bytes_out,
            backpressured=client.slow,
            resumed=self.resumed,
            error=error,
            nature=nature(reading.opening(), calls_tool=reading.tool_calls)
            if status == outcomes.OK and self.endpoint in GENERATING
            else "",
        )

    def _status(self) -> tuple[str, str]:
        """Status class and error class."""
        client, trial = self.client, self.trial
        if client.gone and not client.finished:
            return outcomes.CANCELLED, "client_gone"
        if trial is None:
            if self._problem is None:  # the process is going down
                return outcomes.CANCELLED, "shutdown"
            ours = self._problem is errors.INTERNAL or self._problem.retry_after is not None
            return outcomes.REJECTED if ours else outcomes.CLIENT_ERROR, self._problem.code
        if self._problem is errors.GOING_DOWN or self._problem is errors.INTERNAL:
            return (outcomes.TRUNCATED if client.delivered else outcomes.REJECTED), self._problem.code
        error = trial.error
        if not error:
            return outcomes.OK, ""
        if client.delivered:
            return outcomes.TRUNCATED, error
        if error.startswith("timeout"):
            return outcomes.TIMEOUT, error
        if error == "error_event:4xx" or (400 <= trial.status < 500 and trial.status != 429):
            return outcomes.CLIENT_ERROR, error
        return outcomes.UPSTREAM_ERROR, error


@lru_cache(maxsize=4096)
def _ours(revision: str | None, label: str, backend: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """Headers that say how a request was routed, as far as that is known."""
    said = ((names.POLICY, revision), (names.WORKLOAD, label or None), (names.BACKEND, backend))
    return tuple((name, value.encode()) for name, value in said if value is not None)


def _undecided(problem: errors.Problem | None) -> NoCandidate:
    """What stands in a record for a request that never came to a decision."""
    return NoCandidate(
        kind=reasons.OVERLOADED if problem is errors.OVERLOADED else reasons.UNREADABLE,
        detail=problem.message if problem else "the client left while it sent the request",
        busy=False,
        route=None,
        rejected=(),
        policy_revision="",
        fleet_revision="",
    )
