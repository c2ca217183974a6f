"""From a Record to numbers: what each finished request adds to counters and histograms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gateway.core.decide import Decision
from gateway.core.features import WORKLOADS
from gateway.core.fleet import STAND_IN
from gateway.core.gain import Gain, decode_sample
from gateway.core.labels import known
from gateway.core.outcome import accepted_by_position
from gateway.telemetry import names
from gateway.telemetry.failures import Failures, error_class
from gateway.telemetry.sums import SUMS, USAGE, Operation, Route
from gateway.telemetry.tally import observe, tally

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import Meter

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record
    from gateway.core.policy import Policy
    from gateway.telemetry.histograms import Histograms
    from gateway.telemetry.tally import Values


_Of = TypeVar("_Of")


def histograms_of(genai: names.GenAi) -> tuple[names.Metric, ...]:
    """The histograms that :class:`Metrics` feeds."""
    return tuple(each for each in (*names.METRICS, *genai.metrics) if each.kind == names.HISTOGRAM)


_Kind = tuple[Route, Operation | None, "defaultdict[str, float]"]
"""What requests of one kind are counted in, the last their reasons of decision."""


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
        self._routes: dict[Values, Route] = {}
        self._operations: dict[Values, Operation] = {}
        self._kinds: dict[Values, _Kind] = {}
        self._read: dict[names.Metric, Callable[[], dict[Values, float]]] = {
            **{metric: of.numbers for metric, of in self._tallies.items()},
            **{metric: partial(_sums, self._routes, of) for metric, of in SUMS.items()},
            **{
                metric: partial(_sums, self._operations, of)
                for metric, of in zip(genai.usage, USAGE, strict=False)
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
        decision = record.decision
        # What the client called the model may be anything, so only a model of the fleet becomes a label.
        if isinstance(decision, Decision):
            target, reason = decision.target, decision.reason
        else:
            target, reason = names.OTHER, decision.kind
        kind = (
            workload,
            record.backend,
            record.method,
            decision.route or "",
            record.features.endpoint,
            target,
        )
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._kind(*kind)
        route, operation, decisions = found
        decisions[reason] += 1
        sample = decode_sample(record)
        request = (record.started_unix_ns, record.trace if traced else None)
        self._count_detours(record)
        route.add(record, sample, request)
        if operation is not None:
            operation.add(record, sample, request)
        if isinstance(decision, Decision) and record.method != STAND_IN:
            self.gain.add(record, target, workload, sample)

    def _kind(
        self, workload: str, backend: str, method: str, route: str, endpoint: str, target: str
    ) -> _Kind:
        labels = (workload, backend, method)
        if labels not in self._routes:
            self._routes[labels] = Route(self._tallies, self._histograms, labels)
        operation = None
        if endpoint in names.OPERATIONS:
            provider = names.HOSTED if method == STAND_IN else names.PROVIDER
            model = (names.OPERATIONS[endpoint], provider, target)
            operation = self._operations.get(model) or Operation(self._histograms, self._genai, model)
            self._operations[model] = operation
        return self._routes[labels], operation, self._tallies[names.DECISIONS].row((route,))

    def _count_detours(self, record: Record) -> None:
        for rejected in record.decision.rejected:
            self._tallies[names.REJECTIONS].row((rejected.backend,))[rejected.reason] += 1
        if len(record.attempts) > 1:
            for failed in record.attempts[:-1]:
                self._tallies[names.FAILOVERS].row((failed.backend,))[error_class(failed.error)] += 1


def _sums(kept: Mapping[Values, _Of], read: Callable[[_Of], float | None]) -> dict[Values, float]:
    """One sum of each route or operation, of those that have any."""
    return {labels: number for labels, of in tuple(kept.items()) if (number := read(of)) is not None}
