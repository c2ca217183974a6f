from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from gateway.core import gain
from gateway.core.classify import Classification
from gateway.core.decide import NoCandidate
from gateway.core.features import Features, Hints
from gateway.core.gain import Cell, Gain, Speedup, Sums, TooFew, compare, decode_sample
from gateway.core.outcome import Outcome, Record, Speculation, Trace, Usage

_FEATURES = Features(
    endpoint="chat", model="gemma", stream=True, n=1, max_tokens=None, temperature=None,
    parameters=frozenset(), response_format="text", tool_choice="", tools=0, turns=1, last_role="user",
    system_chars=0, prompt_chars=9, last_chars=9, language="en", output_language="en",
    marks=cast("Any", None), hints=Hints(),
)  # fmt: skip


def record(
    tokens: int | None = 101,
    seconds: float | None = 1.0,
    *,
    backend: str = "fast",
    method: str = "eagle3",
    baseline: bool = False,
    speculation: Speculation | None = None,
    status: str = "ok",
) -> Record:
    return Record(
        request_id="r", trace=Trace("1" * 32, "2" * 16), started=0.0, started_unix_ns=0, decided=0.0,
        ended=2.0, features=_FEATURES, classification=Classification("math", 1.0, "hint"),
        decision=NoCandidate("empty_pool", "", busy=False, route=None, rejected=(), policy_revision="p",
                             fleet_revision="f"),
        attempts=(),
        outcome=Outcome(status, 200, ttft=0.1, decode_seconds=seconds, usage=Usage(10, tokens),
                        speculation=speculation or Speculation("not_measured")),
        backend=backend, method=method, draft_tokens=0 if baseline else 5, baseline=baseline,
    )  # fmt: skip


def slow(tokens: int = 101, seconds: float = 2.0) -> Record:
    return record(tokens, seconds, backend="plain", method="none", baseline=True)


def told(sums: Gain, each: Record, target: str = "gemma", workload: str = "math") -> None:
    sums.add(each, target, workload, decode_sample(each))


def filled(*records: Record) -> Gain:
    sums = Gain()
    for each in records:
        told(sums, each)
    return sums


def of(each: Record) -> Sums:
    return Sums().and_one(each, decode_sample(each))


CELL = Cell("gemma", "math", "fast")


def test_a_stream_of_one_choice_counts() -> None:
    assert decode_sample(record(101, 2.0)) == (100, 2.0)


@pytest.mark.parametrize(
    "passed_over",
    [
        record(16),  # 15 decode tokens
        record(None),
        record(101, None),
        record(101, 0.0),
        record(status="truncated"),
        replace(record(), features=replace(_FEATURES, n=2)),
        replace(record(), outcome=replace(record().outcome, backpressured=True)),
        replace(record(), outcome=replace(record().outcome, tool_arguments="invalid")),
    ],
)
def test_others_do_not_count_towards_the_rate_but_are_requests(passed_over: Record) -> None:
    assert decode_sample(passed_over) is None
    sums = of(passed_over)
    assert (sums.requests, sums.rated, sums.decode_tokens, sums.xx) == (1, 0, 0, 0.0)
    assert sums.rate is None


def test_the_floor_is_inclusive() -> None:
    assert decode_sample(record(17)) == (16, 1.0)


def test_same_speed_with_different_lengths_gives_the_same_rate_and_speedup() -> None:
    short = filled(*[record(41, 0.2)] * 20, *[slow()] * 20)
    mixed = filled(*[record(41, 0.2), record(1001, 5.0)] * 10, *[slow(31, 0.6), slow(601, 12.0)] * 10)
    assert dict(short.cells())[CELL].rate == pytest.approx(200.0)
    assert dict(mixed.cells())[CELL].rate == pytest.approx(200.0)
    for sums in (short, mixed):
        speedup = sums.speedup(CELL)
        assert isinstance(speedup, Speedup)
        assert (speedup.low, speedup.ratio, speedup.high) == pytest.approx((4.0, 4.0, 4.0))


def test_a_known_mixture_gives_both_averages() -> None:
    long = Speculation("exact", steps=90, drafted=450, accepted=270)  # 4 tokens a step
    brief = Speculation("exact", steps=10, drafted=50, accepted=10)  # 2 tokens a step
    sums = of(record(speculation=long)).plus(of(record(speculation=brief)))
    assert sums.mean_accepted_length == pytest.approx(3.8)
    assert sums.mean_accepted_length_by_request == pytest.approx(3.0)
    assert sums.acceptance_rate == pytest.approx(0.56)


@pytest.mark.parametrize(
    ("status", "speculation"),
    [
        ("ok", Speculation("not_measured", steps=5, drafted=9, accepted=3)),
        ("ok", Speculation("exact")),
        ("truncated", Speculation("exact", steps=5, drafted=9, accepted=3)),
    ],
)
def test_only_exact_numbers_of_good_answers_are_measured(status: str, speculation: Speculation) -> None:
    sums = of(record(status=status, speculation=speculation))
    assert (sums.measured, sums.steps) == (0, 0)
    assert sums.mean_accepted_length is None
    assert sums.mean_accepted_length_by_request is None
    assert sums.acceptance_rate is None


def test_the_variance_is_that_of_the_residuals() -> None:
    tokens, seconds = [100, 200, 400], [1.0, 3.0, 4.0]
    sums = Sums()
    for x, y in zip(tokens, seconds, strict=True):
        sums = sums.plus(of(record(x + 1, y)))
    rate = sum(tokens) / sum(seconds)
    residuals = sum((x - rate * y) ** 2 for x, y in zip(tokens, seconds, strict=True))
    effective = 8.0**2 / (1 + 9 + 16)
    assert sums.effective == pytest.approx(effective)
    assert sums.log_rate_variance == pytest.approx(residuals * effective / (effective - 1) / sum(tokens) ** 2)


def test_one_giant_request_among_many_is_one_request() -> None:
    giant = filled(*[record(17, 0.1)] * 10, record(1_000_001, 5_000.0), *[slow()] * 10).speedup(CELL)
    assert isinstance(giant, TooFew)
    assert giant.side == "backend"
    assert giant.effective == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("fast", "plain", "expected"),
    [(5, 4, TooFew("baseline", 4.0)), (4, 5, TooFew("backend", 4.0)), (0, 0, TooFew("baseline", 0.0))],
)
def test_too_few_requests_say_which_side(fast: int, plain: int, expected: TooFew) -> None:
    answer = filled(*[record()] * fast, *[slow()] * plain).speedup(CELL)
    assert answer == expected
    words = f"the {expected.side} has {expected.effective:.1f} of {gain.MIN_REQUESTS} effective requests"
    assert str(answer) == words


def _drawn(rng: np.random.Generator, size: int, speed: float) -> Sums:
    """Requests of very different length, whose speed varies by a fifth."""
    x = np.round(rng.gamma(1.5, 200.0, size)) + 16
    y = x / (speed * rng.lognormal(-0.02, 0.2, size))
    return Sums(
        rated=size, decode_tokens=int(x.sum()), decode_seconds=float(y.sum()),
        xx=float(x @ x), xy=float(x @ y), yy=float(y @ y),
    )  # fmt: skip


@pytest.mark.parametrize(("backend", "baseline"), [(200, 200), (40, 20), (12, 12)])
def test_nineteen_of_twenty_intervals_hold_the_truth(backend: int, baseline: int) -> None:
    rng = np.random.default_rng(7)
    truth = compare(_drawn(rng, 1_000_000, 150.0), _drawn(rng, 1_000_000, 60.0))
    assert isinstance(truth, Speedup)
    trials = [compare(_drawn(rng, backend, 150.0), _drawn(rng, baseline, 60.0)) for _ in range(2000)]
    told = [trial for trial in trials if isinstance(trial, Speedup)]
    assert len(told) > 1000
    assert 0.93 <= np.mean([trial.low <= truth.ratio <= trial.high for trial in told]) <= 0.97


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.7764), (20, 2.0860), (60, 2.0003), (1e9, 1.95996)])
def test_the_quantile_is_students(freedom: float, quantile: float) -> None:
    assert gain.student(freedom) == pytest.approx(quantile, rel=3e-3)


def test_more_requests_narrow_the_interval() -> None:
    few = filled(*[record(), record(101, 1.3)] * 10, *[slow()] * 20).speedup(CELL)
    many = filled(*[record(), record(101, 1.3)] * 100, *[slow()] * 20).speedup(CELL)
    assert isinstance(few, Speedup)
    assert isinstance(many, Speedup)
    assert few.low < many.low < many.ratio < many.high < few.high


def test_a_faster_backend_has_the_higher_speedup() -> None:
    before = filled(*[record(101, 1.0)] * 10, *[slow()] * 10).speedup(CELL)
    after = filled(*[record(101, 0.9)] * 10, *[slow()] * 10).speedup(CELL)
    assert isinstance(before, Speedup)
    assert isinstance(after, Speedup)
    assert after.ratio > before.ratio


def test_baselines_of_a_target_are_pooled_and_their_own_measure() -> None:
    second = replace(slow(), backend="plain-2")
    sums = filled(*[record()] * 10, *[slow()] * 5, *[second] * 5)
    assert sums.speedup(CELL) == Speedup(2.0, 2.0, 2.0)
    assert sums.speedup(CELL._replace(backend="plain-2")) == Speedup(1.0, 1.0, 1.0)
    assert list(sums.speedups()) == [(CELL, Speedup(2.0, 2.0, 2.0))]


def test_targets_and_workloads_are_kept_apart() -> None:
    sums = filled(*[record()] * 10, *[slow()] * 10)
    for _ in range(10):
        told(sums, record(), "qwen", "math")
        told(sums, record(backend="faster"), "gemma", "code")
        told(sums, record(backend="fastest"))
    assert sums.speedup(CELL._replace(target="qwen")) == TooFew("baseline", 0.0)
    assert sums.speedup(CELL._replace(workload="code")) == TooFew("baseline", 0.0)
    assert {cell.backend for cell, _ in sums.speedups()} == {"fast", "fastest"}


def test_a_backend_that_changes_its_method_starts_anew() -> None:
    sums = filled(*[slow()] * 3, *[record()] * 3)
    told(sums, replace(slow(), method="mtp", baseline=False, draft_tokens=4))
    assert {cell.backend: each.requests for cell, each in sums.cells()} == {"fast": 3, "plain": 1}
    assert not sums.is_baseline(CELL._replace(backend="plain"))
    assert sums.method(CELL._replace(backend="plain")) == "mtp"


def test_a_server_that_was_started_anew_starts_anew() -> None:
    sums = filled(*[slow()] * 3, *[record()] * 3)
    sums.restarted("fast")
    sums.restarted("unknown")
    assert {cell.backend for cell, _ in sums.cells()} == {"plain"}
    told(sums, record())
    assert {cell.backend: each.requests for cell, each in sums.cells()} == {"fast": 1, "plain": 3}


@pytest.mark.parametrize(
    "outside", [record(backend=""), replace(record(), features=replace(_FEATURES, endpoint="embeddings"))]
)
def test_what_reached_no_backend_or_generates_nothing_is_passed_over(outside: Record) -> None:
    assert filled(outside).cells() == ()


def test_requests_and_output_tokens_count_however_it_ended() -> None:
    sums = filled(record(), record(None, status="cancelled"), record(17, None))
    assert [(each.requests, each.output_tokens, each.rated) for _, each in sums.cells()] == [(3, 118, 1)]
