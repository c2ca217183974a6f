"""What requests add up to: of one kind of work on one backend, and of one operation on one model."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gateway.telemetry import names
from gateway.telemetry.failures import error_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.core.outcome import Record, Speculation
    from gateway.telemetry.histograms import Histograms, Request, Series
    from gateway.telemetry.tally import Tally, Values


class Route:
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

    def add(self, record: Record, sample: tuple[int, float] | None, request: Request) -> None:
        """Count a request; ``sample`` is its :func:`.decode_sample`."""
        outcome, usage = record.outcome, record.outcome.usage
        self.sources[record.classification.source] += 1
        self.languages[record.features.output_language] += 1
        if outcome.nature:
            self.answers[outcome.nature] += 1
        self.statuses[outcome.status] += 1
        self.duration.add(record.ended - record.started, request)
        if record.queued:
            self.queued.add(record.queued, request)
        if outcome.tool_arguments:
            self.tool_calls[outcome.tool_arguments] += 1
        if outcome.resumed:
            self.resumes += outcome.resumed
        if outcome.ttft is not None:
            self.ttft.add(outcome.ttft, request)
        if sample is not None:
            tokens, seconds = sample
            self.tpot.add(seconds / tokens, request)
            self.decode_tokens += tokens
            self.decode_time += seconds
        if usage.input_tokens is not None:
            self.input_tokens += usage.input_tokens
        if usage.output_tokens is not None:
            self.output_tokens += usage.output_tokens
        self._add_speculation(outcome.speculation)

    def _add_speculation(self, speculation: Speculation) -> None:
        self.grades[speculation.grade] += 1
        if speculation.grade != "exact":
            return
        self.steps += speculation.steps
        self.drafted += speculation.drafted
        self.accepted += speculation.accepted
        seen, histogram = speculation.histogram, self.histogram
        if len(seen) > len(histogram):
            histogram += [0] * (len(seen) - len(histogram))
        for accepted, steps in enumerate(seen):
            histogram[accepted] += steps


def _of_route(name: str) -> Callable[[Route], float | None]:
    read = attrgetter(name)
    return lambda route: read(route) or None


SUMS: Final[Mapping[names.Metric, Callable[[Route], float | None]]] = {
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


class Operation:
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

    def add(self, record: Record, sample: tuple[int, float] | None, request: Request) -> None:
        """Count a request; ``sample`` is its :func:`.decode_sample`."""
        outcome, usage = record.outcome, record.outcome.usage
        self.server_durations[error_type(outcome.error)].add(record.ended - record.started, request)
        if sample is not None:
            self.server_per_token.add(sample[1] / sample[0], request)
        if not record.attempts:
            return
        last = record.attempts[-1]
        self.durations[error_type(last.error)].add(last.ended - last.started, request)
        if outcome.ttft is not None:
            self.first_chunk.add(outcome.ttft, request)
        if outcome.first_token is not None:
            self.server_first_token.add(outcome.first_token, request)
        if usage.input_tokens is not None:
            self.input_tokens.add(usage.input_tokens, request)
        if usage.output_tokens is not None:
            self.output_tokens.add(usage.output_tokens, request)
        if usage.cached_tokens is not None:
            self.cached_tokens = (self.cached_tokens or 0) + usage.cached_tokens


def _total(series: Series) -> int | None:
    return int(series.total) if series.started else None


USAGE: Final[tuple[Callable[[Operation], int | None], ...]] = (
    lambda of: _total(of.input_tokens),
    lambda of: _total(of.output_tokens),
    lambda of: of.cached_tokens,
)
"""What :attr:`.names.GenAi.usage` counts."""
