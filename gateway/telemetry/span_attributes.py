"""What spans say of a request: what was asked, where it went and why, what was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.decide import Decision
from gateway.core.predict import ask, predict
from gateway.telemetry import names
from gateway.telemetry.decision_entry import model_of

if TYPE_CHECKING:
    from gateway.core.outcome import Record

    Value = str | bool | int | float | tuple[str, ...] | tuple[int, ...]
    Attributes = dict[str, Value]

_MAX_CANDIDATES: Final = 8
_MAX_REJECTED: Final = 16


def error_type(error: str) -> str:
    """The value of ``error.type`` for an error class: of ``status:503`` the number, else the class."""
    return error.removeprefix("status:")


def operation(record: Record) -> str:
    """The GenAI operation, or the endpoint's name."""
    return names.OPERATIONS.get(record.features.endpoint, record.features.endpoint)


def span_name(record: Record) -> str:
    """The operation, and the model if there is such a one."""
    model = model_of(record)
    return f"{operation(record)} {model}" if model else operation(record)


def asked(record: Record) -> Attributes:
    """What the client asked for."""
    features = record.features
    attributes: Attributes = {
        names.GEN_AI_OPERATION.name: operation(record),
        names.GEN_AI_STREAM.name: features.stream,
    }
    if model := model_of(record):
        attributes[names.GEN_AI_MODEL.name] = model
    if features.max_tokens is not None:
        attributes[names.GEN_AI_MAX_TOKENS.name] = features.max_tokens
    if features.temperature is not None:
        attributes[names.GEN_AI_TEMPERATURE.name] = features.temperature
    if features.n != 1:
        attributes[names.GEN_AI_CHOICES.name] = features.n
    return attributes


def answered(record: Record) -> Attributes:
    """What the backend answered, as far as it did."""
    result, usage = record.outcome, record.outcome.usage
    known: dict[names.Attribute, Value | None] = {
        names.GEN_AI_RESPONSE_ID: result.response_id or None,
        names.GEN_AI_RESPONSE_MODEL: result.response_model or None,
        names.GEN_AI_FINISH: (result.finish_reason,) if result.finish_reason else None,
        names.GEN_AI_FIRST_CHUNK: result.ttft,
        names.GEN_AI_INPUT_TOKENS: usage.input_tokens,
        names.GEN_AI_OUTPUT_TOKENS: usage.output_tokens,
        names.GEN_AI_CACHED_TOKENS: usage.cached_tokens,
    }
    return _present(known)


def route(record: Record) -> Attributes:
    """What it was taken for, where it went and why."""
    decision, classification = record.decision, record.classification
    known: dict[names.Attribute, Value | None] = {
        names.ROUTE_REQUEST_ID: record.request_id,
        names.ROUTE_STATUS: record.outcome.status,
        names.ROUTE_WORKLOAD: classification.label,
        names.ROUTE_CONFIDENCE: classification.confidence,
        names.ROUTE_SOURCE: classification.source,
        names.ROUTE_NAME: decision.route,
        names.ROUTE_DECISION_TIME: record.decided - record.started,
        names.ROUTE_REJECTED: tuple(
            f"{each.backend}={each.reason}" for each in decision.rejected[:_MAX_REJECTED]
        ),
        names.ROUTE_POLICY: decision.policy_revision,
        names.ROUTE_FLEET: decision.fleet_revision,
        names.ROUTE_ATTEMPTS: len(record.attempts),
    }
    if isinstance(decision, Decision):
        known[names.ROUTE_REASON] = decision.reason
        known[names.ROUTE_PROPENSITY] = decision.propensity
        known[names.ROUTE_SERVICE] = decision.service
        known[names.ROUTE_SHADOW] = decision.shadow or None
        known[names.ROUTE_CANDIDATES] = tuple(
            f"{each.backend}={each.cost:.4g}" for each in decision.candidates[:_MAX_CANDIDATES]
        )
    else:
        known[names.ROUTE_REASON] = decision.kind
    if record.backend:
        known[names.ROUTE_BACKEND] = record.backend
        known[names.ROUTE_METHOD] = record.method
        known[names.ROUTE_DRAFT_TOKENS] = record.draft_tokens
    return _present(known)


def predicted(record: Record) -> Attributes:
    """What was to be expected of the first candidate, worked out again from what the decision saw."""
    decision, snapshot = record.decision, record.snapshot
    if not isinstance(decision, Decision) or snapshot is None:
        return {}
    first = decision.candidates[0].backend
    state = next((state for state in snapshot.states if state.backend.name == first), None)
    if state is None or state.model is None:
        return {}
    asked = ask(record.features, record.classification)
    found = predict(state.model, asked, state.queue(record.decided, math.inf))
    return {names.ROUTE_PREDICTED_TTFT.name: found.ttft, names.ROUTE_PREDICTED_TPOT.name: found.tpot}


def measured(record: Record) -> Attributes:
    """How fast it was and what was accepted."""
    result, speculation = record.outcome, record.outcome.speculation
    output = result.usage.output_tokens
    known: dict[names.Attribute, Value | None] = {
        names.ROUTE_TTFT: result.ttft,
        names.ROUTE_TPOT: result.tpot if record.features.n == 1 else None,
        names.ROUTE_GRADE: speculation.grade,
        names.ROUTE_LENGTH: speculation.mean_accepted_length,
        names.ROUTE_ACCEPTANCE: speculation.acceptance_rate,
        names.ROUTE_HISTOGRAM: speculation.histogram or None,
        names.ROUTE_PER_EVENT: output / result.events if output and result.events else None,
    }
    return _present(known)


def _present(known: dict[names.Attribute, Value | None]) -> Attributes:
    return {attribute.name: value for attribute, value in known.items() if value is not None}
