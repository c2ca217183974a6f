"""The text that Prometheus scrapes, with the names, labels and types of a real server."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sim.engine import Engine
    from backends.sim.measures import Measures

CONTENT_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"
_CACHE: Final = {
    "_block_size_resolved": "True", "block_size": "16", "cache_dtype": "auto", "cache_hit_alignment_tokens":
    "None", "effective_attention_block_size": "16", "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True", "gpu_memory_utilization": "0.92", "hash_block_size": "None",
    "is_attention_free": "False", "kv_cache_dtype_skip_layers": "[]", "kv_cache_layout": "None",
    "kv_cache_max_concurrency": "None", "kv_cache_memory_bytes": "None", "kv_offloading_backend": "native",
    "kv_offloading_size": "None", "kv_sharing_fast_prefill": "False", "mamba_block_size": "None",
    "mamba_cache_dtype": "auto", "mamba_cache_mode": "none", "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32", "num_cpu_blocks": "None", "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0", "prefix_caching_hash_algo": "sha256", "prefix_match_unit":
    "None", "replayssm_buffer_len": "16", "skip_page_size_padded": "None", "sliding_window": "None",
    "swa_bounded_replay": "True", "use_kda_recoverssm": "False", "use_replayssm": "False",
    "user_specified_block_size": "False",
}  # fmt: skip
_ABSENT: Final = {"admission_rejections_total": "engine", "cache_config_info": "model_name"}
"""Families that lack one of the common labels."""
_BLOCK: Final = 16  # tokens a KV block


def render(engine: Engine, measures: Measures, model: str, created: float) -> str:
    """The whole page.

    Args:
        engine: Gives counters, load and draft length.
        measures: Gives histograms and finished requests.
        model: Value of the label ``model_name``.
        created: Unix seconds at which the server started.
    """
    common = {"engine": "0", "model_name": model}
    single, labelled = _values(engine, measures)
    lines: list[str] = []
    for name, kind, description in _families():
        series: list[tuple[dict[str, str], str, float]]  # labels, suffix, value
        if kind == "histogram":
            series = [(common | extra, suffix, value) for extra, suffix, value in _histogram(measures, name)]
        elif name in labelled:
            series = [(common | extra, "", value) for extra, value in labelled[name]]
        elif name in single:
            series = [(common, "", single[name])]
        else:
            continue  # speculation counters of a server without a draft
        if (absent := _ABSENT.get(name)) is not None:
            series = [({k: v for k, v in labels.items() if k != absent}, s, v) for labels, s, v in series]
        full = f"vllm:{name}"
        lines += [f"# HELP {full} {description}", f"# TYPE {full} {kind}"]
        lines += [f"{full}{suffix}{_labels(labels)} {value!r}" for labels, suffix, value in series]
        if kind != "gauge":
            born = f"{full.removesuffix('_total') if kind == 'counter' else full}_created"
            lines += [f"# HELP {born} {description}", f"# TYPE {born} gauge"]
            seen = [series[0][0]] if kind == "histogram" else [labels for labels, _, _ in series]
            lines += [
                f"{born}{_labels({k: v for k, v in labels.items() if k != 'le'})} {created!r}"
                for labels in seen
            ]
    return "\n".join(lines) + "\n"


def _values(
    engine: Engine, measures: Measures
) -> tuple[dict[str, float], dict[str, list[tuple[dict[str, str], float]]]]:
    """Values of the families with one series, and series of the others."""
    counters = engine.counters
    cached, computed = counters.cached_tokens, counters.prompt_tokens - counters.cached_tokens
    single = {
        "estimated_flops_per_gpu_total": 0.0,
        "estimated_read_bytes_per_gpu_total": 0.0,
        "estimated_write_bytes_per_gpu_total": 0.0,
        "num_requests_running": float(engine.running),
        "num_requests_waiting": float(engine.waiting),
        "kv_cache_usage_perc": engine.kv_usage,
        "prefix_cache_queries_total": float(counters.prompt_tokens),
        "prefix_cache_hits_total": float(cached),
        "external_prefix_cache_queries_total": 0.0,
        "external_prefix_cache_hits_total": 0.0,
        "mm_cache_queries_total": 0.0,
        "mm_cache_hits_total": 0.0,
        "num_preemptions_total": float(counters.preemptions),
        "prompt_tokens_total": float(counters.prompt_tokens),
        "prompt_tokens_cached_total": float(cached),
        "generation_tokens_total": float(counters.generation_tokens),
    }
    kv_tokens = engine.configuration.kv_tokens
    size = {"kv_cache_size_tokens": str(kv_tokens), "num_gpu_blocks": str(kv_tokens // _BLOCK)}
    labelled = {
        "num_requests_waiting_by_reason": _by("reason", {"capacity": engine.waiting, "deferred": 0}),
        "engine_sleep_state": _by("sleep_state", {"awake": 1, "weights_offloaded": 0, "discard_all": 0}),
        "prompt_tokens_by_source_total": _by(
            "source", {"local_compute": computed, "local_cache_hit": cached, "external_kv_transfer": 0}
        ),
        "prompt_tokens_cached_by_source_total": _by(
            "source", {"device": cached, "host": 0, "p2p": 0, "disk": 0, "external_unspecified": 0}
        ),
        "request_success_total": _by("finished_reason", measures.finished),
        "admission_rejections_total": _by("reason", {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}),
        "cache_config_info": [(_CACHE | size, 1.0)],
    }
    if engine.configuration.draft_tokens:
        single["spec_decode_num_drafts_total"] = float(counters.drafts)
        single["spec_decode_num_draft_tokens_total"] = float(counters.draft_tokens)
        single["spec_decode_num_accepted_tokens_total"] = float(counters.accepted_tokens)
        positions = {str(position): number for position, number in enumerate(counters.accepted_by_position)}
        labelled["spec_decode_num_accepted_tokens_per_pos_total"] = _by("position", positions)
    return single, labelled


def _by(label: str, values: dict[str, int]) -> list[tuple[dict[str, str], float]]:
    return [({label: key}, float(value)) for key, value in values.items()]


def _histogram(measures: Measures, name: str) -> Iterator[tuple[dict[str, str], str, float]]:
    histogram = measures.histograms[name]
    sums = histogram.cumulative()
    for bound, below in zip((*map(repr, histogram.bounds), "+Inf"), sums, strict=True):
        yield {"le": bound}, "_bucket", float(below)
    yield {}, "_count", float(sums[-1])
    yield {}, "_sum", float(histogram.total)


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


@functools.cache
def _families() -> tuple[tuple[str, str, str], ...]:
    """Name without prefix, type and description of every family, in the order of a real page."""
    table = (resources.files(__package__) / "families.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return tuple((name, kind, description) for name, kind, description in rows)
