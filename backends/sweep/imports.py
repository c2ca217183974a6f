"""Results of other people's benchmarks as evidence: ``vllm bench serve --save-result`` and guidellm's JSON.

They say nothing of workload, method or baseline, so these are given by whoever imports; two files of the same
workload and concurrency, one of them without speculation, give a speed-up. Intervals come from the spread
over requests where a file lists them, and are missing where it holds means alone.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from backends.sweep.stats import Interval, percentile, rate_of, ratio
from gateway.policy.evidence import Evidence, Machine, Measurement, Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backends.sweep.model import Candidate

VLLM: Final = "vllm bench serve"
GUIDELLM: Final = "guidellm"


class UnknownResultError(ValueError):
    """A text is the result of no benchmark that is known; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One run of one benchmark.

    Attributes:
        source: Which one.
        model: The model as it was asked for.
        day: When it ran, as ISO 8601 has it; "" if the file does not say.
        tokens_per_second: Output of all clients.
        ttft: Seconds to the first token of each request, sorted; two quantiles where there are no more.
    """

    source: str
    model: str
    day: str
    concurrency: int
    requests: int
    failures: int
    tokens_per_second: Interval
    ttft_p50: float | None = None
    ttft_p99: float | None = None
    tpot: float | None = None
    output_tokens: float | None = None
    prompt_tokens: float | None = None
    acceptance_rate: float | None = None
    mean_accepted_length: float | None = None
    by_position: tuple[float, ...] = ()


def parse(text: str) -> list[Imported]:
    """Read a result file; guidellm's may hold several runs.

    Raises:
        UnknownResultError: It is of neither.
    """
    try:
        found = json.loads(text)
    except ValueError:
        raise UnknownResultError("it is not JSON") from None
    if not isinstance(found, dict):
        raise UnknownResultError("it is no object")
    try:
        if "output_throughput" in found:
            return [_whole(_vllm(found))]
        if isinstance(found.get("benchmarks"), list):
            return [_whole(_guidellm(one)) for one in found["benchmarks"]]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnknownResultError(f"a field is missing or odd: {error}") from error
    raise UnknownResultError(
        "it has neither output_throughput (vllm bench serve --save-result) nor benchmarks (guidellm)"
    )


def _whole(one: Imported) -> Imported:
    """A run that shows something: without a request that went well there is no rate to compare."""
    if not one.requests:
        raise UnknownResultError(f"no request of it went well ({one.failures} failed)")
    numbers = (
        one.tokens_per_second.value, one.ttft_p50, one.ttft_p99, one.tpot, one.output_tokens,
        one.prompt_tokens, one.acceptance_rate, one.mean_accepted_length, *one.by_position,
    )  # fmt: skip
    if not all(number is None or (math.isfinite(number) and number >= 0.0) for number in numbers):
        raise UnknownResultError("one of its figures is no number, or below 0")
    if not one.tokens_per_second.value:
        raise UnknownResultError("its rate is 0 tokens/s")
    return one


def _vllm(found: Mapping[str, Any]) -> Imported:
    requests = int(found["completed"])
    duration = float(found["duration"])
    latencies, lengths = found.get("latencies") or (), found.get("output_lens") or ()
    ttfts = sorted(float(one) for one in found.get("ttfts") or () if one)
    concurrency = int(found.get("max_concurrency") or 0)
    value = float(found["output_throughput"])
    if not latencies and ttfts and found.get("itls"):
        latencies = [first + sum(gaps) for first, gaps in zip(found["ttfts"], found["itls"], strict=False)]
    bounds = _bounds(value, zip(lengths, latencies, strict=False))
    mean_in_flight = sum(latencies) / duration if latencies and duration else 1.0
    rates = found.get("spec_decode_per_position_acceptance_rates") or ()
    return Imported(
        source=VLLM,
        model=str(found.get("model_id", "")),
        day=_day(str(found.get("date", ""))),
        concurrency=concurrency or max(1, round(mean_in_flight)),
        requests=requests,
        failures=int(found.get("failed", 0)),
        tokens_per_second=bounds,
        ttft_p50=percentile(ttfts, 0.5) if ttfts else _milli(found.get("median_ttft_ms")),
        ttft_p99=percentile(ttfts, 0.99) if ttfts else _milli(found.get("p99_ttft_ms")),
        tpot=_milli(found.get("mean_tpot_ms")),
        output_tokens=found["total_output_tokens"] / requests if requests else None,
        prompt_tokens=found["total_input_tokens"] / requests if requests else None,
        acceptance_rate=_percent(found.get("spec_decode_acceptance_rate")),
        mean_accepted_length=found.get("spec_decode_acceptance_length"),
        by_position=tuple(float(one) for one in rates),
    )


def _guidellm(found: Mapping[str, Any]) -> Imported:
    metrics = found["metrics"]
    strategy = (found.get("config") or found.get("args") or {}).get("strategy") or {}
    requests = found.get("requests") or {}
    good = requests.get("successful") or ()
    totals = metrics.get("request_totals") or {}
    completed = int(totals.get("successful", len(good)))
    value = float(_mean(metrics["output_tokens_per_second"]))
    pairs = [
        (int(one["output_tokens"]), float(one["request_latency"]))
        for one in good
        if one.get("output_tokens") and one.get("request_latency")
    ]
    in_flight = (
        strategy.get("streams") or strategy.get("max_concurrency") or _mean_of(metrics, "request_concurrency")
    )
    ttft = metrics.get("time_to_first_token_ms") or {}
    return Imported(
        source=GUIDELLM,
        model=str(next((one["model"] for one in good if one.get("model")), "")),
        day=_seconds_to_day(found.get("start_time")),
        concurrency=max(1, round(in_flight or 1)),
        requests=completed,
        failures=int(totals.get("errored", 0)),
        tokens_per_second=_bounds(value, pairs),
        ttft_p50=_milli(_quantile(ttft, "p50")),
        ttft_p99=_milli(_quantile(ttft, "p99")),
        tpot=_milli(_mean_of(metrics, "inter_token_latency_ms")),
        output_tokens=_mean_of(metrics, "output_token_count"),
        prompt_tokens=_mean_of(metrics, "prompt_token_count"),
    )


def _mean(found: Mapping[str, Any]) -> float:
    """The mean of a distribution as guidellm writes it: by outcome, or alone."""
    of = found.get("successful") or found.get("total") or found
    return float(of["mean"])


def _mean_of(metrics: Mapping[str, Any], name: str) -> float | None:
    return _mean(metrics[name]) if metrics.get(name) else None


def _quantile(found: Mapping[str, Any], name: str) -> float | None:
    of = found.get("successful") or found
    quantiles = of.get("percentiles") or {}
    value = quantiles.get(name, of.get("median") if name == "p50" else None)
    return None if value is None else float(value)


def _bounds(value: float, pairs: Iterable[tuple[int, float]]) -> Interval:
    """The reported rate with the relative interval of tokens over seconds of its requests."""
    own = rate_of(ratio((int(tokens), float(seconds)) for tokens, seconds in pairs if seconds))
    if own is None or own.low is None or own.high is None:
        return Interval(value)
    return Interval(value, value * own.low / own.value, value * own.high / own.value)


def _milli(value: float | None) -> float | None:
    return None if value is None else float(value) / 1e3


def _percent(value: float | None) -> float | None:
    """VLLM writes percent."""
    return None if value is None else float(value) / 100.0


def _day(written: str) -> str:
    """The day of vLLM's ``20261130-101500``."""
    digits = written.partition("-")[0]
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}" if len(digits) == 8 and digits.isdecimal() else ""


def _seconds_to_day(value: float | None) -> str:
    return "" if not value else datetime.fromtimestamp(float(value), UTC).date().isoformat()


def evidence(
    runs: Sequence[tuple[Candidate, str, Imported]], target: str, machine: Machine, today: str
) -> Evidence:
    """Runs as evidence.

    Args:
        runs: Each with what ran and whose prompts it had.
        target: The target model.
        machine: What it ran on, as far as whoever imports knows.
        today: The day where no file says one.

    Raises:
        UnknownResultError: Two runs are of one configuration, workload and concurrency.
    """
    for (who, workload, level), number in Counter(
        (who, name, one.concurrency) for who, name, one in runs
    ).items():
        if number > 1:
            what = f"{who.label} for {workload} at {level} in flight"
            raise UnknownResultError(f"{number} runs are of {what}: give one of them")
    days = sorted({one.day for _, _, one in runs if one.day})
    return Evidence(
        version=1,
        source=" and ".join(sorted({one.source for _, _, one in runs})),
        target=target,
        measured=days[0] if days else today,
        machine=machine,
        measurements=tuple(_measurements(runs)),
    )


def _measurements(runs: Sequence[tuple[Candidate, str, Imported]]) -> Iterator[Measurement]:
    base = {
        (workload, one.concurrency): one.tokens_per_second for who, workload, one in runs if who.is_baseline
    }
    for who, workload, one in runs:
        rate, baseline = one.tokens_per_second, base.get((workload, one.concurrency))
        speedup = None
        if who.is_baseline:
            speedup = Range(value=1.0, low=1.0, high=1.0)
        elif baseline is not None:
            speedup = _over(rate, baseline)
        length = one.mean_accepted_length
        yield Measurement(
            method=who.method,
            draft_tokens=who.draft_tokens,
            workload=workload,
            concurrency=one.concurrency,
            requests=one.requests,
            failures=one.failures,
            tokens_per_second=Range(value=rate.value, low=rate.low, high=rate.high),
            speedup=speedup,
            ttft_p50=one.ttft_p50,
            ttft_p99=one.ttft_p99,
            tpot=None if one.tpot is None else Range(value=one.tpot),
            output_tokens=one.output_tokens,
            prompt_tokens=one.prompt_tokens,
            mean_accepted_length=length,
            acceptance_rate=one.acceptance_rate,
            by_position=one.by_position,
            cost=None if length is None or speedup is None or who.is_baseline else length / speedup.value,
        )


def _over(rate: Interval, baseline: Interval) -> Range:
    """The ratio of two rates; its bounds by the sum of both variances on a logarithmic scale."""
    value, width = rate.value / baseline.value, math.hypot(rate.half_width, baseline.half_width)
    if not math.isfinite(width):
        return Range(value=value)
    return Range(value=value, low=value / math.exp(width), high=value * math.exp(width))
