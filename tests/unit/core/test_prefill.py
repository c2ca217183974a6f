from __future__ import annotations

import random

import pytest

from gateway.core.predict import START_STEPS
from gateway.core.prefill import Prefill


def test_before_the_first_prompt_the_prior_is_believed() -> None:
    prefill = Prefill(1e-4)
    prefill.solve(1.0, prefill.rows(1.0))
    assert (prefill.seconds, prefill.start_steps, prefill.stretch(9.0)) == (1e-4, START_STEPS, 1.0)
    assert prefill.between(0.0, 9.0) == 0.0


def test_first_tokens_on_an_idle_server_tell_the_price_of_prompts() -> None:
    prefill, draws = Prefill(1e-4), random.Random(4)  # noqa: S311 - no secret
    for _ in range(60):
        tokens = draws.randrange(100, 4000)
        prefill.learn_start(1.5 * 0.02 + 2e-4 * tokens, 0.02, tokens, 0.0, 1.0)
        prefill.solve(1.0, prefill.rows(1.0))
    assert prefill.seconds == pytest.approx(2e-4, rel=0.05)
    assert prefill.start_steps == pytest.approx(1.5, abs=0.5)


def test_spans_tell_it_too_and_slow_steps_are_not_taken_for_dear_prompts() -> None:
    prefill, draws = Prefill(1e-4), random.Random(5)  # noqa: S311 - no secret
    prefill.learn_start(0.03, 0.02, 0, 9.0, 1.0)
    for _ in range(100):
        tokens = draws.randrange(3000)
        prefill.learn_span(1.3 * 50 * 0.02 + 1e-4 * tokens, 50 * 0.02, tokens, 1.0)
    prefill.solve(1.0, prefill.rows(1.0))
    assert prefill.seconds == pytest.approx(1e-4, rel=0.1)


def test_spans_whose_prompts_are_known_only_about_do_not_make_prompts_cheap() -> None:
    prefill, draws = Prefill(1e-4), random.Random(6)  # noqa: S311 - no secret
    prefill.learn_start(0.03, 0.02, 0, 9.0, 1.0)
    for _ in range(1000):
        known = 5000 * draws.uniform(0.7, 1.3)
        prefill.learn_span(50 * 0.02 + 1e-4 * 5000 * draws.uniform(0.95, 1.05), 50 * 0.02, int(known), 1.0)
    prefill.solve(1.0, prefill.rows(1.0))
    assert prefill.seconds == pytest.approx(1e-4, rel=0.2)


def test_prompts_that_were_computed_in_a_time_are_counted() -> None:
    prefill = Prefill(1e-4)
    for at in (1.0, 2.0, 3.0):
        prefill.add(at, 100)
    prefill.add(3.5, 0)
    assert prefill.between(1.5, 3.0) == 200.0
    assert prefill.between(0.0, 0.5) == 0.0
    assert prefill.between(3.0, 9.0) == 0.0


def test_a_long_prompt_is_spread_over_the_time_that_it_takes() -> None:
    prefill = Prefill(1e-4)
    prefill.add(10.0, 5000)
    assert prefill.between(9.5, 9.75) == pytest.approx(2500)
    assert prefill.between(9.6, 9.7) == pytest.approx(1000)
    assert prefill.between(9.75, 11.0) == pytest.approx(2500)
    prefill.add(20.0, 5000, 0.25)
    assert prefill.between(19.0, 19.75) == 0.0
    assert prefill.between(19.75, 19.875) == pytest.approx(2500), "no longer than its first token took"


def test_beside_an_even_stream_of_prompts_a_server_is_as_slow_at_them_as_at_steps() -> None:
    prefill = Prefill(1e-4)
    prefill.learn_start(0.03, 0.02, 0, 9.0, 1.0)
    for _ in range(100):
        prefill.learn_span(1.5 * (1.0 + 1e-4 * 8000), 1.0, 8000, 1.0)
    prefill.solve(1.0, prefill.rows(1.0))
    assert prefill.seconds == pytest.approx(1.5e-4, rel=0.08)


def test_and_the_more_so_once_its_steps_are_known() -> None:
    prefill = Prefill(1e-4)
    prefill.learn_start(0.03, 0.02, 0, 9.0, 1.0)
    for _ in range(100):
        prefill.learn_span(1.5 * (1.0 + 1e-4 * 8000), 1.5, 8000, 1.0)
    prefill.solve(1.5, prefill.rows(1.5))
    assert prefill.seconds == pytest.approx(1.5e-4, rel=0.02)


def test_replicas_tell_each_other_what_prompts_cost() -> None:
    """One has an even stream of prompts, so that it cannot tell them from slow steps; the other's vary."""
    even, varied, slow = Prefill(1e-4), Prefill(1e-4), Prefill(1e-4)
    for prefill in (even, varied, slow):
        prefill.learn_start(0.03, 0.02, 0, 9.0, 1.0)
    for at in range(100):
        even.learn_span(1.0 + 2e-4 * 3000, 1.0, 3000, 1.0)
        varied.learn_span(1.0 + 2e-4 * 30 * at, 1.0, 30 * at, 1.0)
    even.solve(1.0, even.rows(1.0))
    alone = even.seconds
    known = even.rows(1.0) + varied.rows(1.0)
    even.solve(1.0, known)
    assert abs(even.seconds - 2e-4) < 0.5 * abs(alone - 2e-4)
    slow.solve(2.0, known)
    assert slow.seconds == pytest.approx(2.0 * even.seconds), "one that is slower is so at prompts, too"


def test_old_prompts_are_forgotten() -> None:
    prefill = Prefill(1e-4)
    for at in range(2000):
        prefill.add(float(at), 10)
    assert len(prefill._times) < 1000
    assert prefill.between(1990.0, 1999.0) == 90.0


def test_many_prompts_in_a_short_time_do_not_pile_up() -> None:
    prefill, most = Prefill(1e-4), 0
    for number in range(20_000):
        prefill.add(number / 1000, 1)
        most = max(most, len(prefill._times))
    assert most < 10_000
    assert prefill.between(19.0, 20.0) == pytest.approx(1000, abs=1)


def test_decoding_takes_longer_beside_prompts_of_late() -> None:
    prefill = Prefill(1e-4)
    for at in range(100):
        prefill.add(float(at), 2500)
    busy = prefill.stretch(99.0)
    assert busy == pytest.approx(1.0 / 0.75, rel=0.05)
    assert 1.0 < prefill.stretch(130.0) < busy
    for at in range(100, 200):
        prefill.add(float(at), 25_000)
    assert prefill.stretch(199.0) == pytest.approx(5.0), "never without end"


def test_an_estimate_is_put_right_later() -> None:
    prefill = Prefill(1e-4)
    prefill.add(1.0, 100)
    prefill.add(3.0, 100)
    prefill.add(1.0, -40)
    prefill.add(0.5, 7)
    assert prefill.between(0.6, 1.0) == 60.0
    assert prefill.between(0.0, 0.6) == 7.0
    assert prefill.between(2.0, 3.0) == 100.0
