"""From a Record to numbers: what each finished request adds to counters and histograms."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.core.decide import Decision
from gateway.core.features import WORKLOADS
from gateway.core.gain import Gain, decode_sample
from gateway.core.labels import known
from gateway.core.outcome import accepted_by_position
from gateway.telemetry import names
from gateway.telemetry.failures import Failures, error_class, error_type
from gateway.telemetry.tally import observe, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import Meter

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record, Speculation
    from gateway.core.policy import Policy
    from gateway.telemetry.histograms import Histograms, Request, Series
    from gateway.telemetry.tally import Tally, Values


_Of = TypeVar("_Of")


def histograms_of(genai: names.GenAi) -> tuple[names.Metric, ...]:
    """The histograms that :class:`Metrics` feeds."""
    return tuple(each for each in (*names.METRICS, *genai.metrics) if each.kind == names.HISTOGRAM)


class _Route:
    """What requests of one kind of work on one backend add up to; they share the first three labels.

    Attributes:
        histogram: Steps by number of accepted drafts.
    """

    __slots__ = (
        "accepted", "answers", "decode_time", "decode_tokens", "drafted", "duration", "grades", "histogram",
        "input_tokens", "languages", "output_tokens", "queued", "resumes", "sources", "statuses", "steps",
        "tool_calls", "tpot", "ttft",
    )  # fmt: skip

    def __init__(self, tallies: Mapping[names.Metric, Tally], histograms: Histograms, labels: Values) -> None:
        workload = labels[:1]
        self.sources = tallies[names.CLASSIFICATIONS].row(workload)
        self.languages = tallies[names.LANGUAGES].row(workload)
        self.answers = tallies[names.ANSWERS].row(workload)
        self.statuses = tallies[names.REQUESTS].row(labels)
        self.grades = tallies[names.MEASURED].row(labels)
        self.tool_calls = tallies[names.TOOL_CALLS].row(labels)
        self.duration = histograms.series(names.DURATION, labels)
        self.ttft = histograms.series(names.TTFT, labels)
        self.queued = histograms.series(names.QUEUE_WAIT, labels)
        self.tpot = histograms.series(names.TPOT, labels)
        self.input_tokens = self.output_tokens = self.decode_tokens = self.resumes = 0
        self.steps = self.drafted = self.accepted = 0
        self.decode_time = 0.0
        self.histogram: list[int] = []


def _of_route(name: str) -> Callable[[_Route], float | None]:
    read = attrgetter(name)
    return lambda route: read(route) or None


_SUMS: Final[Mapping[names.Metric, Callable[[_Route], float | None]]] = {
    names.INPUT_TOKENS: _of_route("input_tokens"),
    names.OUTPUT_TOKENS: _of_route("output_tokens"),
    names.DECODE_TOKENS: _of_route("decode_tokens"),
    names.DECODE_TIME: _of_route("decode_time"),
    names.STEPS: _of_route("steps"),
    names.DRAFTED: _of_route("drafted"),
    names.ACCEPTED: _of_route("accepted"),
    names.RESUMES: _of_route("resumes"),
}
"""Counters that have the labels of a route and no other."""


class _Operation:
    """The same of one GenAI operation on one model, by the names of the conventions."""

    __slots__ = (
        "cached_tokens", "durations", "first_chunk", "input_tokens", "output_tokens", "server_durations",
        "server_first_token", "server_per_token",
    )  # fmt: skip

    def __init__(self, histograms: Histograms, genai: names.GenAi, labels: Values) -> None:
        self.server_durations = histograms.row(genai.server_duration, labels)
        self.durations = histograms.row(genai.duration, labels)
        self.server_per_token = histograms.series(genai.server_per_token, labels)
        self.server_first_token = histograms.series(genai.server_first_token, labels)
        self.first_chunk = histograms.series(genai.first_chunk, labels)
        told_apart = genai.input_tokens is genai.output_tokens
        self.input_tokens, self.output_tokens = (
            histograms.series(metric, (*labels, kind) if told_apart else labels)
            for metric, kind in ((genai.input_tokens, "input"), (genai.output_tokens, "output"))
        )
        self.cached_tokens: int | None = None


def _total(series: Series) -> int | None:
    return int(series.total) if series.started else None


_USAGE: Final[tuple[Callable[[_Operation], int | None], ...]] = (
    lambda of: _total(of.input_tokens),
    lambda of: _total(of.output_tokens),
    lambda of: of.cached_tokens,
)
"""What :attr:`.names.GenAi.usage` counts."""


class Metrics:
    """The counters and histograms that Records feed, and the gain they show.

    Args:
        meter: Where the counters belong.
        histograms: Where measurements go; holds those of :func:`histograms_of` the same names.
        genai: GenAI names to use.
        backends: Gives the fleet as it is.
    """

    def __init__(
        self,
        meter: Meter,
        histograms: Histograms,
        genai: names.GenAi,
        backends: Callable[[], Iterable[Backend]] = tuple,
    ) -> None:
        self.gain = Gain()
        self._histograms = histograms
        self._genai = genai
        self._workloads = frozenset(WORKLOADS)
        self._loads = 0
        observe(meter, names.POLICY_LOADS, lambda: [((), self._loads)])
        failures = Failures(backends, lambda: self._workloads)
        expected = {
            names.REQUESTS: failures.requests, names.TOOL_CALLS: failures.tool_calls,
            names.FAILOVERS: failures.failovers, names.DECISIONS: failures.refusals,
        }  # fmt: skip
        self._tallies = {
            metric: tally(meter, metric, expected.get(metric, tuple))
            for metric in (
                names.REQUESTS, names.MEASURED, names.FAILOVERS, names.CLASSIFICATIONS, names.LANGUAGES,
                names.ANSWERS, names.TOOL_CALLS, names.DECISIONS, names.REJECTIONS,
            )
        }  # fmt: skip
        self._routes: dict[Values, _Route] = {}
        self._operations: dict[Values, _Operation] = {}
        self._read: dict[names.Metric, Callable[[], dict[Values, float]]] = {
            **{metric: of.numbers for metric, of in self._tallies.items()},
            **{metric: partial(_sums, self._routes, of) for metric, of in _SUMS.items()},
            **{
                metric: partial(_sums, self._operations, of)
                for metric, of in zip(genai.usage, _USAGE, strict=False)
            },
            names.ACCEPTED_AT: self._accepted_at,
        }
        for metric in self._read:
            if metric not in self._tallies:
                observe(meter, metric, partial(self._shown, metric))

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        """A counter that Records feed, by label values.

        Raises:
            KeyError: They do not feed it.
        """
        return self._read[metric]()

    def _shown(self, metric: names.Metric) -> Iterable[tuple[Values, float]]:
        return self._read[metric]().items()

    def _accepted_at(self) -> dict[Values, float]:
        return {
            (*labels, str(position)): count
            for labels, route in tuple(self._routes.items())
            for position, count in enumerate(accepted_by_position(route.histogram))
        }

    def policy_loaded(self, policy: Policy) -> None:
        """A policy came into force; the labels it names are known workloads from now on."""
        routed = (route.match.workloads for route in policy.routes)
        self._workloads = known(policy.classifier).union(*routed)
        self._loads += 1

    def on_record(self, record: Record, *, traced: bool) -> None:
        """Count a finished request.

        Args:
            record: The request.
            traced: Whether its trace is exported, so that exemplars may lead there.
        """
        label = record.classification.label
        workload = label if label in self._workloads else names.OTHER
        labels = (workload, record.backend, record.method)
        route = self._routes.get(labels)
        if route is None:
            route = self._routes[labels] = _Route(self._tallies, self._histograms, labels)
        sample = decode_sample(record)
        request = (record.started_unix_ns, record.trace if traced else None)
        self._count_decision(record, route)
        _count_outcome(record, route, sample, request)
        _count_speculation(record.outcome.speculation, route)
        # What the client called the model may be anything, so only a model of the fleet becomes a label.
        target = record.decision.target if isinstance(record.decision, Decision) else names.OTHER
        operation = names.OPERATIONS.get(record.features.endpoint)
        if operation is not None:
            _count_operation(record, self._operation(operation, target), sample, request)
        if isinstance(record.decision, Decision):
            self.gain.add(record, target, workload)

    def _operation(self, name: str, model: str) -> _Operation:
        labels = (name, names.PROVIDER, model)
        found = self._operations.get(labels)
        if found is None:
            found = self._operations[labels] = _Operation(self._histograms, self._genai, labels)
        return found

    def _count_decision(self, record: Record, route: _Route) -> None:
        decision = record.decision
        route.sources[record.classification.source] += 1
        route.languages[record.features.output_language] += 1
        if record.outcome.nature:
            route.answers[record.outcome.nature] += 1
        reason = decision.reason if isinstance(decision, Decision) else decision.kind
        self._tallies[names.DECISIONS].row((decision.route or "",))[reason] += 1
        for rejected in decision.rejected:
            self._tallies[names.REJECTIONS].row((rejected.backend,))[rejected.reason] += 1
        if len(record.attempts) > 1:
            for failed in record.attempts[:-1]:
                self._tallies[names.FAILOVERS].row((failed.backend,))[error_class(failed.error)] += 1


def _sums(kept: Mapping[Values, _Of], read: Callable[[_Of], float | None]) -> dict[Values, float]:
    """One sum of each route or operation, of those that have any."""
    return {labels: number for labels, of in tuple(kept.items()) if (number := read(of)) is not None}


def _count_outcome(record: Record, route: _Route, sample: tuple[int, float] | None, request: Request) -> None:
    outcome, usage = record.outcome, record.outcome.usage
    route.statuses[outcome.status] += 1
    route.duration.add(record.ended - record.started, request)
    if record.queued:
        route.queued.add(record.queued, request)
    if outcome.tool_arguments:
        route.tool_calls[outcome.tool_arguments] += 1
    if outcome.resumed:
        route.resumes += outcome.resumed
    if outcome.ttft is not None:
        route.ttft.add(outcome.ttft, request)
    if sample is not None:
        tokens, seconds = sample
        route.tpot.add(seconds / tokens, request)
        route.decode_tokens += tokens
        route.decode_time += seconds
    if usage.input_tokens is not None:
        route.input_tokens += usage.input_tokens
    if usage.output_tokens is not None:
        route.output_tokens += usage.output_tokens


def _count_speculation(speculation: Speculation, route: _Route) -> None:
    route.grades[speculation.grade] += 1
    if speculation.grade != "exact":
        return
    route.steps += speculation.steps
    route.drafted += speculation.drafted
    route.accepted += speculation.accepted
    missing = len(speculation.histogram) - len(route.histogram)
    if missing > 0:
        route.histogram += [0] * missing
    for accepted, steps in enumerate(speculation.histogram):
        route.histogram[accepted] += steps


def _count_operation(
    record: Record, operation: _Operation, sample: tuple[int, float] | None, request: Request
) -> None:
    outcome, usage = record.outcome, record.outcome.usage
    operation.server_durations[error_type(outcome.error)].add(record.ended - record.started, request)
    if sample is not None:
        operation.server_per_token.add(sample[1] / sample[0], request)
    if not record.attempts:
        return
    last = record.attempts[-1]
    operation.durations[error_type(last.error)].add(last.ended - last.started, request)
    if outcome.ttft is not None:
        operation.first_chunk.add(outcome.ttft, request)
    if outcome.first_token is not None:
        operation.server_first_token.add(outcome.first_token, request)
    if usage.input_tokens is not None:
        operation.input_tokens.add(usage.input_tokens, request)
    if usage.output_tokens is not None:
        operation.output_tokens.add(usage.output_tokens, request)
    if usage.cached_tokens is not None:
        operation.cached_tokens = (operation.cached_tokens or 0) + usage.cached_tokens
