from __future__ import annotations

from itertools import count

import pytest

from backends.sim.closed_loop import closed_loop
from backends.sim.engine import Engine, Job
from backends.sim.profiles import configuration

BASELINE = configuration("google/gemma-4-31B-it", "none", 0)


def test_closed_loop_measures_whole_steps_after_the_warm_up() -> None:
    engine = Engine(BASELINE, seed=1)
    endless = (Job(str(number), "chat", prompt_tokens=1, max_tokens=10) for number in count())
    measured = closed_loop(engine, endless, clients=4, warm_up=1.0, window=5.0)
    assert 5.0 <= measured.seconds < 5.0 + BASELINE.step(4) + 4 * BASELINE.prefill_seconds
    assert measured.tokens_per_second == pytest.approx(4 / BASELINE.step(4), rel=0.1)
    assert measured.mean_accepted_length == 1.0
    assert measured.finished == pytest.approx(measured.tokens / 10, abs=4)


def test_closed_loop_needs_a_client() -> None:
    with pytest.raises(ValueError, match="at least one client"):
        closed_loop(Engine(BASELINE, seed=1), iter([]), clients=0, warm_up=0.0, window=1.0)
