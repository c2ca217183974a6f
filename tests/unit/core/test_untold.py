import math

import pytest

from gateway.core.predict import ServerModel
from gateway.core.standing import STEP_SPREAD
from gateway.core.untold import FEW, Stay, untold

MODELS = {"a": ServerModel(), "b": ServerModel(spread={"math": 0.1}, other_spread=0.2)}


def stays(count, backend="a", load=4, seconds=1.0, label="chat"):
    return [Stay(label, backend, load, seconds)] * count


def widest(*parts):
    """Of standard deviations that have nothing to do with each other."""
    return 1.96 * math.hypot(*parts)


@pytest.mark.parametrize(("load", "counted"), [(1, 0), (2, 5), (4, 5), (8, 5), (9, 0)])
def test_logged_requests_tell_of_about_their_load(load, counted):
    found = untold(stays(5), stays(1, load=load), MODELS)
    assert found.error == pytest.approx(widest(STEP_SPREAD / math.sqrt(1.0 + counted)))


def test_requests_on_one_server_are_wrong_by_the_same_factor():
    one, many = (untold([], stays(count), MODELS).error for count in (1, 100))
    assert one == pytest.approx(many)
    both = untold([], [*stays(50), *stays(50, "b", label="math", seconds=3.0)], MODELS)
    assert both.error == pytest.approx(widest(STEP_SPREAD / 2.0, 3.0 * STEP_SPREAD / 2.0, 0.3 / 2.0))


def test_what_a_draft_accepts_of_a_workload_may_be_wrong():
    well_known = stays(10_000, "b")
    math_, other = (untold(well_known, stays(1, "b", label=label), MODELS) for label in ("math", "rag"))
    assert math_.error == pytest.approx(widest(0.1), rel=0.01)
    assert other.error == pytest.approx(widest(0.2), rel=0.01)


@pytest.mark.parametrize(("logged", "requests"), [(0, 3), (FEW - 1, 3), (FEW, 0)])
def test_requests_that_the_log_has_few_like_are_counted(logged, requests):
    assert untold(stays(logged), stays(3), MODELS).requests == requests
