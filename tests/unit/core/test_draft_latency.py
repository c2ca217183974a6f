from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from gateway.core.counters import Counters
from gateway.core.draft_latency import LEAST_WINDOWS, MEMORY, StepTimes, StepWindow, estimates, window

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPT_TOKEN = 1e-5
DRAFT = 0.004


def plain(tokens: float) -> float:
    """Seconds of a pass over so many tokens, without speculation."""
    return 0.02 + 2e-4 * tokens


def drafting(batch: float) -> float:
    """Seconds of a step with 3 draft tokens."""
    return plain(4 * batch) + DRAFT


def seen(
    step: Callable[[float], float],
    *batches: float,
    width: float = 1.0,
    prompt: float = 0.0,
    noise: float = 0.0,
    windows: int = 40,
    seed: int = 1,
) -> StepTimes:
    """A server seen at these batches; prompts come as they like around a mean."""
    random, times = np.random.default_rng(seed), StepTimes()
    for batch in batches:
        for _ in range(windows):
            prompts = prompt * float(random.exponential()) if prompt else 0.0
            seconds = step(batch) * (1.0 + noise * float(random.normal())) + PROMPT_TOKEN * prompts
            times.add(StepWindow(batch, seconds, width, prompts))
    return times


BASELINE = seen(plain, 1, 2, 4, 8, 16, 32)


def test_the_draft_is_what_a_step_takes_beyond_the_baselines_pass_over_as_many_tokens() -> None:
    found = estimates(seen(drafting, 1, 4, 8, width=4.0), [BASELINE])
    assert [one.batch for one in found] == pytest.approx([1, 4, 8])
    for one in found:
        assert one.seconds == pytest.approx(DRAFT)
        assert one.low == pytest.approx(DRAFT)
        assert one.high == pytest.approx(DRAFT)
        assert one.most == pytest.approx(DRAFT + 2e-4 * 3 * one.batch)
        assert (one.width, one.step) == (pytest.approx(4.0), pytest.approx(drafting(one.batch)))


def test_between_two_batches_of_the_baseline_it_is_in_proportion() -> None:
    (one,) = estimates(seen(drafting, 6, width=4.0), [BASELINE])
    assert one.seconds == pytest.approx(DRAFT)


def test_noise_gives_an_interval_that_holds_the_truth() -> None:
    inside = 0
    for seed in range(60):
        (one,) = estimates(
            seen(drafting, 4, width=4.0, noise=0.05, windows=20, seed=seed),
            [seen(plain, 4, 8, 16, 32, noise=0.05, windows=20, seed=1000 + seed)],
        )
        assert one.high is not None
        assert one.most is not None
        inside += one.low <= DRAFT <= one.high
        assert one.most > DRAFT
    assert inside >= 52  # of 60, where 57 are due


def test_prompts_computed_in_between_are_taken_off() -> None:
    base = seen(plain, 4, 8, 16, prompt=100.0)
    (one,) = estimates(seen(drafting, 4, width=4.0, prompt=400.0, seed=2), [base])
    assert one.seconds == pytest.approx(DRAFT, rel=0.01)
    # Where they are always as many, nobody can tell them from the step.
    steady = StepTimes()
    for _ in range(40):
        steady.add(StepWindow(4.0, drafting(4) + 400 * PROMPT_TOKEN, 4.0, 400.0))
    (biased,) = estimates(steady, [seen(plain, 4, 16)])
    assert biased.seconds == pytest.approx(DRAFT + 400 * PROMPT_TOKEN)


def test_where_the_baseline_was_not_seen_there_is_a_limit_or_nothing() -> None:
    light = seen(plain, 1, 2, 4)
    (one,) = estimates(seen(drafting, 4, width=4.0), [light])
    assert (one.seconds, one.low, one.high) == (None, 0.0, None)
    assert one.most == pytest.approx(DRAFT + 2e-4 * 12)
    (heavy,) = estimates(seen(drafting, 2, width=4.0), [seen(plain, 8, 16)])
    assert (heavy.seconds, heavy.most) == (pytest.approx(DRAFT), None)
    (nothing,) = estimates(seen(drafting, 64, width=4.0), [light])
    assert (nothing.seconds, nothing.most) == (None, None)


def test_a_batch_just_beyond_the_last_one_seen_counts_as_it() -> None:
    (one,) = estimates(seen(drafting, 4, width=4.0), [seen(plain, 15.0)])
    assert one.seconds == pytest.approx(drafting(4) - plain(15))


def test_too_few_windows_tell_nothing() -> None:
    few = int(LEAST_WINDOWS) - 1
    assert estimates(seen(drafting, 4, width=4.0, windows=few), [BASELINE]) == []
    assert estimates(seen(drafting, 4, width=4.0), [seen(plain, 4, windows=few)]) == []
    assert estimates(seen(drafting, 4, width=4.0), []) == []


def test_several_baselines_are_taken_together() -> None:
    (one,) = estimates(seen(drafting, 4, width=4.0), [seen(plain, 8), seen(plain, 32)])
    assert one.seconds == pytest.approx(DRAFT)


def test_a_step_that_is_shorter_than_the_baselines_cannot_be_compared_with_it() -> None:
    (one,) = estimates(seen(lambda batch: plain(batch) / 2, 4, width=4.0), [BASELINE])
    assert (one.seconds, one.low, one.high, one.most) == (None, 0.0, None, None)
    # Verifying may well cost less than the baseline's pass over as many tokens.
    (cheap,) = estimates(seen(lambda batch: plain(batch) + 1e-4, 16, width=2.0), [BASELINE])
    assert (cheap.seconds, cheap.high) == (None, None)
    assert cheap.most == pytest.approx(1e-4, rel=1e-3)


def test_a_draft_never_takes_less_than_no_time() -> None:
    (exact,) = estimates(seen(lambda batch: plain(4 * batch), 4, width=4.0), [BASELINE])
    assert (exact.seconds, exact.low) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.0, abs=1e-12))
    below = seen(lambda batch: plain(4 * batch) * 0.999, 4, width=4.0, noise=0.05)
    (one,) = estimates(below, [seen(plain, 8, 16, 32, noise=0.05, seed=2)])
    assert one.seconds is not None
    assert one.high is not None
    assert 0.0 == one.low <= one.seconds <= one.high


def test_steps_that_prompts_alone_explain_tell_nothing() -> None:
    times = StepTimes()
    for number in range(40):
        times.add(StepWindow(4.0, 0.001 * number, 4.0, 100.0 * number))
    assert estimates(times, [BASELINE]) == []


def test_old_windows_are_forgotten() -> None:
    times = seen(lambda _: 1.0, 4, width=4.0, windows=10)
    for _ in range(int(3 * MEMORY)):
        times.add(StepWindow(4.0, drafting(4), 4.0, 0.0))
    (one,) = estimates(times, [BASELINE])
    assert one.seconds == pytest.approx(DRAFT, rel=0.3)
    assert one.windows < MEMORY


BEFORE = Counters(
    at=100.0, drafts=0.0, drafted=0.0, steps=1000.0, step_seconds=50.0, iterations=500.0, computed=0.0
)


def later(**given: float | None) -> StepWindow | None:
    fields: dict[str, float | None] = {
        "at": 110.0, "drafts": 400.0, "drafted": 1200.0, "steps": 1400.0, "step_seconds": 70.0,
        "iterations": 600.0, "computed": 5000.0,
    }  # fmt: skip
    return window(BEFORE, Counters(**{**fields, **given}))  # type: ignore[arg-type]


def test_a_window_of_counters_tells_batch_step_width_and_prompts() -> None:
    # 400 steps of sequences in 100 of the engine, 0.05 s each, 3 drafted in each, 50 prompt tokens an engine step.
    assert later() == pytest.approx(StepWindow(4.0, 0.05, 4.0, 50.0))


def test_without_iterations_the_batch_is_the_mean_number_of_sequences() -> None:
    assert later(iterations=None) == pytest.approx(StepWindow(2.0, 0.05, 4.0, 25.0))
    assert later(iterations=500.0, at=130.0) == pytest.approx(StepWindow(1.0, 0.05, 4.0, 12.5))


def test_iterations_that_several_processes_counted_do_not_hide_sequences() -> None:
    found = later(iterations=900.0, at=104.0)
    assert found is not None
    assert found.batch == pytest.approx(5.0)


def test_a_server_without_a_draft_computes_one_token_a_step() -> None:
    before = Counters(at=0.0, steps=0.0, step_seconds=0.0)
    after = Counters(at=10.0, steps=400.0, step_seconds=20.0)
    assert window(before, after) == pytest.approx(StepWindow(2.0, 0.05, 1.0, 0.0))


@pytest.mark.parametrize(
    "given",
    [
        {"steps": None}, {"step_seconds": None}, {"steps": 1010.0}, {"step_seconds": 50.0}, {"at": 100.0},
        {"drafts": None, "drafted": None}, {"drafted": None}, {"steps": 3.0}, {"steps": 900.0},
        {"drafted": -5.0}, {"computed": -5.0}, {"step_seconds": 40.0},
        # What no server can do.
        {"steps": 1e300, "step_seconds": 1e303}, {"step_seconds": 1e300}, {"drafted": 1e300}, {"computed": 1e300},
        {"at": 100.0 + 1e-9},
    ],
)  # fmt: skip
def test_a_window_that_tells_nothing_is_none(given: dict[str, float | None]) -> None:
    assert later(**given) is None
    assert (
        window(Counters(at=0.0, steps=None, step_seconds=1.0), Counters(at=1.0, steps=50.0, step_seconds=2.0))
        is None
    )
    assert window(Counters(at=0.0, steps=1.0), Counters(at=1.0, steps=50.0, step_seconds=2.0)) is None
