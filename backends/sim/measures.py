"""What a server has measured since it started, beside its engine's own counters."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.realtime import Timing

_PHASE: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
_TOKEN: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_FIRST: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_STEP: Final = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
REASONS: Final = ("stop", "length", "abort", "error", "repetition")
"""Values of the label ``finished_reason``."""


class Histogram:
    """Counts by upper bound, and their sum.

    Args:
        bounds: Upper bounds, ascending, without the infinite one.
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """Values at or below each bound; the last entry is all of them."""
        sums, seen = [], 0
        for number in self._counts:
            seen += number
            sums.append(seen)
        return sums


class Measures:
    """Histograms by metric name without the prefix, and finished requests by reason.

    Args:
        max_model_len: Context length in tokens: the bounds of the token histograms go up to it.
    """

    def __init__(self, max_model_len: int) -> None:
        lengths = [
            float(mantissa * 10**exponent)
            for exponent in range(len(str(max_model_len)))
            for mantissa in (1, 2, 5)
            if mantissa * 10**exponent <= max_model_len
        ]
        self.histograms: dict[str, Histogram] = {
            "request_prompt_tokens": Histogram(lengths),
            "request_generation_tokens": Histogram(lengths),
            "iteration_tokens_total": Histogram(_STEP),
            "request_max_num_generation_tokens": Histogram(lengths),
            "request_params_n": Histogram((1.0, 2.0, 5.0, 10.0, 20.0)),
            "request_params_max_tokens": Histogram(lengths),
            "time_to_first_token_seconds": Histogram(_FIRST),
            "inter_token_latency_seconds": Histogram(_TOKEN),
            "request_time_per_output_token_seconds": Histogram(_TOKEN),
            "e2e_request_latency_seconds": Histogram(_PHASE),
            "request_queue_time_seconds": Histogram(_PHASE),
            "request_inference_time_seconds": Histogram(_PHASE),
            "request_prefill_time_seconds": Histogram(_PHASE),
            "request_decode_time_seconds": Histogram(_PHASE),
            "request_num_preemptions": Histogram((1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)),
            "request_prefill_kv_computed_tokens": Histogram(lengths),
        }
        self.finished = dict.fromkeys(REASONS, 0)

    def step(self, tokens: int) -> None:
        """Count an engine step that computed ``tokens`` tokens, prompt and output together."""
        self.histograms["iteration_tokens_total"].observe(tokens)

    def emission(self, timing: Timing, since: float | None) -> None:
        """Count new tokens of a sequence: vLLM observes steps here, not tokens.

        Args:
            timing: Of the job.
            since: Seconds since its tokens before these; None for its first.
        """
        if since is None:
            self.histograms["time_to_first_token_seconds"].observe(timing.first - timing.arrived)
        else:
            self.histograms["inter_token_latency_seconds"].observe(since)

    def accept(self, n: int, max_tokens: int) -> None:
        """Count the parameters of a request that was taken on."""
        self.histograms["request_params_n"].observe(n)
        self.histograms["request_max_num_generation_tokens"].observe(max_tokens)
        for _ in range(n):
            self.histograms["request_params_max_tokens"].observe(max_tokens)

    def finish(
        self, timing: Timing, reason: str, prompt_tokens: int, cached_tokens: int, tokens: int
    ) -> None:
        """Count a sequence that came to its end; one whose client left is never counted."""
        decode = timing.last - timing.first
        for name, value in (
            ("request_prompt_tokens", prompt_tokens),
            ("request_generation_tokens", tokens),
            ("request_time_per_output_token_seconds", decode / (tokens - 1) if tokens > 1 else 0.0),
            ("e2e_request_latency_seconds", timing.last - timing.arrived),
            ("request_queue_time_seconds", timing.scheduled - timing.arrived),
            ("request_inference_time_seconds", timing.last - timing.scheduled),
            ("request_prefill_time_seconds", timing.first - timing.scheduled),
            ("request_decode_time_seconds", decode),
            ("request_num_preemptions", 0),
            ("request_prefill_kv_computed_tokens", prompt_tokens - cached_tokens),
        ):
            self.histograms[name].observe(value)
        self.finished[reason] += 1
