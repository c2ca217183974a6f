"""From a Record to numbers: what each finished request adds to counters and histograms."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.core.decide import Decision
from gateway.core.features import WORKLOADS
from gateway.core.gain import Gain, decode_sample
from gateway.core.labels import known
from gateway.telemetry import names
from gateway.telemetry.failures import Failures
from gateway.telemetry.span_attributes import error_type
from gateway.telemetry.tally import tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import Meter

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record
    from gateway.core.policy import Policy
    from gateway.telemetry.histograms import Histograms, Request
    from gateway.telemetry.tally import Values


def histograms_of(genai: names.GenAi) -> tuple[names.Metric, ...]:
    """The histograms that :class:`Metrics` feeds."""
    return tuple(each for each in (*names.METRICS, *genai.metrics) if each.kind == names.HISTOGRAM)


@lru_cache(4096)
def _positions(labels: Values, count: int) -> tuple[Values, ...]:
    """The labels with each position of a draft."""
    return tuple([(*labels, str(position)) for position in range(count)])


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
        failures = Failures(backends, lambda: self._workloads)
        expected = {
            names.REQUESTS: failures.requests, names.TOOL_CALLS: failures.tool_calls,
            names.FAILOVERS: failures.failovers, names.DECISIONS: failures.refusals,
        }  # fmt: skip
        self._tallies = {
            metric: tally(meter, metric, expected.get(metric, tuple))
            for metric in (
                names.REQUESTS, names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.DECODE_TOKENS,
                names.DECODE_TIME, names.MEASURED, names.STEPS, names.DRAFTED, names.ACCEPTED,
                names.ACCEPTED_AT, names.FAILOVERS, names.CLASSIFICATIONS, names.LANGUAGES,
                names.ANSWERS, names.TOOL_CALLS, names.RESUMES,
                names.DECISIONS, names.REJECTIONS, names.POLICY_LOADS, *genai.usage,
            )
        }  # fmt: skip

        self._usage = [self._tallies[metric] for metric in genai.usage]

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        """A counter that Records feed, by label values.

        Raises:
            KeyError: They do not feed it.
        """
        return dict(self._tallies[metric])

    def policy_loaded(self, policy: Policy) -> None:
        """A policy came into force; the labels it names are known workloads from now on."""
        routed = (route.match.workloads for route in policy.routes)
        self._workloads = known(policy.classifier).union(*routed)
        self._tallies[names.POLICY_LOADS][()] += 1

    def on_record(self, record: Record, *, traced: bool) -> None:
        """Count a finished request.

        Args:
            record: The request.
            traced: Whether its trace is exported, so that exemplars may lead there.
        """
        label = record.classification.label
        workload = label if label in self._workloads else names.OTHER
        labels = (workload, record.backend, record.method)
        self._count_decision(record, workload)
        sample = decode_sample(record)
        request = (record.started_unix_ns, record.trace if traced else None)
        self._count_outcome(record, labels, sample, request)
        self._count_speculation(record, labels)
        if record.features.endpoint in names.OPERATIONS:
            self._count_genai(record, sample, request)
        if isinstance(record.decision, Decision):
            self.gain.add(record, record.decision.target, workload)

    def _count_decision(self, record: Record, workload: str) -> None:
        decision, tallies = record.decision, self._tallies
        tallies[names.CLASSIFICATIONS][workload, record.classification.source] += 1
        tallies[names.LANGUAGES][workload, record.features.output_language] += 1
        if record.outcome.nature:
            tallies[names.ANSWERS][workload, record.outcome.nature] += 1
        reason = decision.reason if isinstance(decision, Decision) else decision.kind
        tallies[names.DECISIONS][decision.route or "", reason] += 1
        for rejected in decision.rejected:
            tallies[names.REJECTIONS][rejected.backend, rejected.reason] += 1
        for failed in record.attempts[:-1]:
            tallies[names.FAILOVERS][failed.backend, failed.error] += 1

    def _count_outcome(
        self, record: Record, labels: Values, sample: tuple[int, float] | None, request: Request
    ) -> None:
        outcome, observed, tallies = record.outcome, self._histograms.record, self._tallies
        tallies[names.REQUESTS][*labels, outcome.status] += 1
        observed(names.DURATION, labels, record.ended - record.started, request)
        if outcome.tool_arguments:
            tallies[names.TOOL_CALLS][*labels, outcome.tool_arguments] += 1
        if outcome.resumed:
            tallies[names.RESUMES][labels] += outcome.resumed
        if outcome.ttft is not None:
            observed(names.TTFT, labels, outcome.ttft, request)
        if sample is not None:
            tokens, seconds = sample
            observed(names.TPOT, labels, seconds / tokens, request)
            tallies[names.DECODE_TOKENS][labels] += tokens
            tallies[names.DECODE_TIME][labels] += seconds
        if outcome.usage.input_tokens is not None:
            tallies[names.INPUT_TOKENS][labels] += outcome.usage.input_tokens
        if outcome.usage.output_tokens is not None:
            tallies[names.OUTPUT_TOKENS][labels] += outcome.usage.output_tokens

    def _count_speculation(self, record: Record, labels: Values) -> None:
        speculation, tallies = record.outcome.speculation, self._tallies
        tallies[names.MEASURED][*labels, speculation.grade] += 1
        if speculation.grade != "exact":
            return
        tallies[names.STEPS][labels] += speculation.steps
        tallies[names.DRAFTED][labels] += speculation.drafted
        tallies[names.ACCEPTED][labels] += speculation.accepted
        accepted, by_position = speculation.accepted_by_position, tallies[names.ACCEPTED_AT]
        for values, count in zip(_positions(labels, len(accepted)), accepted, strict=True):
            by_position[values] += count

    def _count_genai(self, record: Record, sample: tuple[int, float] | None, request: Request) -> None:
        genai, outcome, usage = self._genai, record.outcome, record.outcome.usage
        # What the client called the model may be anything, so only a model of the fleet becomes a label.
        model = record.decision.target if isinstance(record.decision, Decision) else names.OTHER
        labels = (names.OPERATIONS[record.features.endpoint], names.PROVIDER, model)
        observed = self._histograms.record
        error = (error_type(outcome.error),)
        observed(genai.server_duration, labels + error, record.ended - record.started, request)
        if sample is not None:
            observed(genai.server_per_token, labels, sample[1] / sample[0], request)
        if not record.attempts:
            return
        last = record.attempts[-1]
        error = (error_type(last.error),)
        observed(genai.duration, labels + error, last.ended - last.started, request)
        if outcome.ttft is not None:
            observed(genai.first_chunk, labels, outcome.ttft, request)
            observed(genai.server_first_token, labels, last.started + outcome.ttft - record.started, request)
        told_apart = genai.input_tokens is genai.output_tokens
        if usage.input_tokens is not None:
            observed(
                genai.input_tokens, (*labels, "input") if told_apart else labels, usage.input_tokens, request
            )
        if usage.output_tokens is not None:
            observed(
                genai.output_tokens,
                (*labels, "output") if told_apart else labels,
                usage.output_tokens,
                request,
            )
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        for numbers, count in zip(self._usage, counts, strict=False):
            if count is not None:
                numbers[labels] += count
