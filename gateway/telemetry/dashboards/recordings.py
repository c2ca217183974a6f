"""Recording rules for Prometheus: measures that alerts and panels take, worked out ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards.expressions import (
    USUAL_SPEED,
    USUAL_TTFT,
    acceptance_rate,
    accepted_length,
    error_share,
    stream_speed,
)
from gateway.telemetry.dashboards.promql import mean, per_second, quantile

_ROUTE: Final = ("workload", "backend", "method")


@dataclass(frozen=True, slots=True)
class Recording:
    """A measure that Prometheus works out ahead; named level:metric:operation."""

    name: str
    expression: str


RECORDINGS: Final = (
    Recording("specroute:requests:rate5m", per_second(names.REQUESTS, *_ROUTE, window="5m")),
    Recording("specroute:stream_speed:ratio_rate5m", stream_speed(*_ROUTE, window="5m")),
    Recording("specroute:stream_speed:ratio_rate15m", stream_speed(*_ROUTE, window="15m")),
    Recording(USUAL_SPEED, stream_speed(*_ROUTE, window="1d")),
    Recording("specroute:ttft_seconds:mean_rate15m", mean(names.TTFT, *_ROUTE, window="15m")),
    Recording(USUAL_TTFT, mean(names.TTFT, *_ROUTE, window="1d")),
    Recording("specroute:requests:rate15m", per_second(names.REQUESTS, *_ROUTE, window="15m")),
    Recording("specroute:acceptance_rate:ratio_rate15m", acceptance_rate(*_ROUTE, window="15m")),
    Recording("specroute:acceptance_rate:ratio_rate1d", acceptance_rate(*_ROUTE, window="1d")),
    Recording("specroute:accepted_length:ratio_rate15m", accepted_length(*_ROUTE, window="15m")),
    Recording("specroute:steps:rate15m", per_second(names.STEPS, *_ROUTE, window="15m")),
    Recording("specroute:ttft_seconds:p95_5m", quantile(0.95, names.TTFT, *_ROUTE, window="5m")),
    Recording("specroute:tpot_seconds:p95_5m", quantile(0.95, names.TPOT, *_ROUTE, window="5m")),
    *(
        Recording(f"specroute:errors:ratio_rate{window}", error_share(window))
        for window in ("5m", "30m", "1h", "6h")
    ),
)
