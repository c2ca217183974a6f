from __future__ import annotations

import json
from pathlib import Path

import pytest

from backends.sweep.choose import choose
from backends.sweep.imports import UnknownResultError, evidence, parse
from backends.sweep.model import BASELINE, Candidate
from gateway.policy.evidence import Machine

FIXTURES = Path(__file__).parents[3] / "fixtures" / "bench"
MTP = Candidate("mtp", 3)


def vllm(rate: float = 100.0, *, detailed: bool = True, **more) -> str:
    """As ``vllm bench serve --save-result`` of vLLM 0.32 writes it, with ``--save-detailed`` or without."""
    lengths = [90 + 2 * place for place in range(16)]
    latencies = [length / (rate / 8) for length in lengths]
    found = {
        "date": "20261130-101500", "endpoint_type": "openai-chat", "backend": "openai-chat",
        "model_id": "some/model", "num_prompts": 16, "request_rate": "inf", "max_concurrency": 8,
        "duration": sum(latencies) / 8, "completed": 16, "failed": 1,
        "total_input_tokens": 1600, "total_output_tokens": sum(lengths), "output_throughput": rate,
        "mean_ttft_ms": 50.0, "median_ttft_ms": 48.0, "p99_ttft_ms": 80.0, "mean_tpot_ms": 12.5,
        "latencies": latencies, **more,
    }  # fmt: skip
    if detailed:
        found |= {"output_lens": lengths, "ttfts": [0.05] * 16, "itls": [[0.01]] * 16}
    return json.dumps(found)


SPECULATION = {
    "spec_decode_acceptance_rate": 50.0,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.5, 0.2],
}


def guidellm(rate: float = 100.0) -> str:
    def of(mean: float) -> dict:
        return {"successful": {"mean": mean, "median": mean, "percentiles": {"p50": mean, "p99": 2 * mean}}}

    requests = [
        {
            "model": "some/model",
            "output_tokens": 90 + 2 * place,
            "request_latency": (90 + 2 * place) / (rate / 8),
        }
        for place in range(16)
    ]
    benchmark = {
        "start_time": 1796000000.0,
        "config": {"strategy": {"type_": "concurrent", "streams": 8}},
        "requests": {"successful": requests, "errored": [], "incomplete": []},
        "metrics": {
            "request_totals": {"successful": 16, "errored": 2, "incomplete": 0, "total": 18},
            "output_tokens_per_second": of(rate),
            "time_to_first_token_ms": of(50.0),
            "time_per_output_token_ms": of(12.5),
            "inter_token_latency_ms": of(12.0),
            "output_token_count": of(105.0),
            "prompt_token_count": of(100.0),
        },
    }
    return json.dumps({"benchmarks": [benchmark, benchmark]})


def test_a_result_of_vllm_bench_serve_is_read() -> None:
    (one,) = parse(vllm(**SPECULATION))
    assert (one.model, one.day, one.concurrency, one.requests, one.failures) == (
        "some/model",
        "2026-11-30",
        8,
        16,
        1,
    )
    assert (one.ttft_p50, one.tpot, one.output_tokens) == (0.05, 0.0125, 105.0)
    assert (one.acceptance_rate, one.mean_accepted_length, one.by_position) == (0.5, 2.5, (0.8, 0.5, 0.2))
    rate = one.tokens_per_second
    assert rate.value == 100.0
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= 100.0 <= rate.high


def test_what_vllm_bench_serve_wrote_is_read() -> None:
    """Of 240 requests at a simulated server, without ``--save-detailed``."""
    (one,) = parse((FIXTURES / "vllm-0.32.0.json").read_text(encoding="utf-8"))
    assert (one.model, one.day, one.concurrency, one.requests) == ("Qwen/Qwen3-8B", "2026-11-30", 8, 240)
    assert one.tokens_per_second.value == pytest.approx(1605.4, abs=0.1)
    assert one.mean_accepted_length == pytest.approx(5.09, abs=0.01)
    assert one.tpot == pytest.approx(0.00484, abs=1e-4)
    assert len(one.by_position) == 7


def test_without_details_there_is_a_value_and_no_interval() -> None:
    (one,) = parse(vllm(detailed=False, max_concurrency=None))
    assert (one.tokens_per_second.low, one.ttft_p50, one.concurrency) == (None, 0.048, 8)


def test_all_runs_of_guidellm_are_read() -> None:
    one, other = parse(guidellm())
    assert one == other
    assert (one.model, one.concurrency, one.requests, one.failures) == ("some/model", 8, 16, 2)
    # What it calls time per output token has the first token's in it.
    assert (one.ttft_p50, one.ttft_p99, one.tpot, one.prompt_tokens) == (0.05, 0.1, 0.012, 100.0)
    assert one.day.startswith("2026-11")
    assert one.tokens_per_second.low is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is no object"),
        ("{}", "neither output_throughput"),
        ('{"output_throughput": 1}', "a field is missing or odd: 'completed'"),
        ('{"benchmarks": [{}]}', "a field is missing or odd: 'metrics'"),
        (vllm(completed=0, failed=16), r"no request of it went well \(16 failed\)"),
        (vllm(0.001, output_throughput=0.0), "its rate is 0 tokens/s"),
        (vllm(output_throughput=float("nan")), "one of its figures is no number"),
        (vllm(mean_tpot_ms=-3.0), "or below 0"),
        (vllm(completed=float("inf")), "a field is missing or odd"),
    ],
)
def test_another_file_is_refused_with_what_is_missing(text: str, said: str) -> None:
    with pytest.raises(UnknownResultError, match=said):
        parse(text)


def test_a_baseline_and_a_draft_give_a_speed_up_to_choose_by() -> None:
    (base,), (fast,) = parse(vllm(100.0)), parse(vllm(180.0, failed=0, **SPECULATION))
    found = evidence([(BASELINE, "code", base), (MTP, "code", fast)], "some/model", Machine(), "2026-12-01")
    assert (found.source, found.measured) == ("vllm bench serve", "2026-11-30")
    none, mtp = found.measurements
    assert none.speedup is not None
    assert none.speedup.value == 1.0
    assert mtp.speedup is not None
    assert mtp.speedup.value == pytest.approx(1.8)
    assert mtp.cost == pytest.approx(2.5 / 1.8)
    assert choose(found).everywhere == MTP


def test_without_a_baseline_there_is_no_speed_up() -> None:
    (fast,) = parse(vllm())
    found = evidence([(MTP, "code", fast)], "some/model", Machine(), "2026-12-01")
    assert found.measurements[0].speedup is None


def test_two_runs_of_one_cell_are_refused_for_only_one_would_count() -> None:
    (one,) = parse(vllm())
    runs = [(BASELINE, "code", one), (MTP, "code", one), (MTP, "code", one)]
    with pytest.raises(UnknownResultError, match="2 runs are of mtp-3 for code at 8 in flight"):
        evidence(runs, "some/model", Machine(), "2026-12-01")
