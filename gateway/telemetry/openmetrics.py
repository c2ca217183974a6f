"""The metrics page as OpenMetrics, which has room for exemplars: single requests with their traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.samples import Exemplar

from gateway.aside import unhurried

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.samples import Sample

    from gateway.telemetry.histograms import Histograms, Seen

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

Key = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels of a histogram's series, without the bound."""


def wanted(accept: str) -> bool:
    """Whether who asks for the page takes this format, by its ``Accept`` header."""
    return "application/openmetrics-text" in accept


def page(registry: CollectorRegistry, histograms: Histograms) -> bytes:
    """All metrics, the buckets of our histograms with the last request that fell into each."""
    text: bytes = generate_latest(_Marked(registry, histograms))  # type: ignore[no-untyped-call]
    return text


class Families:
    """What a registry holds, one family after the other; as much of a registry as an encoder asks for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Show a registry."""
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """All families, with a chance for other threads before each."""
        return unhurried(self._registry.collect())


class _Marked(Families):
    """The same with exemplars."""

    def __init__(self, registry: CollectorRegistry, histograms: Histograms) -> None:
        super().__init__(registry)
        self._histograms = histograms

    def collect(self) -> Iterator[Metric]:
        # First the numbers, then the exemplars: one more is no harm, one of a bucket at 0 would be.
        families = list(super().collect())
        known: dict[Key, dict[float, Seen]] = {
            (name, frozenset(labels.items())): seen for name, labels, seen in self._histograms.last()
        }
        for family in unhurried(families):
            if family.type == "histogram":
                family.samples = list(_marked(family, known))
            yield family


def _marked(family: Metric, known: dict[Key, dict[float, Seen]]) -> Iterable[Sample]:
    for sample in family.samples:
        bound = sample.labels.get("le")
        if bound is None or not sample.value:
            yield sample
            continue
        labels = frozenset((name, value) for name, value in sample.labels.items() if name != "le")
        seen = known.get((family.name, labels), {}).get(float(bound))
        if seen is None:
            yield sample
            continue
        number, unix_ns, trace = seen
        ids = {"trace_id": trace.trace_id, "span_id": trace.span_id}
        yield sample._replace(exemplar=Exemplar(ids, number, unix_ns / 1e9))
