import numpy as np
import pytest

from backends.fleetsim.draws import Draws, steps_per_token
from backends.sim.spread import thresholds

CURVE = (0.8, 0.6, 0.3)


def one_by_one(draws, limits, factor, place, tokens):
    """Steps as a server takes them, draw after draw."""
    steps = made = 0
    while made < tokens:
        uniform = draws._uniform[(place + steps) % draws.size]
        made += 1 + sum(uniform < limit * factor for limit in limits)
        steps += 1
    return steps, made


@pytest.mark.parametrize("place", [0, 17, 250, 255])
@pytest.mark.parametrize("tokens", [1, 2, 100, 2000])
def test_steps_are_those_of_draw_after_draw(place, tokens):
    draws = Draws(3, size=256, levels=4)
    table = draws.table(CURVE, 0.2, 2)
    limits, factor = thresholds(CURVE, 0.2), draws.factor(2, 0.2)
    steps, made = one_by_one(draws, limits, factor, place, tokens)
    assert draws.steps(table, place, tokens) == steps
    assert draws.tokens(table, place, steps) == made


def test_without_drafts_each_step_gives_a_token():
    draws = Draws(1)
    assert draws.table((), 0.2, 0) is None
    assert draws.steps(None, 5, 40) == 40
    assert draws.tokens(None, 5, 40) == 40


def test_over_all_draws_acceptance_is_the_curves():
    draws = Draws(9)
    steps = draws.size
    gained = [draws.tokens(draws.table(CURVE, 0.2, level), 0, steps) for level in range(draws.levels)]
    # Weighed by steps, as a server's counters are: requests that accept little take more of them.
    lengths = np.array(gained) / steps
    assert 1 / np.mean(1 / lengths) == pytest.approx(1 + sum(CURVE), rel=2e-3)
    assert np.mean(1 / lengths) == pytest.approx(steps_per_token(CURVE, 0.2), rel=1e-3)


def test_steps_per_token_without_drafts_is_one():
    assert steps_per_token((), 0.2) == 1.0
