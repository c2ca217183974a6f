from __future__ import annotations

import numpy as np
import pytest

from gateway.policy.evidence import Measurement, Range
from gateway.policy.pace import fit

STEP = {1: 0.02, 8: 0.03, 32: 0.05}
PREFILL = 80e-6
WORKLOADS = {"code": (4.0, 300.0, 400.0), "chat": (2.0, 600.0, 350.0), "tool_use": (2.5, 1500.0, 120.0)}
"""Accepted length, prompt and answer."""


def cell(workload: str, level: int, *, error: float = 0.0, **more) -> Measurement:
    """What a server of this pace shows with so many requests that all decode."""
    accepted, prompt, answer = WORKLOADS[workload]
    tpot = (STEP[level] / accepted + (level - 1) * PREFILL * prompt / answer) * (1.0 + error)
    rate = level / tpot
    fields = {
        "tokens_per_second": Range(
            value=rate, low=rate * (1 - abs(error) - 0.02), high=rate * (1.02 + abs(error))
        ),
        "tpot": Range(value=tpot),
        "mean_accepted_length": accepted,
        "prompt_tokens": prompt,
        "output_tokens": answer,
    }
    return Measurement(
        method="mtp", draft_tokens=3, workload=workload, concurrency=level, requests=32, **{**fields, **more}
    )


def every(**more) -> list[Measurement]:
    return [cell(workload, level, **more) for workload in WORKLOADS for level in STEP]


def test_steps_and_prompts_are_told_apart() -> None:
    found = fit(every())
    assert found is not None
    assert found.step == pytest.approx(STEP)
    assert found.prefill == pytest.approx(PREFILL)
    assert found.steps == pytest.approx({"code": 0.25, "chat": 0.5, "tool_use": 0.4})


def test_cells_that_were_left_out_follow_from_the_others() -> None:
    seen = [one for one in every() if (one.workload, one.concurrency) not in {("chat", 32), ("code", 8)}]
    found = fit(seen)
    assert found is not None
    assert found.step == pytest.approx(STEP)


def test_a_cell_that_is_not_exact_counts_little() -> None:
    rough = [one for one in every() if (one.workload, one.concurrency) != ("tool_use", 8)]
    found = fit([*rough, cell("tool_use", 8, error=0.3)])
    assert found is not None
    assert found.step[8] == pytest.approx(STEP[8], rel=0.03)


def test_what_chance_spared_a_cell_in_steps_is_not_taken_for_a_faster_step() -> None:
    lucky = cell("chat", 8)
    accepted = 2.0 * 1.1
    tpot = STEP[8] / accepted + 7 * PREFILL * 600.0 / 350.0
    told = lucky.model_copy(
        update={
            "mean_accepted_length": accepted,
            "tpot": Range(value=tpot),
            "tokens_per_second": Range(value=8 / tpot),
        }
    )
    found = fit([told if one == lucky else one for one in every()])
    assert found is not None
    assert found.step == pytest.approx(STEP, rel=1e-6)
    assert found.steps["chat"] == pytest.approx(0.5, rel=0.05)


def test_a_cell_whose_clients_wait_for_their_first_token_counts_little() -> None:
    waiting = cell("tool_use", 32)
    tpot = 1.3 * waiting.tpot.value
    rate = 0.6 * 32 / tpot
    queued = waiting.model_copy(
        update={
            "tpot": Range(value=tpot),
            "tokens_per_second": Range(value=rate, low=rate * 0.98, high=rate * 1.02),
        }
    )
    found = fit([queued if one == waiting else one for one in every()])
    assert found is not None
    assert found.prefill == pytest.approx(PREFILL, rel=0.05)
    assert found.step == pytest.approx(STEP, rel=0.05)


def test_the_first_token_of_a_request_alone_says_what_prompts_cost() -> None:
    alone = [cell(name, 1, ttft_p50=STEP[1] + PREFILL * prompt) for name, (_, prompt, _) in WORKLOADS.items()]
    found = fit(alone)
    assert found is not None
    assert found.prefill == pytest.approx(PREFILL)


def test_steps_lie_straight_between_loads_and_rates_grow_no_more_beyond_them() -> None:
    found = fit(every())
    assert found is not None
    low, middle, high, beyond = found.seconds(np.array([1.0, 16.0, 32.0, 64.0])).tolist()
    assert (low, high, beyond) == pytest.approx((0.02, 0.05, 0.1))
    assert middle == pytest.approx(np.sqrt(0.03 * 0.05))


def test_without_acceptance_seconds_a_token_stand_for_steps() -> None:
    found = fit(every(mean_accepted_length=None))
    assert found is not None
    assert found.steps["code"] == 1.0
    told = found.steps["chat"] * found.step[1]
    assert told == pytest.approx(cell("chat", 1).tpot.value, rel=0.05)


def test_acceptance_of_some_workloads_alone_is_passed_over() -> None:
    cells = [
        one.model_copy(update={"mean_accepted_length": None}) if one.workload == "code" else one
        for one in every()
    ]
    assert fit(cells) == fit(every(mean_accepted_length=None))


def test_where_prompts_seem_to_cost_nothing_steps_are_all() -> None:
    cells = [cell("code", level, prompt_tokens=None, tpot=None) for level in (1, 32)]
    found = fit(cells)
    assert found is not None
    assert found.prefill == 0.0
    assert found.step[1] == pytest.approx(4.0 / cells[0].tokens_per_second.value)


def test_one_cell_alone_does_not_tell_what_its_prompts_cost() -> None:
    found = fit([cell("code", 8)])
    assert found is not None
    assert found.prefill == 0.0
    assert found.step[8] * 0.25 == pytest.approx(cell("code", 8).tpot.value)


def test_the_time_to_the_first_token_tells_of_prompts_where_nothing_else_does() -> None:
    first = STEP[1] + PREFILL * 300.0
    found = fit([cell("code", 1, ttft_p50=first)])
    assert found is not None
    assert found.prefill == pytest.approx(PREFILL, rel=0.01)


def test_nothing_has_no_pace() -> None:
    assert fit([]) is None


def test_bounds_that_are_missing_are_usual_ones() -> None:
    found = fit(every(tokens_per_second=Range(value=100.0)))
    assert found is not None
    assert set(found.step) == set(STEP)
