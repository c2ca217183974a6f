from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gateway.core.predict import ServerModel, pace
from gateway.core.standing import Standing
from tests.factories import load, state

MODEL = ServerModel(fingerprint="f", step_seconds=(0.01, 0.01, 0.02, 0.04), measured=3.0)


def test_what_follows_from_a_state_is_worked_out_once() -> None:
    one = Standing(state(in_flight=1, model=MODEL), 0.0, 15.0)
    assert one.pace is one.pace
    assert one.pace == pace(MODEL, 1.0)
    assert [one.relief, one.relief] == [0.5, 0.5]
    assert one.doubt == one.doubt == pytest.approx(math.hypot(0.3 / 2.0, 0.8 * 3.0 / 10.0))


def test_paces_are_kept_while_the_model_is_the_same() -> None:
    one = Standing(state(in_flight=1, model=MODEL), 0.0, 15.0)
    pace_of_one = one.pace
    two = Standing(state(in_flight=2, model=MODEL), 0.0, 15.0, one)
    assert two.pace == pace(MODEL, 2.0)
    assert Standing(state(in_flight=1, model=MODEL), 0.0, 15.0, two).pace is pace_of_one
    other = replace(MODEL, prefill_seconds=1.0)
    assert Standing(state(in_flight=1, model=other), 0.0, 15.0, two).pace == pace(other, 1.0)


def test_replicas_have_one_configuration() -> None:
    learnt = [Standing(state(name, model=MODEL), 0.0, 15.0).configuration for name in "ab"]
    assert learnt == ["f", "f"]
    assert Standing(state(method="mtp"), 0.0, 15.0).configuration == "mtp"


@pytest.mark.parametrize(("used", "price"), [(None, 1.0), (0.5, 1.0), (0.8, 1.0), (0.9, 2.0), (0.95, 4.0)])
def test_seconds_get_dear_as_the_cache_fills(used: float | None, price: float) -> None:
    one = Standing(state(load=load(running=1, kv_usage=used, at=0.0)), 0.0, 15.0)
    assert one.cache_price == pytest.approx(price)
