"""Measures that several panels and rules show, each written once."""

from __future__ import annotations

from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards.promql import PANEL, now, per_second, ratio, share, with_target

BAD: Final = 'status=~"upstream_error|timeout|truncated|rejected"'
"""Requests that failed by our fault or the backends'; not a client's own mistake, nor that it left."""

FIRST_TOKEN: Final = names.GENAI["0.1.0"].server_first_token
"""From the request's head; of the same name in all versions of the conventions."""

DRAFTING: Final = 'method!="none"'
BASELINE: Final = 'method="none"'

OF_WORKLOAD: Final = 'workload=~"$workload"'
OF_BACKEND: Final = 'backend=~"$backend"'
CHOSEN: Final = f"{OF_WORKLOAD}, {OF_BACKEND}"
"""What is chosen at the top of a dashboard."""


USUAL_SPEED: Final = "specroute:stream_speed:ratio_rate1d"
USUAL_TTFT: Final = "specroute:ttft_seconds:mean_rate1d"
"""Recordings of what a route is used to."""


def stream_speed(*by: str, where: str = "", window: str = PANEL) -> str:
    """Tokens per second of one stream, from sums: long and short answers of the same speed count the same."""
    return ratio(
        per_second(names.DECODE_TOKENS, *by, where=where, window=window),
        per_second(names.DECODE_TIME, *by, where=where, window=window),
    )


def acceptance_rate(*by: str, where: str = "", window: str = PANEL) -> str:
    """Accepted share of the draft tokens."""
    return ratio(
        per_second(names.ACCEPTED, *by, where=where, window=window),
        per_second(names.DRAFTED, *by, where=where, window=window),
    )


def accepted_length(*by: str, where: str = "", window: str = PANEL) -> str:
    """Tokens a step yields, bonus token included."""
    steps = per_second(names.STEPS, *by, where=where, window=window)
    return f"1 + {ratio(per_second(names.ACCEPTED, *by, where=where, window=window), steps)}"


def step_price() -> str:
    """What a step with a draft costs in steps of the baseline, for the same target and workload.

    A step takes the time of its tokens. Where it costs more than it yields, speculation loses.
    """
    keep = ("target", "workload", "backend")
    drafting = f"{CHOSEN}, {DRAFTING}"
    token = ratio(
        per_second(names.DECODE_TIME, *keep, where=drafting),
        per_second(names.DECODE_TOKENS, *keep, where=drafting),
    )
    length = accepted_length(*keep, where=drafting)
    plain = ratio(
        per_second(names.DECODE_TIME, "target", "workload", where=BASELINE),
        per_second(names.DECODE_TOKENS, "target", "workload", where=BASELINE),
    )
    return f"(({token}) * ({length})) / on (target, workload) group_left () ({plain})"


def error_share(window: str = PANEL, where: str = "") -> str:
    """Share of requests that failed by our fault or the backends'."""
    failed = f"{where}, {BAD}" if where else BAD
    return share(
        per_second(names.REQUESTS, where=failed, window=window),
        per_second(names.REQUESTS, where=where, window=window),
    )


def obtainable() -> str:
    """Backends of each target that take requests, at once or, as they are busy and nothing else, in turn.

    A gateway's backend counts once for each gateway.
    """
    available = names.AVAILABLE.prometheus
    full = f"({names.IN_FLIGHT.prometheus} >= bool {names.LIMIT.prometheus})"
    well = f"{names.HEALTHY.prometheus} * ({names.BREAKER_STATE.prometheus} < bool 1)"
    return f"sum by (target) ({with_target(f'({available} + {full} * {well} or {available})')})"


def kv_usage() -> str:
    """How full the cache of each server is that told so lately: a gauge stays at what was told last."""
    silent = f"{now(names.SCRAPE_AGE, 'backend', how='min')} > 60"
    return f"{now(names.KV_USAGE, 'backend')} unless on (backend) ({silent})"


def untold(where: str = "") -> str:
    """Share of each server's accepted tokens that no answer told of, where one gateway alone has the server.

    Of several, each takes the others for strangers.
    """
    gateways = now(names.BACKEND_INFO, "backend", how="count")
    mismatch = now(names.COUNTERS_MISMATCH, "backend", where=where)
    return f"{mismatch} unless on (backend) ({gateways} > 1)"
