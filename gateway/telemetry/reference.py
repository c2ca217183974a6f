"""Writes the reference of everything telemetry sends from the table of names: ``python -m`` prints it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gateway.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD = """# Metrics and spans

Generated from `gateway/telemetry/names.py` by `python -m gateway.telemetry.reference > docs/metrics.md`.

`/metrics` serves the Prometheus names; OTLP carries the OpenTelemetry names of the same instruments.
Label values come from the fleet and policy files and from closed sets, never from a client. `/metrics` has
the usual `process_*` of the gateway's process, too.

Tokens per second of one stream, mean accepted length and acceptance rate are ratios of sums, so that long
and short answers of the same speed count the same:

```promql
rate(specroute_decode_tokens_total[5m]) / rate(specroute_decode_time_seconds_total[5m])
1 + rate(specroute_speculation_accepted_tokens_total[5m]) / rate(specroute_speculation_steps_total[5m])
rate(specroute_speculation_accepted_tokens_total[5m]) / rate(specroute_speculation_drafted_tokens_total[5m])
```
"""


def markdown() -> str:
    """The whole reference."""
    parts = [_HEAD, "## Metrics\n", _metrics(names.METRICS), "## Labels\n"]
    parts.append(_table(("Label", "Values"), ((f"`{name}`", text) for name, text in names.LABELS.items())))
    for version, genai in names.GENAI.items():
        parts += [f"## GenAI metrics, conventions {version}\n", _metrics(genai.metrics)]
    parts += ["## The span of a request, kind SERVER\n", _attributes(names.SERVER_SPAN)]
    parts += ["## The span of an attempt, kind CLIENT\n", _attributes(names.ATTEMPT_SPAN)]
    events = ((f"`{name}`", text) for name, text in names.EVENTS.items())
    parts += ["## Events\n", _table(("Event", "When"), events)]
    parts += ["## Buckets\n", "Upper bounds, in the unit of the metric.\n", _buckets()]
    return "\n".join(parts)


def _metrics(metrics: Iterable[names.Metric]) -> str:
    rows = (
        (
            f"`{metric.prometheus}`", f"`{metric.name}`", metric.kind, metric.unit,
            ", ".join(f"`{label}`" for label in metric.labels), metric.help,
        )
        for metric in metrics
    )  # fmt: skip
    return _table(("Prometheus", "OpenTelemetry", "Kind", "Unit", "Labels", "Meaning"), rows)


def _attributes(attributes: Iterable[names.Attribute]) -> str:
    rows = ((f"`{each.name}`", each.type, each.help) for each in attributes)
    return _table(("Attribute", "Type", "Meaning"), rows)


def _buckets() -> str:
    bounds: dict[tuple[float, ...], list[str]] = {}
    for metric in (*names.METRICS, *(each for genai in names.GENAI.values() for each in genai.metrics)):
        if metric.buckets and f"`{metric.name}`" not in bounds.setdefault(metric.buckets, []):
            bounds[metric.buckets].append(f"`{metric.name}`")
    rows = ((", ".join(users), ", ".join(f"{bound:g}" for bound in each)) for each, users in bounds.items())
    return _table(("Metrics", "Bounds"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
