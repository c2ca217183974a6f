import math

import pytest

from gateway.core.predict import ServerModel
from gateway.core.virtual import VirtualServer

# A step takes as many seconds as requests are on the server; nothing is lost at the start.
MODEL = ServerModel(step_seconds=tuple(float(n) for n in range(9)), start_steps=0.0, max_running=8)


def test_one_request_takes_its_steps():
    server = VirtualServer(MODEL)
    server.submit(1, 10.0, 0.0, now=5.0)
    server.advance(14.0)
    assert server.open == 1
    server.advance(math.inf)
    assert server.ended == {1: 15.0}
    assert server.open == 0


def test_two_share_the_steps():
    server = VirtualServer(MODEL)
    server.submit(1, 10.0, 0.0, now=0.0)
    server.submit(2, 5.0, 0.0, now=4.0)
    server.advance(math.inf)
    # From 4 on a step takes 2 s: 5 of them end the second, then one is left of the first.
    assert server.ended == {2: 14.0, 1: 15.0}


def test_a_prompt_holds_up_everybody():
    server = VirtualServer(MODEL)
    server.submit(1, 2.0, 0.0, now=0.0)
    server.submit(2, 1.0, 3.0, now=1.0)
    server.advance(2.0)
    assert server.open == 2
    server.advance(math.inf)
    assert server.ended == {1: 6.0, 2: 6.0}


def test_times_are_scaled_and_the_start_counts():
    server = VirtualServer(ServerModel(step_seconds=(1.0, 1.0), start_steps=2.0, max_running=1), level=2.0)
    server.submit(1, 3.0, 1.0, now=0.0)
    server.advance(math.inf)
    assert server.ended == {1: 2.0 + 5 * 2.0}


def test_those_that_wait_hold_up_all():
    model = ServerModel(step_seconds=(1.0, 1.0, 1.0), start_steps=0.0, max_running=2)
    server = VirtualServer(model)
    for number in range(4):
        server.submit(number, 10.0, 0.0, now=0.0)
    server.advance(math.inf)
    assert max(server.ended.values()) == pytest.approx(20.0)
