"""vLLM's own metrics that dashboards show beside ours, by the names a server of 0.29 has at ``/metrics``.

The label ``backend`` is not the server's: the scrape configuration puts the name of the fleet file there, see
:func:`targets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gateway.telemetry.names import BACKEND, COUNTER, GAUGE, HISTOGRAM, METHOD, POSITION, Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.core.fleet import Backend


class _Vllm(Metric):
    """A metric whose name is already the one of Prometheus."""

    __slots__ = ()

    @property
    def prometheus(self) -> str:
        return self.name


_OF: Final = (BACKEND, METHOD)

RUNNING: Final = _Vllm("vllm:num_requests_running", GAUGE, "{request}", "Requests in the batch.", _OF)
WAITING: Final = _Vllm("vllm:num_requests_waiting", GAUGE, "{request}", "Requests in the queue.", _OF)
KV_USAGE: Final = _Vllm("vllm:kv_cache_usage_perc", GAUGE, "1", "Share of the KV cache in use.", _OF)
PREEMPTIONS: Final = _Vllm("vllm:num_preemptions_total", COUNTER, "{preemption}", "Preemptions.", _OF)
PROMPT_TOKENS: Final = _Vllm("vllm:prompt_tokens_total", COUNTER, "{token}", "Prompt tokens.", _OF)
GENERATED: Final = _Vllm("vllm:generation_tokens_total", COUNTER, "{token}", "Answer tokens.", _OF)
CACHE_QUERIES: Final = _Vllm(
    "vllm:prefix_cache_queries_total", COUNTER, "{token}", "Prompt tokens looked up.", _OF
)
CACHE_HITS: Final = _Vllm("vllm:prefix_cache_hits_total", COUNTER, "{token}", "Prompt tokens found.", _OF)
DRAFTS: Final = _Vllm("vllm:spec_decode_num_drafts_total", COUNTER, "{step}", "Steps with a draft.", _OF)
DRAFTED: Final = _Vllm(
    "vllm:spec_decode_num_draft_tokens_total", COUNTER, "{token}", "Draft tokens proposed.", _OF
)
ACCEPTED: Final = _Vllm(
    "vllm:spec_decode_num_accepted_tokens_total", COUNTER, "{token}", "Draft tokens accepted.", _OF
)
ACCEPTED_AT: Final = _Vllm(
    "vllm:spec_decode_num_accepted_tokens_per_pos_total", COUNTER, "{token}", "Accepted by position.",
    (*_OF, POSITION),
)  # fmt: skip
TTFT: Final = _Vllm("vllm:time_to_first_token_seconds", HISTOGRAM, "s", "To the first token.", _OF)
INTER_TOKEN: Final = _Vllm("vllm:inter_token_latency_seconds", HISTOGRAM, "s", "Between outputs.", _OF)
QUEUE_TIME: Final = _Vllm("vllm:request_queue_time_seconds", HISTOGRAM, "s", "In the queue.", _OF)

METRICS: Final = (
    RUNNING, WAITING, KV_USAGE, PREEMPTIONS, PROMPT_TOKENS, GENERATED, CACHE_QUERIES, CACHE_HITS, DRAFTS,
    DRAFTED, ACCEPTED, ACCEPTED_AT, TTFT, INTER_TOKEN, QUEUE_TIME,
)  # fmt: skip


def targets(backends: Iterable[Backend]) -> list[dict[str, Any]]:
    """The servers of a fleet for Prometheus' ``file_sd_configs``, with the labels that dashboards expect."""
    return [
        {
            "targets": [urlsplit(backend.url).netloc.rpartition("@")[2]],
            "labels": {
                "backend": backend.name,
                "method": backend.method,
                "target_model": backend.target,
                "__scheme__": urlsplit(backend.url).scheme,
            },
        }
        for backend in backends
    ]
