"""What operators see of servers that are out."""

from types import SimpleNamespace

import pytest

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.outcome import Attempt
from gateway.runtime import clock
from gateway.runtime.fleet import Fleet
from gateway.wire.control import Control
from tests.factories import backend, policy


@pytest.fixture
def fleet():
    one = Fleet([backend("a", max_in_flight=8)], "fleet-1")
    one.govern(BreakerSettings(consecutive=1, open=50.0), BudgetSettings(burst=7))
    return one


@pytest.fixture
def control(fleet):
    config = SimpleNamespace(policy=policy(), fleet=SimpleNamespace(revision="fleet-1", backends=()))
    configuration = SimpleNamespace(config=config, warnings=(), problems=())
    return Control(configuration, fleet, classifier=None, exposition=bytes, exposition_type="", seed=0)


async def shown(control):
    [one] = (await control.status())["fleet"]["backends"]
    return one


async def ready(control):
    return (await control.readyz()).status_code


def attempt(error, status=0, **given):
    now = clock.monotonic()
    return Attempt("a", "first_byte", error, status, now, now, **given)


async def test_a_server_that_takes_requests(control):
    one = await shown(control)
    assert (one["available"], one["healthy"], one["unavailable"], one["reason"]) == (True, True, None, "")
    assert (one["breaker"], one["trips"], one["back_in_seconds"]) == ("closed", 0, 0.0)
    assert (one["limit"], one["max_in_flight"]) == (8, 8)
    assert await ready(control) == 200


async def test_a_server_that_a_probe_took_out(control, fleet):
    fleet.down("a", "/health answered 503")
    one = await shown(control)
    assert (one["available"], one["healthy"], one["unavailable"]) == (False, False, "unhealthy")
    assert one["reason"] == "/health answered 503"
    assert await ready(control) == 503
    fleet.up("a")
    assert (await shown(control))["limit"] == 1


async def test_a_server_whose_breaker_is_open(control, fleet):
    fleet.dispatched("a")
    fleet.finished("a", attempt("reset"))
    one = await shown(control)
    assert (one["available"], one["healthy"], one["unavailable"]) == (False, True, "breaker_open")
    assert (one["breaker"], one["trips"]) == ("open", 1)
    assert 0.0 < one["back_in_seconds"] <= 50.0
    assert await ready(control) == 503


async def test_a_server_that_asked_to_be_left_alone(control, fleet):
    fleet.dispatched("a")
    fleet.finished("a", attempt("status:429", 429, retry_after=30.0))
    one = await shown(control)
    assert (one["unavailable"], one["breaker"]) == ("retry_after", "closed")
    assert 0.0 < one["back_in_seconds"] <= 30.0


async def test_the_budget_of_further_attempts(control, fleet):
    assert (await control.status())["retries"] == {"left": 7.0, "denied": 0}
    fleet.denied = 3
    assert (await control.status())["retries"]["denied"] == 3
