"""What finished requests and running streams tell the learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gateway.core.acceptance import stream_sums
from gateway.core.features import GENERATING, STEPWISE
from gateway.core.learn import FAMILIES, MODEL, Arm, Sample, Span
from gateway.core.outcome import CANCELLED, OK, TRUNCATED
from gateway.core.predict import CHARS_PER_TOKEN, LIKELY, stratum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import Backend
    from gateway.core.outcome import Outcome, Record
    from gateway.core.predict import ServerModel

LEAST_EVENTS: Final = 20
"""A running stream tells of itself after so many events."""

_ENDED_WELL_ENOUGH: Final = frozenset({OK, CANCELLED, TRUNCATED})
"""Ends of a request whose tokens came as usual until then."""


class Batches(Protocol):
    """How many requests a server had in a time."""

    def mean(self, backend: str, since: float, until: float, /) -> float:
        """Mean number on the server, at least 1."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running stream has come; times are monotonic seconds.

    Attributes:
        started: When it was sent to the backend.
        first: When its first token came.
        last: When its last one did so far.
        events: Events with a token so far.
        cached: Prompt tokens that are likely to have been in the prefix cache.
    """

    request_id: str
    backend: str
    features: Features
    classification: Classification
    started: float
    first: float
    last: float
    events: int
    cached: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a stream has told so far.

    Attributes:
        events: Its events by then.
        until: Monotonic seconds of the last of them.
        prefill_tokens: Prompt tokens that it is thought to have had computed.
    """

    events: int
    until: float
    prefill_tokens: int


def fingerprint(backend: Backend) -> str:
    """What backends have in common that learn together: the configuration as the fleet file tells it."""
    return "/".join((runs(backend), *(f"{key}={value}" for key, value in sorted(backend.labels.items()))))


def runs(backend: Backend) -> str:
    """What a backend runs, wherever it stands and whatever else the labels say of it."""
    return "/".join((backend.target, backend.method, str(backend.draft_tokens), backend.draft or ""))


def drafts_of(backend: Backend) -> str:
    """What backends have in common whose drafts are the same, whatever their N."""
    return f"{backend.method}/{backend.draft or ''}"


def arm(backend: Backend, prior: ServerModel | None) -> Arm:
    """The learner's view of a backend."""
    return Arm(
        fingerprint=fingerprint(backend),
        target=backend.target,
        draft_tokens=backend.draft_tokens,
        family=FAMILIES.get(backend.method, MODEL),
        prior=prior,
        draft=drafts_of(backend),
    )


def probabilities(classification: Classification) -> Mapping[str, float]:
    """Probability by workload; a label that somebody has set is certain."""
    scores = classification.scores
    if classification.source in {"hint", "policy", "examples"} or not scores:
        return {classification.label: 1.0}
    return _shares(scores)


def likely(classification: Classification) -> Mapping[str, float]:
    """The same of those workloads that predictions count, for the learner; of all where none is likely."""
    known = probabilities(classification)
    return _shares({label: share for label, share in known.items() if share >= LIKELY} or known)


def _shares(scores: Mapping[str, float]) -> Mapping[str, float]:
    total = sum(scores.values())
    return {label: score / total for label, score in scores.items()}


def running(progress: Progress, told: Told | None, steps_per_event: float, batches: Batches) -> Sample | None:
    """What a running stream tells beyond what it has told; None while that is little.

    Args:
        progress: How far it has come.
        told: What it has told, if it has.
        steps_per_event: Of its server: 1 where each event is a step.
        batches: Of all servers.
    """
    since, before = (told.until, told.events) if told is not None else (progress.first, 1)
    events = progress.events - before
    if events < LEAST_EVENTS:
        return None
    features, backend = progress.features, progress.backend
    span = Span(batches.mean(backend, since, progress.last), progress.last - since, events * steps_per_event)
    first = told is None
    return Sample(
        backend,
        progress.last,
        likely(progress.classification),
        stratum(features),
        prompt_chars=features.prompt_chars,
        prefill_tokens=_estimate(progress) if first else 0,
        prefilled_at=progress.first,
        ttft=progress.first - progress.started if first else None,
        queue=batches.mean(backend, progress.started, progress.first) - 1.0,
        spans=(span,),
    )


def tell(progress: Progress, told: Told | None) -> Told:
    """What a stream has told after :func:`running`."""
    estimate = told.prefill_tokens if told is not None else _estimate(progress)
    return Told(progress.events, progress.last, estimate)


def _estimate(progress: Progress) -> int:
    return max(1, round(progress.features.prompt_chars / CHARS_PER_TOKEN - progress.cached))


def finished(record: Record, told: Told | None, batches: Batches) -> Sample | None:
    """What a finished request tells beyond what it has told while it ran; None where it tells nothing.

    Args:
        record: The request.
        told: What it has told, if it has.
        batches: Of all servers.
    """
    features, outcome = record.features, record.outcome
    if not record.attempts or features.endpoint not in GENERATING or features.n != 1:
        return None
    if outcome.status not in _ENDED_WELL_ENOUGH:
        return None
    attempt, usage = record.attempts[-1], outcome.usage
    steps, decoded = _steps(record)
    first = None if outcome.ttft is None else attempt.started + outcome.ttft
    computed = None if usage.input_tokens is None else usage.input_tokens - (usage.cached_tokens or 0)
    told_of = told.prefill_tokens if told is not None else 0
    return Sample(
        record.backend,
        attempt.ended,
        likely(record.classification),
        stratum(features),
        prompt_tokens=usage.input_tokens,
        prompt_chars=features.prompt_chars,
        prefill_tokens=0 if computed is None else computed - told_of,
        computed_tokens=computed,
        prefilled_at=first,
        ttft=outcome.ttft,
        queue=0.0 if first is None else batches.mean(record.backend, attempt.started, first) - 1.0,
        steps=steps,
        decoded=decoded,
        drafted=float(outcome.speculation.drafted) if outcome.speculation.grade == "exact" else None,
        spans=_spans(record, first, steps, told, batches),
        output_tokens=usage.output_tokens if outcome.status == OK else None,
        backpressured=outcome.backpressured,
        resumed=outcome.resumed > 0,
    )


def _steps(record: Record) -> tuple[float, float]:
    """Decode steps of a request and the tokens they gave; 0 and 0 where that is not known."""
    outcome = record.outcome
    output = outcome.usage.output_tokens
    if output is None or output < 2:
        return 0.0, 0.0
    told = outcome.speculation
    if record.draft_tokens == 0:
        return output - 1.0, output - 1.0
    if told.grade == "exact":
        # What is left were steps without a draft; a last step that max_tokens cuts gave less.
        plain = max(0, output - 1 - told.steps - told.accepted)
        return float(told.steps + plain), float(told.steps + told.accepted + plain)
    sums = stream_sums(record)
    return (float(sums.steps), float(sums.tokens)) if sums is not None else (0.0, 0.0)


def steps_per_event(record: Record) -> float | None:
    """Steps of a streamed request for each of its events after the first; None where that is not known."""
    steps, _ = _steps(record)
    events = record.outcome.events - 1
    told = steps and events >= LEAST_EVENTS and record.features.endpoint in STEPWISE
    return steps / events if told else None


def _spans(
    record: Record, first: float | None, steps: float, told: Told | None, batches: Batches
) -> tuple[Span, ...]:
    """The time of decoding that was not told yet."""
    outcome: Outcome = record.outcome
    events, seconds = outcome.events - 1, outcome.decode_seconds
    if first is None or not seconds or events < 1 or not steps:
        return ()
    until = first + seconds
    since, left = (told.until, outcome.events - told.events) if told is not None else (first, events)
    if until <= since or left < 1:
        return ()
    return (Span(batches.mean(record.backend, since, until), until - since, steps * left / events),)
