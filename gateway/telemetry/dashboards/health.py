"""The dashboard of the gateways themselves."""

from __future__ import annotations

from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards.expressions import (
    BAD,
    error_share,
)
from gateway.telemetry.dashboards.panels import (
    GOOD_AT_ONE,
    Dashboard,
    Panel,
    Query,
    Row,
)
from gateway.telemetry.dashboards.promql import growth, now, or_zero, per_second, quantile

HEALTH: Final = Dashboard(
    "health",
    "Gateway health",
    "Whether the gateways themselves are well, and what they do about servers that are not.",
    (
        Row(
            "Now",
            (
                Panel("Open requests", "", (Query(now(names.OPEN, how="sum")),), "short", "stat", width=6),
                Panel(
                    "Waiting for a backend",
                    "All that could take them are busy.",
                    (Query(now(names.QUEUED, how="sum")),),
                    "short",
                    "stat",
                    width=6,
                    steps=(("green", None), ("yellow", 1.0)),
                ),
                Panel(
                    "Policy is what the files say",
                    "0: they hold a mistake and the last good ones were kept.",
                    (Query(now(names.POLICY_CURRENT, how="min")),),
                    "short",
                    "stat",
                    width=6,
                    steps=GOOD_AT_ONE,
                ),
                Panel(
                    "Attempts left",
                    "Further attempts that the budget allows.",
                    (Query(now(names.RETRIES_LEFT, how="min")),),
                    "short",
                    "stat",
                    width=6,
                    steps=(("red", None), ("green", 1.0)),
                ),
            ),
        ),
        Row(
            "Failures",
            (
                Panel(
                    "Failed share",
                    "By our fault or the backends'.",
                    (Query(error_share()),),
                    "percentunit",
                ),
                Panel(
                    "Failed requests",
                    "Empty while none fails.",
                    (
                        Query(
                            f"{per_second(names.REQUESTS, 'status', 'backend', where=BAD)} > 0",
                            "{{status}} {{backend}}",
                        ),
                    ),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Attempts that went on elsewhere",
                    "By the backend that failed and why. Empty while none does.",
                    (
                        Query(
                            f"{per_second(names.FAILOVERS, 'backend', 'error')} > 0", "{{backend}}: {{error}}"
                        ),
                    ),
                    "short",
                ),
                Panel(
                    "Streams that another backend went on with",
                    "By the one that ended them.",
                    (Query(or_zero(per_second(names.RESUMES, "backend")), "{{backend}}"),),
                ),
                Panel(
                    "Breakers that opened",
                    "By reason. Empty while none opens.",
                    (
                        Query(
                            f"{growth(names.BREAKER_TRIPS, 'backend', 'reason')} > 0",
                            "{{backend}}: {{reason}}",
                        ),
                    ),
                ),
                Panel(
                    "No budget for another attempt",
                    "Requests that failed for that alone.",
                    (Query(growth(names.RETRIES_DENIED)),),
                ),
            ),
        ),
        Row(
            "Gateway",
            (
                Panel(
                    "Open and waiting requests",
                    "",
                    (
                        Query(now(names.OPEN, how="sum"), "open"),
                        Query(now(names.QUEUED, how="sum"), "waiting for a backend"),
                    ),
                ),
                Panel(
                    "Whole request, p50, p95, p99",
                    "",
                    tuple(
                        Query(quantile(share, names.DURATION), f"p{share * 100:.0f}")
                        for share in (0.5, 0.95, 0.99)
                    ),
                    "s",
                    exemplars=True,
                ),
                Panel(
                    "Tokens/s",
                    "As backends reported them.",
                    (
                        Query(per_second(names.INPUT_TOKENS), "prompts"),
                        Query(per_second(names.OUTPUT_TOKENS), "answers"),
                    ),
                ),
                Panel(
                    "What telemetry lacks",
                    "Requests that are not counted or in no log, lines, spans: queues were full, or a disk, "
                    "pipe or receiver took none.",
                    (
                        Query(growth(names.RECORDS_DROPPED), "not counted"),
                        Query(or_zero(growth(names.DECISIONS_DROPPED)), "not in the decision log"),
                        Query(or_zero(growth(names.ACCESS_DROPPED)), "not in the access log"),
                        Query(growth(names.LOG_DROPPED), "lines not in the log"),
                        Query(or_zero(growth(names.SPANS_DROPPED)), "spans not exported"),
                        Query(or_zero(growth(names.POINTS_DROPPED)), "data points not exported"),
                    ),
                ),
                Panel(
                    "CPU of the gateway",
                    "Seconds of one core each second: a process has one.",
                    (
                        Query(
                            'rate(process_cpu_seconds_total{job="specroute"}[$__rate_interval])',
                            "{{instance}} {{worker}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Memory of the gateway",
                    "Resident.",
                    (Query('process_resident_memory_bytes{job="specroute"}', "{{instance}} {{worker}}"),),
                    "bytes",
                ),
                Panel(
                    "Policies that came into force",
                    "",
                    (Query(growth(names.POLICY_LOADS, how="max")),),
                ),
                Panel(
                    "Gateways that answer",
                    "To Prometheus.",
                    (Query('sum(up{job="specroute"})'),),
                ),
            ),
        ),
    ),
)
