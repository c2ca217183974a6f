from __future__ import annotations

import pytest

from backends.sim.measures import Histogram, Measures
from backends.sim.realtime import Timing


def test_a_value_on_a_bound_belongs_to_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.cumulative() == [1, 3, 4]
    assert histogram.total == 7.5


@pytest.mark.parametrize(
    ("length", "last"), [(1024, 1000.0), (4096, 2000.0), (32_768, 20_000.0), (131_072, 100_000.0), (5, 5.0)]
)
def test_bounds_of_lengths_go_up_to_the_context(length: int, last: float) -> None:
    bounds = Measures(length).histograms["request_prompt_tokens"].bounds
    assert bounds[:3] == (1.0, 2.0, 5.0)
    assert bounds[-1] == last
    assert list(bounds) == sorted(set(bounds))


def test_a_finished_sequence_is_counted_in_every_phase() -> None:
    measures = Measures(4096)
    timing = Timing(arrived=10.0, scheduled=11.0, first=11.5, last=13.5)
    measures.accept(2, 64)
    measures.emission(timing, None)
    measures.emission(timing, 0.25)
    measures.step(70)
    measures.finish(timing, "stop", prompt_tokens=30, cached_tokens=16, tokens=5)
    totals = {name: (h.cumulative()[-1], h.total) for name, h in measures.histograms.items()}
    assert totals == {
        "request_prompt_tokens": (1, 30),
        "request_generation_tokens": (1, 5),
        "iteration_tokens_total": (1, 70),
        "request_max_num_generation_tokens": (1, 64),
        "request_params_n": (1, 2),
        "request_params_max_tokens": (2, 128),
        "time_to_first_token_seconds": (1, 1.5),
        "inter_token_latency_seconds": (1, 0.25),
        "request_time_per_output_token_seconds": (1, 0.5),
        "e2e_request_latency_seconds": (1, 3.5),
        "request_queue_time_seconds": (1, 1.0),
        "request_inference_time_seconds": (1, 2.5),
        "request_prefill_time_seconds": (1, 0.5),
        "request_decode_time_seconds": (1, 2.0),
        "request_num_preemptions": (1, 0.0),
        "request_prefill_kv_computed_tokens": (1, 14),
    }
    assert measures.finished == {"stop": 1, "length": 0, "abort": 0, "error": 0, "repetition": 0}


def test_a_single_token_has_no_time_per_output_token() -> None:
    measures = Measures(4096)
    measures.finish(Timing(0.0, 0.0, 1.0, 1.0), "length", 5, 0, 1)
    assert measures.histograms["request_time_per_output_token_seconds"].total == 0.0
