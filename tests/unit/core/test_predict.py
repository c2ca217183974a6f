from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.predict import (
    GREEDY,
    PROMPT_BINS,
    SAMPLED,
    STRUCTURED,
    Ask,
    Cell,
    ServerModel,
    ask,
    pace,
    predict,
    prompt_bin,
    stratum,
)
from tests.factories import classification, features

CODE = Cell("code", 0, SAMPLED)
MATH = Cell("math", 0, SAMPLED)
MODEL = ServerModel(
    steps_per_token={CODE: 0.25, MATH: 0.5},
    step_seconds=(0.010, 0.010, 0.012, 0.020),
    prefill_seconds=0.001,
    output_tokens={"code": 400.0, "math": 600.0},
    mean_steps=100.0,
    max_running=4,
)


def test_bins_of_prompts_begin_at_their_edges() -> None:
    assert [prompt_bin(edge - 1) for edge in PROMPT_BINS] == [0, 1, 2]
    assert [prompt_bin(edge) for edge in PROMPT_BINS] == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"temperature": 0.0}, GREEDY),
        ({"temperature": 0.7}, SAMPLED),
        ({}, SAMPLED),
        ({"response_format": "json_schema", "temperature": 0.0}, STRUCTURED),
        ({"tool_choice": "required"}, STRUCTURED),
        ({"tool_choice": "auto"}, SAMPLED),
    ],
)
def test_how_the_answer_is_sampled_tells_strata_apart(given: dict[str, object], expected: str) -> None:
    assert stratum(features(**given)) == expected


def test_a_step_takes_what_the_table_says_and_goes_on_as_it_ends() -> None:
    assert MODEL.step(1) == 0.010
    assert MODEL.step(1.5) == pytest.approx(0.011)
    assert MODEL.step(3) == 0.020
    assert MODEL.step(5) == pytest.approx(0.036)
    assert ServerModel(step_seconds=(0.02, 0.01)).step(9) == 0.01, "it never gets faster without end"


def test_the_seconds_are_those_of_the_formula() -> None:
    found = predict(MODEL, Ask(((CODE, 1.0),), 100, 0, None), queue=1.0)
    assert found.ttft == pytest.approx(0.1 + 1.5 * 0.012)
    assert found.tpot == pytest.approx(0.25 * 0.012)
    assert found.completion == pytest.approx(found.ttft + 100 * 0.012)
    lost = 1 / 6 + 1 / 36 + 1 / 216
    assert found.harm == pytest.approx(lost * (100 * 0.012 + 0.1) + (1 + lost) * 0.1)


def test_the_prefix_cache_spares_prefill() -> None:
    one = Ask(((CODE, 1.0),), 100, 0, None)
    assert predict(MODEL, one, 0.0).ttft - predict(MODEL, one, 0.0, 60.0).ttft == pytest.approx(0.06)
    assert predict(MODEL, one, 0.0, 1000.0).ttft == pytest.approx(1.5 * 0.010)


def test_classes_count_by_their_probability() -> None:
    mixed = predict(MODEL, Ask(((CODE, 0.5), (MATH, 0.5)), 0, 0, None), 0.0)
    assert mixed.completion == pytest.approx(1.5 * 0.01 + 0.01 * (0.5 * 100 + 0.5 * 300))
    assert mixed.tpot == pytest.approx(0.01 * 200 / 500)


def test_the_limit_of_the_request_limits_the_answer() -> None:
    short = predict(MODEL, Ask(((MATH, 1.0),), 0, 0, 10), 0.0)
    assert short.completion == pytest.approx(1.5 * 0.01 + 5 * 0.01)


def test_a_class_that_is_not_known_gets_the_mean_and_characters_become_tokens() -> None:
    other = Cell("poetry", 0, SAMPLED)
    found = predict(MODEL, Ask(((other, 1.0),), None, 400, None), 0.0)
    assert found.completion == pytest.approx(100 * 0.001 + 1.5 * 0.01 + 300 * 0.01)


def test_who_does_not_fit_into_the_batch_waits() -> None:
    one = Ask(((CODE, 1.0),), 0, 0, None)
    full, over = predict(MODEL, one, 3.0), predict(MODEL, one, 5.0)
    step = MODEL.step(4)
    assert over.ttft - full.ttft == pytest.approx(2 * 100 * step / 4)
    assert over.harm == full.harm


def test_what_others_lose_is_taken_from_the_crowding_where_it_is_known() -> None:
    jumps = replace(MODEL, crowding=(0.5, 1.5))
    lost = [10.0 * pace(jumps, queue).harm_step for queue in (0.0, 1.0, 9.0)]
    assert lost == pytest.approx([5.2, 15.24, 15.56]), (
        "and twice more what a step takes at most: near saturation this is mostly noise"
    )


def test_a_request_meets_a_load_between_that_of_now_and_the_usual_one() -> None:
    assert pace(replace(MODEL, usual=3.0), 1.0) == pace(MODEL, 2.0)
    assert pace(replace(MODEL, usual=1.0), 1.0) == pace(MODEL, 1.0)
    assert pace(replace(MODEL, usual=99.0), 1.0) == pace(MODEL, 3.0), "never more than are batched"


def test_a_cliff_that_is_near_now_is_one_however_low_the_load_usually_is() -> None:
    cliff = replace(MODEL, usual=0.0, crowding=(0.0, 0.0, 0.04))
    held = 0.04 / cliff.step(3.0)
    assert pace(cliff, 2.0).harm_step == pytest.approx((held + 1.0 + 1.0) * cliff.step(2.0))


def test_who_waits_waits_for_those_before_it_however_few_there_usually_are() -> None:
    wait = 1.0 * MODEL.mean_steps * MODEL.step(2.5) / 4
    found = pace(replace(MODEL, usual=0.0), 4.0)
    assert found.start == pytest.approx(wait + MODEL.start_steps * MODEL.step(2.5))


def test_servers_time_costs_the_same_whatever_it_is_used_for() -> None:
    at = pace(replace(MODEL, stretch=1.5), 2.0)
    assert (at.prompt_token + at.harm_prompt_token) / (at.step + at.harm_step) == pytest.approx(
        3 * 0.001 / 0.020
    )


def test_where_more_requests_make_steps_shorter_prompts_still_hold_up_the_others() -> None:
    falling = replace(MODEL, step_seconds=(0.02, 0.02, 0.02, 0.01))
    at = pace(falling, 2.0)
    assert at.harm_step == pytest.approx(-0.02)
    assert at.harm_prompt_token == pytest.approx((2 - 2) * 0.001)


def test_a_request_for_nothing_is_not_divided_by_zero() -> None:
    assert predict(MODEL, Ask((), 0, 0, None), 0.0).tpot == 0.010


def test_what_is_asked_keeps_the_likely_classes() -> None:
    sure = classification("code", 1.0)
    assert ask(features(prompt_chars=400), sure).classes == ((CODE, 1.0),)
    from gateway.core.classify import Classification

    doubtful = Classification("code", 0.6, "model:m", {"code": 0.6, "math": 0.2, "chat": 0.01})
    assert ask(features(), doubtful).classes == ((CODE, pytest.approx(0.75)), (MATH, pytest.approx(0.25)))
    unsure = Classification("code", 0.4, "default", {"math": 0.4, "chat": 0.6})
    assert ask(features(), unsure).classes == ((CODE, 1.0),)
    long = ask(features(prompt_chars=40_000, max_tokens=7), sure)
    assert (long.classes[0][0].bin, long.max_tokens, long.prompt_chars) == (2, 7, 40_000)
