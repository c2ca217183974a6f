"""Alert rules for Prometheus, and the file that holds them and the recordings they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.telemetry import names
from gateway.telemetry.dashboards.alert import PAGE, TICKET, Alert, Condition
from gateway.telemetry.dashboards.expressions import (
    BAD,
    USUAL_SPEED,
    USUAL_TTFT,
    kv_usage,
    obtainable,
    untold,
)
from gateway.telemetry.dashboards.promql import growth, now, or_zero, per_second, share
from gateway.telemetry.dashboards.recordings import RECORDINGS, Recording

if TYPE_CHECKING:
    from collections.abc import Iterable

OBJECTIVE: Final = 0.995
"""Share of requests that are to succeed, for the budget of errors."""

FEWEST: Final = 5
"""Failures that a share must rest on: of eight requests in a night, one is no outage."""

_DOCS: Final = "docs/observability.md"


def _burning(long: str, short: str, times: float) -> tuple[Condition, ...]:
    """Errors at so many times the rate that uses the budget up in its period, and still going on."""
    bound = times * (1.0 - OBJECTIVE)
    return (
        *(Condition(f"specroute:errors:ratio_rate{each}", ">", bound) for each in (long, short)),
        Condition(growth(names.REQUESTS, where=BAD, window=long), ">=", FEWEST),
    )


ALERTS: Final = (
    Alert(
        "SpecrouteErrorsFast",
        _burning("1h", "5m", 14.4),
        "2m",
        PAGE,
        "{{ $value | humanizePercentage }} of requests fail",
        "At this rate the budget of errors for 30 days is gone in two. Look at failed requests by backend "
        "on the dashboard Gateway health.",
    ),
    Alert(
        "SpecrouteErrorsSlow",
        _burning("6h", "30m", 6.0),
        "15m",
        TICKET,
        "{{ $value | humanizePercentage }} of requests fail",
        "At this rate the budget of errors for 30 days is gone in five.",
    ),
    Alert(
        "SpecrouteNoBackend",
        (Condition(obtainable(), "<", 1),),
        "30s",
        PAGE,
        "No backend of {{ $labels.target }} can take a request",
        "Every request for this model is refused. `specroute top` or /status say why each backend is out.",
    ),
    Alert(
        "SpecrouteGatewayDown",
        # Where none is left to be scraped, there is no series to be 0.
        (Condition('up{job="specroute"} or 0 * absent(up{job="specroute"})', "<", 1),),
        "1m",
        PAGE,
        "{{ with $labels.instance }}Gateway {{ . }} does not answer{{ else }}There is no gateway{{ end }}",
        "Prometheus cannot scrape it.",
    ),
    Alert(
        "SpecrouteBackendDown",
        (Condition(now(names.HEALTHY, "backend", how="min"), "<", 1),),
        "2m",
        TICKET,
        "{{ $labels.backend }} is out",
        "A probe failed or nothing connects to it. /status says why.",
    ),
    Alert(
        "SpecrouteBreakerOpen",
        (
            Condition(now(names.BREAKER_STATE, "backend"), ">=", 1),
            # Half-open as long as a trial hangs, and open again for no more than a minute.
            Condition(f"max by (backend) (max_over_time({names.BREAKER_STATE.prometheus}[10m]))", ">=", 2),
        ),
        "1m",
        TICKET,
        "The breaker of {{ $labels.backend }} is open",
        "Too many requests failed there, so it gets none but single trials. The reasons are in "
        f"{names.BREAKER_TRIPS.prometheus}.",
    ),
    Alert(
        "SpecrouteStaleScrape",
        (Condition(now(names.SCRAPE_AGE, "backend"), ">", 15),),
        "1m",
        TICKET,
        "Nothing is known of the load of {{ $labels.backend }} for {{ $value | humanizeDuration }}",
        "Its /metrics does not answer, or tells no load: routing knows only the gateway's own requests "
        "there.",
    ),
    Alert(
        "SpecrouteStreamsSlowed",
        (
            Condition(f"specroute:stream_speed:ratio_rate15m / ({USUAL_SPEED} > 0)", "<", 0.6),
            Condition("specroute:requests:rate15m", ">", 0.02),
        ),
        "5m",
        TICKET,
        "Streams of {{ $labels.workload }} on {{ $labels.backend }} run at "
        "{{ $value | humanizePercentage }} of the speed of the last day",
        "See on the dashboard Speculation whether acceptance fell as well, and on Fleet whether its load or "
        "that of its GPUs rose. Where neither did, the server itself is slow.",
    ),
    Alert(
        "SpecrouteFirstTokenSlowed",
        (
            Condition(f"specroute:ttft_seconds:mean_rate15m / ({USUAL_TTFT} > 0)", ">", 2.5),
            Condition("specroute:ttft_seconds:mean_rate15m", ">", 0.3),
            Condition("specroute:requests:rate15m", ">", 0.02),
        ),
        "5m",
        TICKET,
        "First tokens of {{ $labels.workload }} on {{ $labels.backend }} take "
        "{{ $value | humanize }} times as long as over the last day",
        "Prompts wait or are longer. See on the dashboard Fleet what waits in vLLM's queue, and whether "
        "prompts are still found in the cache.",
    ),
    Alert(
        "SpecrouteAcceptanceCollapsed",
        (
            Condition(
                "specroute:acceptance_rate:ratio_rate15m / (specroute:acceptance_rate:ratio_rate1d > 0)",
                "<",
                0.6,
            ),
            Condition("specroute:steps:rate15m", ">", 0.5),
        ),
        "10m",
        TICKET,
        "Acceptance of {{ $labels.workload }} on {{ $labels.backend }} fell to "
        "{{ $value | humanizePercentage }} of its level of a day",
        "The work changed, or the draft no longer fits the target (another checkpoint or quantization). "
        "Compare acceptance by position on the dashboard Speculation with vLLM's own.",
    ),
    Alert(
        "SpecrouteSlowerThanBaseline",
        (Condition(now(names.SPEEDUP_HIGH, "workload", "backend", "method"), "<", 1),),
        "15m",
        TICKET,
        "{{ $labels.workload }} on {{ $labels.backend }} is slower than without speculation",
        "The whole 95 % interval of its speed-up of late is below 1. Take the backend out of that route, or "
        "try fewer draft tokens.",
    ),
    Alert(
        "SpecrouteToolCallsBroken",
        (
            Condition(
                share(
                    per_second(names.TOOL_CALLS, "backend", where='validity="invalid"', window="1h"),
                    per_second(names.TOOL_CALLS, "backend", window="1h"),
                ),
                ">",
                0.05,
            ),
            Condition(
                growth(names.TOOL_CALLS, "backend", where='validity="invalid"', window="1h"), ">=", FEWEST
            ),
        ),
        "10m",
        TICKET,
        "{{ $value | humanizePercentage }} of the tool calls of {{ $labels.backend }} are unusable",
        "Drafts were seen to break arguments. Compare with the baseline; take the backend out of tool_use.",
    ),
    Alert(
        "SpecrouteClassifierDrift",
        (Condition(now(names.DRIFT, "workload"), ">=", 1),),
        "15m",
        TICKET,
        "Requests taken for {{ $labels.workload }} are answered with something else more often than before",
        "The work changed, or hints are wrong. Look at what the answers were on the dashboard Routes.",
    ),
    Alert(
        "SpecrouteCountersDisagree",
        (Condition(f"abs({untold()})", ">", 0.2),),
        "15m",
        TICKET,
        "{{ $labels.backend }} and its answers disagree about accepted tokens",
        "Other clients use the server, so its load is not ours alone, or one of the two counts is wrong.",
    ),
    Alert(
        "SpecrouteKvFull",
        (Condition(kv_usage(), ">", 0.95),),
        "5m",
        TICKET,
        "The KV cache of {{ $labels.backend }} is full",
        "It preempts requests and does their prompts again. Lower its max_in_flight.",
    ),
    Alert(
        "SpecrouteQueueing",
        (Condition(now(names.QUEUED, how="sum"), ">", 0),),
        "5m",
        TICKET,
        "{{ $value }} requests wait for a backend",
        "All backends that could take them are busy: the fleet is too small for the load.",
    ),
    Alert(
        "SpecroutePolicyRejected",
        (Condition(now(names.POLICY_CURRENT, how="min"), "<", 1),),
        "1m",
        TICKET,
        "The policy or fleet file has a mistake",
        "The last good one is kept. `specroute check` or /-/policy name the line.",
    ),
    Alert(
        "SpecrouteTelemetryDrops",
        (Condition(growth(names.RECORDS_DROPPED, window="15m"), ">", 0),),
        "0m",
        TICKET,
        "{{ $value }} requests were not counted",
        "The queue of finished requests was full: all other numbers are short by these.",
    ),
    Alert(
        "SpecrouteLogsLost",
        (
            Condition(
                f"{or_zero(growth(names.DECISIONS_DROPPED, window='15m'))}"
                f" + {or_zero(growth(names.ACCESS_DROPPED, window='15m'))}"
                f" + {or_zero(growth(names.LOG_DROPPED, window='15m'))}",
                ">",
                0,
            ),
        ),
        "0m",
        TICKET,
        "{{ $value | humanize }} lines are in no log",
        "The disk of the decision log took none or is full, or nobody reads stderr, where log and access log "
        "go. It holds up no request; replays and sweeps lack those of the decision log.",
    ),
    Alert(
        "SpecrouteTracesLost",
        (Condition(growth(names.SPANS_DROPPED, window="15m"), ">", 0),),
        "5m",
        TICKET,
        "{{ $value | humanize }} spans were not exported",
        "The OTLP receiver is away or too slow; the gateway's log says which. It holds up no request.",
    ),
)
"""All alerts. None looks at drafts alone: acceptance says nothing of speed, and speed is what counts."""


def rule_file(
    recordings: Iterable[Recording] = RECORDINGS, alerts: Iterable[Alert] = ALERTS
) -> dict[str, Any]:
    """The rules as Prometheus loads them."""
    return {
        "groups": [
            {
                "name": "specroute-recordings",
                "rules": [{"record": each.name, "expr": each.expression} for each in recordings],
            },
            {
                "name": "specroute-alerts",
                "rules": [
                    {
                        "alert": each.name,
                        "expr": each.expression,
                        "for": each.lasting,
                        "labels": {"severity": each.severity},
                        "annotations": {
                            "summary": each.summary,
                            "description": each.description,
                            "runbook": f"{_DOCS}#{each.name.lower()}",
                        },
                    }
                    for each in alerts
                ],
            },
        ]
    }
