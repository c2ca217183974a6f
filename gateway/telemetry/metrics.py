"""From a Record to numbers: what each finished request adds to counters and histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.decide import Decision
from gateway.core.features import WORKLOADS
from gateway.core.gain import Gain, decode_sample
from gateway.core.labels import known
from gateway.telemetry import names
from gateway.telemetry.span_attributes import error_type
from gateway.telemetry.tally import Tally

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from gateway.core.outcome import Record
    from gateway.core.policy import Policy
    from gateway.telemetry.histograms import Histograms
    from gateway.telemetry.tally import Values


def histograms_of(genai: names.GenAi) -> tuple[names.Metric, ...]:
    """The histograms that :class:`Metrics` feeds."""
    return tuple(each for each in (*names.METRICS, *genai.metrics) if each.kind == names.HISTOGRAM)


class Metrics:
    """The counters and histograms that Records feed, and the gain they show.

    Args:
        meter: Where the counters belong.
        histograms: Where measurements go; holds those of :func:`histograms_of` the same names.
        genai: GenAI names to use.
    """

    def __init__(self, meter: Meter, histograms: Histograms, genai: names.GenAi) -> None:
        self.gain = Gain()
        self._histograms = histograms
        self._genai = genai
        self._workloads = frozenset(WORKLOADS)
        self._tallies = {
            metric: Tally(meter, metric)
            for metric in (
                names.REQUESTS, names.INPUT_TOKENS, names.OUTPUT_TOKENS, names.DECODE_TOKENS,
                names.DECODE_TIME, names.MEASURED, names.STEPS, names.DRAFTED, names.ACCEPTED,
                names.ACCEPTED_AT, names.FAILOVERS, names.CLASSIFICATIONS, names.LANGUAGES,
                names.ANSWERS, names.TOOL_CALLS, names.RESUMES,
                names.DECISIONS, names.REJECTIONS, names.POLICY_LOADS, *genai.usage,
            )
        }  # fmt: skip

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        """A counter that Records feed, by label values.

        Raises:
            KeyError: They do not feed it.
        """
        return self._tallies[metric].numbers()

    def policy_loaded(self, policy: Policy) -> None:
        """A policy came into force; the labels it names are known workloads from now on."""
        routed = (route.match.workloads for route in policy.routes)
        self._workloads = known(policy.classifier).union(*routed)
        self._add(names.POLICY_LOADS, ())

    def on_record(self, record: Record) -> None:
        """Count a finished request."""
        label = record.classification.label
        workload = label if label in self._workloads else names.OTHER
        labels = (workload, record.backend, record.method)
        self._count_decision(record, workload)
        self._count_outcome(record, labels)
        self._count_speculation(record, labels)
        if record.features.endpoint in names.OPERATIONS:
            self._count_genai(record)
        if isinstance(record.decision, Decision):
            self.gain.add(record, record.decision.target, workload)

    def _count_decision(self, record: Record, workload: str) -> None:
        decision = record.decision
        self._add(names.CLASSIFICATIONS, (workload, record.classification.source))
        self._add(names.LANGUAGES, (workload, record.features.output_language))
        if record.outcome.nature:
            self._add(names.ANSWERS, (workload, record.outcome.nature))
        reason = decision.reason if isinstance(decision, Decision) else decision.kind
        self._add(names.DECISIONS, (decision.route or "", reason))
        for rejected in decision.rejected:
            self._add(names.REJECTIONS, (rejected.backend, rejected.reason))
        for failed in record.attempts[:-1]:
            self._add(names.FAILOVERS, (failed.backend, failed.error))

    def _count_outcome(self, record: Record, labels: Values) -> None:
        outcome, observed = record.outcome, self._histograms.record
        self._add(names.REQUESTS, (*labels, outcome.status))
        observed(names.DURATION, labels, record.ended - record.started, record)
        if outcome.tool_arguments:
            self._add(names.TOOL_CALLS, (*labels, outcome.tool_arguments))
        if outcome.resumed:
            self._add(names.RESUMES, labels, outcome.resumed)
        if outcome.ttft is not None:
            observed(names.TTFT, labels, outcome.ttft, record)
        if (sample := decode_sample(record)) is not None:
            tokens, seconds = sample
            observed(names.TPOT, labels, seconds / tokens, record)
            self._add(names.DECODE_TOKENS, labels, tokens)
            self._add(names.DECODE_TIME, labels, seconds)
        if outcome.usage.input_tokens is not None:
            self._add(names.INPUT_TOKENS, labels, outcome.usage.input_tokens)
        if outcome.usage.output_tokens is not None:
            self._add(names.OUTPUT_TOKENS, labels, outcome.usage.output_tokens)

    def _count_speculation(self, record: Record, labels: Values) -> None:
        speculation = record.outcome.speculation
        self._add(names.MEASURED, (*labels, speculation.grade))
        if speculation.grade != "exact":
            return
        self._add(names.STEPS, labels, speculation.steps)
        self._add(names.DRAFTED, labels, speculation.drafted)
        self._add(names.ACCEPTED, labels, speculation.accepted)
        for position, accepted in enumerate(speculation.accepted_by_position):
            self._add(names.ACCEPTED_AT, (*labels, str(position)), accepted)

    def _count_genai(self, record: Record) -> None:
        genai, outcome, usage = self._genai, record.outcome, record.outcome.usage
        # What the client called the model may be anything, so only a model of the fleet becomes a label.
        model = record.decision.target if isinstance(record.decision, Decision) else names.OTHER
        labels = (names.OPERATIONS[record.features.endpoint], names.PROVIDER, model)
        observed = self._histograms.record
        error = (error_type(outcome.error),)
        observed(genai.server_duration, labels + error, record.ended - record.started, record)
        if (sample := decode_sample(record)) is not None:
            observed(genai.server_per_token, labels, sample[1] / sample[0], record)
        if not record.attempts:
            return
        last = record.attempts[-1]
        error = (error_type(last.error),)
        observed(genai.duration, labels + error, last.ended - last.started, record)
        if outcome.ttft is not None:
            observed(genai.first_chunk, labels, outcome.ttft, record)
            observed(genai.server_first_token, labels, last.started + outcome.ttft - record.started, record)
        for metric, tokens, kind in (
            (genai.input_tokens, usage.input_tokens, "input"),
            (genai.output_tokens, usage.output_tokens, "output"),
        ):
            if tokens is not None:
                told_apart = (kind,) if genai.input_tokens is genai.output_tokens else ()
                observed(metric, labels + told_apart, tokens, record)
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        for metric, count in zip(genai.usage, counts, strict=False):
            if count is not None:
                self._add(metric, labels, count)

    def _add(self, metric: names.Metric, values: Values, amount: float = 1) -> None:
        self._tallies[metric].add(values, amount)
