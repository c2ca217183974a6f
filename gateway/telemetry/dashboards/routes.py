"""The dashboard of routes: which kind of work goes where, how fast it is there, and why."""

from __future__ import annotations

from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards.expressions import (
    CHOSEN,
    FIRST_TOKEN,
    OF_BACKEND,
    OF_WORKLOAD,
    USUAL_SPEED,
    USUAL_TTFT,
    error_share,
    stream_speed,
)
from gateway.telemetry.dashboards.panels import (
    BACKEND,
    GOOD_AT_ZERO,
    SPEED_STEPS,
    WORKLOAD,
    Dashboard,
    Panel,
    Query,
    Row,
)
from gateway.telemetry.dashboards.promql import growth, mean, now, or_zero, per_second, quantile, share

_ROUTE: Final = "{{workload}} on {{backend}}"


def _percentiles(title: str, text: str, metric: names.Metric) -> Panel:
    return Panel(
        title,
        text,
        tuple(
            Query(
                quantile(share, metric, "workload", "backend", where=CHOSEN), f"p{share * 100:.0f} {_ROUTE}"
            )
            for share in (0.5, 0.95)
        ),
        "s",
        exemplars=True,
    )


ROUTES: Final = Dashboard(
    "routes",
    "Routes",
    "Which kind of work goes where, how fast it is there, and why it went there.",
    (
        Row(
            "Now",
            (
                Panel(
                    "Requests",
                    "All of them.",
                    (Query(per_second(names.REQUESTS, where=CHOSEN)),),
                    "reqps",
                    "stat",
                    width=6,
                ),
                Panel(
                    "Failed",
                    "Share that failed by our fault or the backends'.",
                    (Query(error_share(where=CHOSEN)),),
                    "percentunit",
                    "stat",
                    width=6,
                    steps=GOOD_AT_ZERO,
                ),
                Panel(
                    "Speed of a stream",
                    "Output tokens per second of one stream, over all routes to a target.",
                    (Query(stream_speed("target", where=CHOSEN), "{{target}}"),),
                    "short",
                    "stat",
                    width=6,
                ),
                Panel(
                    "Time to first token, p95",
                    "Streams only.",
                    (Query(quantile(0.95, names.TTFT, where=CHOSEN)),),
                    "s",
                    "stat",
                    width=6,
                ),
            ),
        ),
        Row(
            "Workload by backend",
            (
                Panel(
                    "Speed of a stream, tokens/s",
                    "Output tokens per second of one stream.",
                    (Query(stream_speed("workload", "backend", where=CHOSEN)),),
                    "short",
                    "matrix",
                    "workload",
                    "backend",
                ),
                Panel(
                    "Speed against its own last day",
                    "Speed of a stream now over that of the last day: what is red has slowed down.",
                    (
                        Query(
                            f"({stream_speed('workload', 'backend', where=CHOSEN)}) / on (workload, backend) "
                            f"max by (workload, backend) ({USUAL_SPEED})"
                        ),
                    ),
                    "percentunit",
                    "matrix",
                    "workload",
                    "backend",
                    steps=(("red", None), ("yellow", 0.75), ("green", 0.9)),
                ),
                Panel(
                    "Time to first token against its own last day",
                    "Mean now over that of the last day: what is red waits longer than it used to.",
                    (
                        Query(
                            f"({mean(names.TTFT, 'workload', 'backend', where=CHOSEN)}) "
                            f"/ on (workload, backend) max by (workload, backend) ({USUAL_TTFT})"
                        ),
                    ),
                    "percentunit",
                    "matrix",
                    "workload",
                    "backend",
                    steps=(("green", None), ("yellow", 1.3), ("red", 2.0)),
                ),
                Panel(
                    "Gain over the baseline",
                    "Decode rate relative to the baseline's for the same workload, over the last hour, or "
                    "the last day where an hour has too few requests; empty where the day has, too. Below 1, "
                    "speculation loses.",
                    (Query(now(names.SPEEDUP, "workload", "backend", where=CHOSEN)),),
                    "short",
                    "matrix",
                    "workload",
                    "backend",
                    steps=SPEED_STEPS,
                ),
                Panel(
                    "Requests/s",
                    "Where the work goes.",
                    (Query(per_second(names.REQUESTS, "workload", "backend", where=CHOSEN)),),
                    "reqps",
                    "matrix",
                    "workload",
                    "backend",
                ),
                Panel(
                    "Time per output token, p95",
                    "After the first event; good streams of one choice.",
                    (Query(quantile(0.95, names.TPOT, "workload", "backend", where=CHOSEN)),),
                    "s",
                    "matrix",
                    "workload",
                    "backend",
                ),
            ),
        ),
        Row(
            "Over time",
            (
                Panel(
                    "Requests by backend",
                    "Shares of the traffic.",
                    (Query(per_second(names.REQUESTS, "backend", where=CHOSEN), "{{backend}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Requests by workload",
                    "What the traffic is made of.",
                    (Query(per_second(names.REQUESTS, "workload", where=CHOSEN), "{{workload}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "First token as clients wait for it, whole fleet",
                    "From the request's head, with waiting for a backend and attempts that failed.",
                    tuple(
                        Query(
                            quantile(share, FIRST_TOKEN, names.GEN_AI_MODEL.name),
                            f"p{share * 100:.0f} {{{{gen_ai_request_model}}}}",
                        )
                        for share in (0.5, 0.95)
                    ),
                    "s",
                    exemplars=True,
                ),
                Panel(
                    "Wait for a backend, p95",
                    "Of requests that found all backends that could take them busy; 0 where none did.",
                    (
                        Query(
                            or_zero(quantile(0.95, names.QUEUE_WAIT, "workload", "backend", where=CHOSEN)),
                            _ROUTE,
                        ),
                    ),
                    "s",
                    exemplars=True,
                ),
                _percentiles(
                    "Time to first token",
                    "From dispatch of the last attempt to the first event with a token.",
                    names.TTFT,
                ),
                _percentiles("Time per output token", "After the first event.", names.TPOT),
                _percentiles(
                    "Whole request", "From its head to the last byte of the answer.", names.DURATION
                ),
                Panel(
                    "How requests ended",
                    "",
                    (Query(per_second(names.REQUESTS, "status", where=CHOSEN), "{{status}}"),),
                    "reqps",
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Why",
            (
                Panel(
                    "Why the first candidate was first, whole fleet",
                    "Or why there was none.",
                    (Query(per_second(names.DECISIONS, "route", "reason"), "{{route}}: {{reason}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Why backends were ruled out",
                    "Requests for which a backend was no candidate. Empty until one was ruled out.",
                    (
                        Query(
                            per_second(names.REJECTIONS, "backend", "reason", where=OF_BACKEND),
                            "{{backend}}: {{reason}}",
                        ),
                    ),
                    "reqps",
                ),
                Panel(
                    "What found the workload",
                    "Hints, rules, the model, or the default where none was sure.",
                    (Query(per_second(names.CLASSIFICATIONS, "source", where=OF_WORKLOAD), "{{source}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Classified as, and what the answer was",
                    "The live confusion matrix: rows as classified, columns as the answer's beginning shows.",
                    (Query(growth(names.ANSWERS, "workload", "nature", where=OF_WORKLOAD)),),
                    "short",
                    "matrix",
                    "workload",
                    "nature",
                ),
                Panel(
                    "Answers that are what their requests were taken for",
                    "Of the last 200 of a workload. A fall says that the work changed.",
                    (
                        Query(now(names.AGREEMENT, "workload", how="min", where=OF_WORKLOAD), "{{workload}}"),
                        Query(
                            now(names.DRIFT, "workload", how="max", where=OF_WORKLOAD),
                            "drift of {{workload}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Language of the answer",
                    "As far as the request shows it.",
                    (Query(per_second(names.LANGUAGES, "language", where=OF_WORKLOAD), "{{language}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Tool calls that can be used",
                    "Share whose arguments are JSON objects: a draft was seen to break them. Empty "
                    "until an answer has called a tool.",
                    (
                        Query(
                            share(
                                per_second(names.TOOL_CALLS, "backend", where=f'{CHOSEN}, validity="valid"'),
                                per_second(names.TOOL_CALLS, "backend", where=CHOSEN),
                            ),
                            "{{backend}}",
                        ),
                    ),
                    "percentunit",
                ),
            ),
        ),
    ),
    (WORKLOAD, BACKEND),
)
