"""What spans say of a request, as bytes: what was asked, where it went and why, what was measured.

Most of it repeats: labels, backends, revisions, a client's usual parameters. Such facts are written once and
kept together, so that a span costs little more than the numbers that are its own.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gateway.core.decide import Decision
from gateway.core.identifiers import is_id, is_model
from gateway.core.predict import ask, predict
from gateway.telemetry import names
from gateway.telemetry.decision_entry import finish_of, model_of
from gateway.telemetry.failures import error_type
from gateway.telemetry.otlp import Key, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.core.decide import Candidate, Rejected
    from gateway.core.outcome import Attempt, Record
    from gateway.telemetry.otlp import Value

_kept: Final = lru_cache(1024)
"""Keeps what was written for the last combinations of facts, of which there are seldom as many at a time."""

_MAX_CANDIDATES: Final = 8
_MAX_REJECTED: Final = 16

_KEYS: Final = {each: Key(each.name) for each in (*names.SERVER_SPAN, *names.ATTEMPT_SPAN)}

_confidence: Final = _KEYS[names.ROUTE_CONFIDENCE].double
_decision_time: Final = _KEYS[names.ROUTE_DECISION_TIME].double
_propensity: Final = _KEYS[names.ROUTE_PROPENSITY].double
_predicted_ttft: Final = _KEYS[names.ROUTE_PREDICTED_TTFT].double
_predicted_tpot: Final = _KEYS[names.ROUTE_PREDICTED_TPOT].double
_request_id: Final = _KEYS[names.ROUTE_REQUEST_ID].text
_ttft: Final = _KEYS[names.ROUTE_TTFT].double
_tpot: Final = _KEYS[names.ROUTE_TPOT].double
_length: Final = _KEYS[names.ROUTE_LENGTH].double
_acceptance: Final = _KEYS[names.ROUTE_ACCEPTANCE].double
_per_event: Final = _KEYS[names.ROUTE_PER_EVENT].double
_candidates_of: Final = _KEYS[names.ROUTE_CANDIDATES].texts
_histogram: Final = _KEYS[names.ROUTE_HISTOGRAM].wholes
_first_chunk: Final = _KEYS[names.GEN_AI_FIRST_CHUNK].double
_response_id: Final = _KEYS[names.GEN_AI_RESPONSE_ID].text
_input_tokens: Final = _KEYS[names.GEN_AI_INPUT_TOKENS].whole
_output_tokens: Final = _KEYS[names.GEN_AI_OUTPUT_TOKENS].whole
_cached_tokens: Final = _KEYS[names.GEN_AI_CACHED_TOKENS].whole


def asked(record: Record) -> tuple[str, bytes]:
    """What the client asked for: as the name of a span, operation and model, and as attributes."""
    of = record.features
    return _asked(of.endpoint, model_of(record), of.max_tokens, of.temperature, of.n, of.stream)


@_kept
def _asked(
    endpoint: str, model: str, max_tokens: int | None, temperature: float | None, n: int,
    stream: bool,  # noqa: FBT001 - a name would double the price
) -> tuple[str, bytes]:  # fmt: skip
    operation = names.OPERATIONS.get(endpoint, endpoint)
    name = f"{operation} {model}" if model else operation
    return name, _written({
        names.GEN_AI_OPERATION: operation,
        names.GEN_AI_STREAM: stream,
        names.GEN_AI_MODEL: model or None,
        names.GEN_AI_MAX_TOKENS: max_tokens,
        names.GEN_AI_TEMPERATURE: temperature,
        names.GEN_AI_CHOICES: n if n != 1 else None,
    })  # fmt: skip


def route(record: Record) -> bytes:
    """What it was taken for, where it went and why."""
    decision, classification, outcome = record.decision, record.classification, record.outcome
    service = shadow = ""
    parts = [
        _request_id(record.request_id),
        _confidence(classification.confidence),
        _decision_time(record.decided - record.started),
    ]
    if isinstance(decision, Decision):
        reason, service, shadow = decision.reason, decision.service, decision.shadow
        parts += (_propensity(decision.propensity), _candidates(islice(decision.candidates, _MAX_CANDIDATES)))
    else:
        reason = decision.kind
    if decision.rejected:
        parts.append(_rejected(decision.rejected[:_MAX_REJECTED]))
    repeated = _route(
        outcome.status, outcome.http_status, outcome.speculation.grade, classification.label,
        classification.source, decision.route, reason, service, shadow, decision.policy_revision,
        decision.fleet_revision, record.backend, record.method, record.draft_tokens, len(record.attempts),
    )  # fmt: skip
    return b"".join((repeated, *parts))


@_kept
def _route(  # noqa: PLR0913, PLR0917 - each is a part of the key
    status: str, http_status: int, grade: str, workload: str, source: str, route: str | None, reason: str,
    service: str, shadow: str, policy: str, fleet: str, backend: str, method: str,
    draft_tokens: int, attempts: int,
) -> bytes:  # fmt: skip
    return _written({
        names.ROUTE_STATUS: status,
        names.HTTP_STATUS: http_status,
        names.ROUTE_GRADE: grade,
        names.ROUTE_WORKLOAD: workload,
        names.ROUTE_SOURCE: source,
        names.ROUTE_NAME: route,
        names.ROUTE_REASON: reason,
        names.ROUTE_SERVICE: service or None,
        names.ROUTE_SHADOW: shadow or None,
        names.ROUTE_POLICY: policy,
        names.ROUTE_FLEET: fleet,
        names.ROUTE_BACKEND: backend or None,
        names.ROUTE_METHOD: method if backend else None,
        names.ROUTE_DRAFT_TOKENS: draft_tokens if backend else None,
        names.ROUTE_ATTEMPTS: attempts,
    })  # fmt: skip


def _candidates(candidates: Iterable[Candidate]) -> bytes:
    return _candidates_of([b"%b=%.4g" % (_bytes(each.backend), each.cost) for each in candidates])


def _rejected(rejected: tuple[Rejected, ...]) -> bytes:
    return _named_rejected(tuple([(each.backend, each.reason) for each in rejected]))


@_kept
def _named_rejected(rejected: tuple[tuple[str, str], ...]) -> bytes:
    return _KEYS[names.ROUTE_REJECTED].of(tuple([f"{backend}={reason}" for backend, reason in rejected]))


def predicted(record: Record) -> bytes:
    """What was to be expected of the first candidate, worked out again from what the decision saw."""
    decision, snapshot = record.decision, record.snapshot
    if not isinstance(decision, Decision) or snapshot is None:
        return b""
    first = decision.candidates[0].backend
    for state in snapshot.states:
        if state.backend.name == first:
            break
    else:
        return b""
    if state.model is None:
        return b""
    asked = ask(record.features, record.classification)
    found = predict(state.model, asked, state.queue(record.decided, math.inf))
    return _predicted_ttft(found.ttft) + _predicted_tpot(found.tpot)


def measured(record: Record) -> bytes:
    """How fast it was and what was accepted."""
    result, speculation = record.outcome, record.outcome.speculation
    output = result.usage.output_tokens
    parts = []
    if result.ttft is not None:
        parts.append(_ttft(result.ttft))
    if record.features.n == 1 and (tpot := result.tpot) is not None:
        parts.append(_tpot(tpot))
    if (length := speculation.mean_accepted_length) is not None:
        parts.append(_length(length))
    if (rate := speculation.acceptance_rate) is not None:
        parts.append(_acceptance(rate))
    if speculation.histogram:
        parts.append(_histogram(speculation.histogram))
    if output and result.events:
        parts.append(_per_event(output / result.events))
    return b"".join(parts)


def failed(error: str) -> bytes:
    """That a span is of a failure, and which."""
    return _written({names.ERROR_TYPE: error})


def kept(why: str) -> bytes:
    """Why a trace is here that chance left out."""
    return _written({names.ROUTE_KEPT: why})


def went_wrong(attempt: Attempt) -> bool:
    """Whether an attempt failed; that the client left is no failure."""
    return attempt.error not in {"", "client_gone"}


def tried(attempt: Attempt, number: int, url: str) -> bytes:
    """Which backend was tried, and how far it came.

    Args:
        attempt: What became of it.
        number: Its place, from 1.
        url: Address of the backend, empty if it has left the fleet.
    """
    error = error_type(attempt.error) if went_wrong(attempt) else ""
    return _tried(attempt.backend, number, attempt.phase, attempt.status, attempt.error, error, url)


@_kept
def _tried(
    backend: str, number: int, phase: str, status: int, error: str, error_type: str, url: str
) -> bytes:
    address = urlsplit(url)
    port = address.port or (443 if address.scheme == "https" else 80)
    provider = names.PROVIDER
    if address.scheme == names.HOSTED:  # which has no address of its own
        provider, url = names.HOSTED, ""
    return _written({
        names.GEN_AI_PROVIDER: provider,
        names.ROUTE_BACKEND: backend,
        names.ATTEMPT_NUMBER: number,
        names.ATTEMPT_PHASE: phase,
        names.SERVER_ADDRESS: (address.hostname or "") if url else None,
        names.SERVER_PORT: port if url else None,
        names.HTTP_STATUS: status or None,
        names.ATTEMPT_ERROR: error or None,
        names.ERROR_TYPE: error_type or None,
    })  # fmt: skip


def answered(record: Record) -> bytes:
    """What the backend answered, as far as it did."""
    result, usage = record.outcome, record.outcome.usage
    model = result.response_model
    if model != record.features.model and _is_of_client(model, record):
        model = ""
    parts = [_ended(model, finish_of(result))]
    if _is_answer_id(result.response_id, record):
        parts.append(_response_id(result.response_id))
    if result.ttft is not None:
        parts.append(_first_chunk(result.ttft))
    if usage.input_tokens is not None:
        parts.append(_input_tokens(usage.input_tokens))
    if usage.output_tokens is not None:
        parts.append(_output_tokens(usage.output_tokens))
    if usage.cached_tokens is not None:
        parts.append(_cached_tokens(usage.cached_tokens))
    return b"".join(parts)


def _is_answer_id(answer_id: str, record: Record) -> bool:
    """Whether it may be recorded. vLLM's is a word of its own and the request's id, and that one is known."""
    own = answer_id.removesuffix(record.request_id)
    if not own:
        return bool(answer_id)
    return _is_id(own) and not _is_of_client(answer_id, record)


def _is_of_client(text: str, record: Record) -> bool:
    """Whether a text of the backend's has to do with the credentials of the client."""
    return record.of_client is not None and record.of_client(text.encode())


_is_id: Final = _kept(is_id)
_bytes: Final = _kept(written)


@_kept
def _ended(model: str, finish: str) -> bytes:
    return _written({
        names.GEN_AI_RESPONSE_MODEL: model if is_model(model) else None,
        names.GEN_AI_FINISH: (finish,) if finish else None,
    })  # fmt: skip


def _written(known: dict[names.Attribute, Value | None]) -> bytes:
    """All that have a value."""
    return b"".join([
        _KEYS[attribute].of(value) for attribute, value in known.items() if value is not None
    ])  # fmt: skip
