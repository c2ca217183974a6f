"""The dashboard of the fleet: how loaded and how well each server is."""

from __future__ import annotations

from typing import Final

from gateway.telemetry import names
from gateway.telemetry.dashboards import vllm
from gateway.telemetry.dashboards.panels import (
    BACKEND,
    GOOD_AT_ONE,
    Dashboard,
    Panel,
    Query,
    Row,
)
from gateway.telemetry.dashboards.promql import backends, growth, now, or_zero, per_second, quantile, ratio

_HERE: Final = 'backend=~"$backend"'

_EXPORTER: Final = "Empty without `gpus.exporter` in the fleet file."

FLEET: Final = Dashboard(
    "fleet",
    "Fleet",
    "How loaded and how well each server is; ours and vLLM's own numbers side by side.",
    (
        Row(
            "State",
            (
                Panel(
                    "May get a request",
                    "Healthy, let through by its breaker, and not full.",
                    (Query(now(names.AVAILABLE, "backend", how="min", where=_HERE), "{{backend}}"),),
                    "short",
                    "stat",
                    width=12,
                    steps=GOOD_AT_ONE,
                ),
                Panel(
                    "Breaker",
                    "0 closed, 1 half-open, 2 open.",
                    (Query(now(names.BREAKER_STATE, "backend", where=_HERE), "{{backend}}"),),
                    "short",
                    "stat",
                    width=12,
                    steps=(("green", None), ("yellow", 1.0), ("red", 2.0)),
                ),
                Panel(
                    "Healthy",
                    "0 if a probe found otherwise or nothing connects to it.",
                    (Query(now(names.HEALTHY, "backend", how="min", where=_HERE), "{{backend}}"),),
                ),
                Panel(
                    "Age of what is known",
                    "Of the last scrape of the load, of the server's counters and of its GPUs.",
                    (
                        Query(now(names.SCRAPE_AGE, "backend", where=_HERE), "load of {{backend}}"),
                        Query(now(names.COUNTERS_AGE, "backend", where=_HERE), "counters of {{backend}}"),
                        Query(now(names.GPU_AGE, "backend", where=_HERE), "GPUs of {{backend}}"),
                    ),
                    "s",
                ),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "In flight of the limit",
                    "Requests that the gateways hold open, as a share of what they may.",
                    (
                        Query(
                            ratio(
                                now(names.IN_FLIGHT, "backend", how="sum", where=_HERE),
                                now(names.LIMIT, "backend", how="sum", where=_HERE),
                            ),
                            "{{backend}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Running and waiting, as scraped by the gateway",
                    "",
                    (
                        Query(now(names.RUNNING, "backend", where=_HERE), "{{backend}} running"),
                        Query(now(names.WAITING, "backend", where=_HERE), "{{backend}} waiting"),
                    ),
                ),
                Panel(
                    "Running and waiting, vLLM's own",
                    "Also what other clients sent.",
                    (
                        Query(now(vllm.RUNNING, "backend", how="sum", where=_HERE), "{{backend}} running"),
                        Query(now(vllm.WAITING, "backend", how="sum", where=_HERE), "{{backend}} waiting"),
                    ),
                ),
                Panel(
                    "KV cache in use",
                    "As the gateway and as Prometheus scraped it.",
                    (
                        Query(now(names.KV_USAGE, "backend", where=_HERE), "{{backend}}"),
                        Query(now(vllm.KV_USAGE, "backend", where=_HERE), "{{backend}}, vLLM's own"),
                    ),
                    "percentunit",
                ),
            ),
        ),
        Row(
            "Work, vLLM's own numbers",
            (
                Panel(
                    "Output tokens/s",
                    "Of the whole server.",
                    (Query(per_second(vllm.GENERATED, "backend", where=_HERE), "{{backend}}"),),
                    stacked=True,
                ),
                Panel(
                    "Prompt tokens/s",
                    "Of the whole server.",
                    (Query(per_second(vllm.PROMPT_TOKENS, "backend", where=_HERE), "{{backend}}"),),
                    stacked=True,
                ),
                Panel(
                    "Prompt tokens found in the cache",
                    "Share of those looked up.",
                    (
                        Query(
                            ratio(
                                per_second(vllm.CACHE_HITS, "backend", where=_HERE),
                                per_second(vllm.CACHE_QUERIES, "backend", where=_HERE),
                            ),
                            "{{backend}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Preemptions",
                    "Each does a prompt's work again: the KV cache is too small for the load.",
                    (Query(per_second(vllm.PREEMPTIONS, "backend", where=_HERE), "{{backend}}"),),
                ),
                Panel(
                    "Time in vLLM's queue, p95",
                    "",
                    (Query(quantile(0.95, vllm.QUEUE_TIME, "backend", where=_HERE), "{{backend}}"),),
                    "s",
                ),
                Panel(
                    "Time to first token, p95",
                    "By the server, and as the gateway saw it.",
                    (
                        Query(quantile(0.95, vllm.TTFT, "backend", where=_HERE), "{{backend}}, vLLM's own"),
                        Query(quantile(0.95, names.TTFT, "backend", where=_HERE), "{{backend}}"),
                    ),
                    "s",
                ),
                Panel(
                    "Between two outputs, p95",
                    "With speculation an output is several tokens.",
                    (Query(quantile(0.95, vllm.INTER_TOKEN, "backend", where=_HERE), "{{backend}}"),),
                    "s",
                ),
                Panel(
                    "Restarts",
                    "Servers that were started anew; what was measured of them before is forgotten.",
                    (
                        Query(
                            or_zero(growth(names.RESTARTS, "backend", how="max", where=_HERE)), "{{backend}}"
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "GPUs, from AMD's device-metrics-exporter",
            (
                Panel(
                    "GPU memory",
                    f"Share that is taken. {_EXPORTER}",
                    (Query(now(names.GPU_MEMORY, "backend", where=_HERE), "{{backend}}"),),
                    "percentunit",
                    width=8,
                ),
                Panel(
                    "GPU activity",
                    f"Share of time in which they computed. {_EXPORTER}",
                    (Query(now(names.GPU_ACTIVITY, "backend", where=_HERE), "{{backend}}"),),
                    "percentunit",
                    width=8,
                ),
                Panel(
                    "Power",
                    f"Of the backend's GPUs together. {_EXPORTER}",
                    (Query(now(names.GPU_POWER, "backend", where=_HERE), "{{backend}}"),),
                    "watt",
                    width=8,
                ),
            ),
        ),
        Row(
            "What each is",
            (
                Panel(
                    "Method by draft length",
                    "Servers of each configuration.",
                    (Query(backends(names.BACKEND_INFO, "method", "draft_tokens", where=_HERE)),),
                    "short",
                    "matrix",
                    "method",
                    "draft_tokens",
                    width=24,
                ),
            ),
        ),
    ),
    (BACKEND,),
)
