"""From a Record to a line of the decision log.

It holds no text of a prompt or an answer, no key, and no string that a client made up, except its request
id, which has to be an id.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gateway.core import reasons
from gateway.core.decide import Decision
from gateway.core.filters import unavailable
from gateway.core.loops import NOTHING
from gateway.core.marks import Marks
from gateway.telemetry.decision_schema import (
    CANDIDATES,
    VERSION,
    Acceptance,
    Choice,
    Entry,
    Pick,
    Refused,
    Result,
    State,
    Try,
)

if TYPE_CHECKING:
    from gateway.core.decide import NoCandidate
    from gateway.core.fleet import BackendState
    from gateway.core.outcome import Outcome, Record

OTHER: Final = "other"
"""Stands for a value outside its closed set."""

_FORMATS: Final = frozenset({"text", "json_object", "json_schema", "structural_tag", "grammar", "regex"})
_ROLES: Final = frozenset({"", "system", "user", "assistant", "tool"})
_FINISHES: Final = frozenset({
    "", "stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error", "incomplete",
})  # fmt: skip
_NAMELESS: Final = frozenset({reasons.UNKNOWN_MODEL, reasons.UNREADABLE, reasons.OVERLOADED})
"""Refusals of requests whose model is none of ours, so that its name may be anything."""

_MARKS: Final = tuple(each.name for each in fields(Marks))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PSEUDONYM_BYTES: Final = 8


def model_of(record: Record) -> str:
    """The model asked for if it is one of ours, else nothing: then it is whatever a client typed."""
    decision = record.decision
    known = isinstance(decision, Decision) or decision.kind not in _NAMELESS
    return record.features.model if known else ""


def entry_of(record: Record, seed: int, secret: bytes) -> Entry:
    """What the log says of a request.

    Args:
        record: The request.
        seed: Of the gateway's draws.
        secret: Key of the pseudonyms that stand for sessions and tenants.
    """
    started = record.started
    return Entry(
        version=VERSION,
        time=_time(record.started_unix_ns),
        request_id=record.request_id,
        trace_id=record.trace.trace_id,
        span_id=record.trace.span_id,
        seed=seed,
        seconds=_seconds(record.ended - started),
        decided_after=_seconds(record.decided - started),
        features=_facts(record, secret),
        label=record.classification.label,
        confidence=record.classification.confidence,
        source=record.classification.source,
        scores=dict(record.classification.scores),
        choice=_choice(record.decision),
        states=_states(record),
        attempts=[
            Try(
                each.backend, each.phase, each.error, each.status,
                _seconds(each.started - started), _seconds(each.ended - each.started),
            )
            for each in record.attempts
        ],
        backend=record.backend,
        method=record.method,
        draft_tokens=record.draft_tokens,
        baseline=record.baseline,
        outcome=_result(record),
        acceptance=_acceptance(record),
    )  # fmt: skip


def _time(unix_ns: int) -> str:
    # Through whole microseconds: a float of that many seconds would round.
    moment = _EPOCH + timedelta(microseconds=unix_ns // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _seconds(value: float) -> float:
    return round(value, 6)


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _one_of(value: str, closed: frozenset[str]) -> str:
    return value if value in closed else OTHER


def finish_of(outcome: Outcome) -> str:
    """Why the answer ended, one of the reasons that servers are known to give; they might say anything."""
    return _one_of(outcome.finish_reason, _FINISHES)


def _facts(record: Record, secret: bytes) -> dict[str, Any]:
    features, decision = record.features, record.decision
    hints = features.hints
    pinned = isinstance(decision, Decision) or decision.kind == reasons.ALL_REJECTED
    return {
        "endpoint": features.endpoint,
        "model": model_of(record),
        "stream": features.stream,
        "n": features.n,
        "max_tokens": features.max_tokens,
        "temperature": features.temperature,
        "parameters": sorted(features.parameters),
        "response_format": _one_of(features.response_format, _FORMATS),
        "tool_choice": features.tool_choice,
        "tools": features.tools,
        "turns": features.turns,
        "last_role": _one_of(features.last_role, _ROLES),
        "system_chars": features.system_chars,
        "prompt_chars": features.prompt_chars,
        "last_chars": features.last_chars,
        "language": features.language,
        "output_language": features.output_language,
        # Of some forty marks a text has five.
        "marks": _marks(features.marks),
        "hints": {
            "workload": record.classification.label if record.classification.source == "hint" else None,
            "backend": hints.backend if pinned else None,
            "session": _pseudonym(hints.session, secret),
            "tenant": _pseudonym(hints.tenant, secret),
        },
    }


def _pseudonym(name: str | None, secret: bytes) -> str | None:
    if name is None:
        return None
    return blake2b(name.encode(), digest_size=_PSEUDONYM_BYTES, key=secret).hexdigest()


def _choice(decision: Decision | NoCandidate) -> Choice:
    rejected = [Refused(each.backend, each.reason) for each in decision.rejected[:CANDIDATES]]
    beyond = len(decision.rejected) - len(rejected)
    if not isinstance(decision, Decision):
        return Choice(
            decision.route, None, decision.kind, None, {}, [], rejected, beyond, 0,
            decision.policy_revision, decision.fleet_revision,
        )  # fmt: skip
    candidates = [*islice(decision.candidates, CANDIDATES)]
    scorers = candidates[0].scorers
    names = [scorer.name for scorer in scorers]
    return Choice(
        decision.route,
        decision.target,
        decision.reason,
        decision.propensity,
        {scorer.name: scorer.weight for scorer in scorers},
        [Pick(each.backend, each.cost, dict(zip(names, each.values, strict=True))) for each in candidates],
        rejected,
        beyond + len(decision.candidates) - len(candidates),
        decision.max_attempts,
        decision.policy_revision,
        decision.fleet_revision,
        decision.service,
        decision.shadow,
    )


def _states(record: Record) -> list[State]:
    decision = record.decision
    named = {each.backend for each in decision.rejected[:CANDIDATES]}
    if isinstance(decision, Decision):
        named.update(each.backend for each in islice(decision.candidates, CANDIDATES))
    if record.snapshot is None or not named:
        return []
    return [
        _state(state, record.decided) for state in record.snapshot.everybody if state.backend.name in named
    ]


def _state(state: BackendState, now: float) -> State:
    why, load = unavailable(state, now), state.load
    return State(
        backend=state.backend.name,
        in_flight=state.in_flight,
        limit=state.limit(now),
        unavailable=why[0] if why else "",
        since_load=state.since_load if load else None,
        running=load.running if load else None,
        waiting=load.waiting if load else None,
        kv_usage=load.kv_usage if load else None,
        load_age=_seconds(now - load.at) if load else None,
    )


def _result(record: Record) -> Result:
    outcome, usage = record.outcome, record.outcome.usage
    return Result(
        status=outcome.status,
        http_status=outcome.http_status,
        error=outcome.error,
        ttft=_number(outcome.ttft),
        tpot=_number(outcome.tpot),
        decode_seconds=_number(outcome.decode_seconds),
        decode_tokens=outcome.decode_tokens,
        events=outcome.events,
        most_tokens=outcome.most_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        finish_reason=finish_of(outcome),
        tool_calls=outcome.tool_calls,
        tool_arguments=outcome.tool_arguments,
        nature=outcome.nature,
        bytes_out=outcome.bytes_out,
        backpressured=outcome.backpressured,
        resumed=outcome.resumed,
    )


def _acceptance(record: Record) -> Acceptance:
    speculation = record.outcome.speculation
    return Acceptance(
        speculation.grade,
        speculation.steps,
        speculation.drafted,
        speculation.accepted,
        list(speculation.histogram),
    )


def _marks(marks: Marks) -> dict[str, Any]:
    found = {name: known for name in _MARKS if name != "loop" and (known := getattr(marks, name))}
    if marks.loop != NOTHING:
        found["loop"] = asdict(marks.loop)
    return found
