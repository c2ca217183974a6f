"""What failures do to the requests after them: the way from an attempt to the fleet and back."""

import asyncio

import pytest

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.policy import Timeouts
from tests.asgi import Conversation
from tests.relaying import Bench, body
from tests.scripted import NEVER, answer, fails, stream

pytestmark = pytest.mark.usefixtures("piped")

WORD = b'data: {"id":"c","choices":[{"delta":{"content":"x"},"finish_reason":null}]}\n\n'
DONE = b'data: {"id":"c","choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
BAD = b'{"error":{"message":"min_p","code":400}}'


def bench(*, breaker=None, retries=None, **acts):
    one = Bench(**acts)
    one.fleet.govern(breaker or BreakerSettings(), retries or BudgetSettings())
    return one


def state(one, name="a"):
    return next(each for each in one.fleet.snapshot.states if each.backend.name == name)


async def test_a_bad_request_is_one_upstream_call_and_a_hundred_take_nobody_out():
    one = bench(a=[answer(BAD, 400) for _ in range(100)], b=[])
    for _ in range(100):
        client = await one.talk(body())
        assert (client.status, client.body) == (400, BAD)
    assert one.upstream.order == ["a"] * 100
    assert state(one).breaker.phase(0.0) == "closed"


async def test_a_bad_request_that_is_told_in_a_stream_takes_nobody_out():
    event = b'data: {"error":{"message":"no such choice","type":"BadRequestError","code":400}}\n\n'
    one = bench(a=[stream(event, DONE), stream(DONE)], b=[], breaker=BreakerSettings(consecutive=1))
    client = await one.talk()
    assert client.body.startswith(event)
    assert one.records[0].outcome.status == "client_error"
    await one.talk()
    assert one.upstream.order == ["a", "a"]


async def test_a_backend_that_keeps_failing_is_left_out_of_the_next_requests():
    failing = [fails("sent", "reset") for _ in range(3)]
    one = bench(a=failing, b=[answer() for _ in range(9)], breaker=BreakerSettings(consecutive=3, open=600.0))
    for _ in range(9):
        assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "b"] * 3 + ["b"] * 6
    assert one.records[-1].decision.rejected[0].reason == "breaker_open"


async def test_what_breaks_off_in_the_middle_counts_too():
    one = bench(
        a=[stream(WORD, fails("first_byte", "reset").before[0])],
        b=[stream(DONE)],
        breaker=BreakerSettings(consecutive=1, open=600.0),
    )
    await one.talk()
    await one.talk()
    assert one.upstream.order == ["a", "b"]


async def test_a_backend_that_cannot_be_connected_to_is_out_at_once():
    one = bench(a=[fails("connect", "connect")], b=[answer(), answer()])
    for _ in range(2):
        assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "b", "b"]
    assert one.records[-1].decision.rejected[0].reason == "unhealthy"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_backend_is_left_alone_for_as_long_as_it_asked(status):
    busy = answer(b"busy", status, headers=[(b"retry-after", b"30")])
    one = bench(a=[busy], b=[answer(), answer()], breaker=BreakerSettings(consecutive=1))
    for _ in range(2):
        assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "b", "b"]
    assert one.records[0].attempts[0].retry_after == 30.0
    assert one.records[-1].decision.rejected[0].reason == "retry_after"
    assert state(one).breaker.phase(0.0) == "closed"


async def test_when_all_have_asked_to_be_left_alone_the_client_is_told_how_long():
    def busy(seconds):
        return answer(b"busy", 429, headers=[(b"retry-after", seconds)])

    one = bench(a=[busy(b"30")], b=[busy(b"20")])
    client = await one.talk(body())
    assert (client.status, client.headers[b"retry-after"]) == (429, b"20")
    client = await one.talk(body())
    assert client.status == 429
    assert 1 < int(client.headers[b"retry-after"]) <= 20
    assert one.upstream.order == ["a", "b"]


async def test_retry_after_of_other_answers_is_not_heeded():
    one = bench(a=[answer(b"no", 404, headers=[(b"retry-after", b"30")]), answer()], b=[])
    await one.talk(body())
    assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "a"]


async def test_a_request_that_makes_servers_fail_reaches_two_of_them():
    one = bench(a=[answer(b"poison", 500)], b=[answer(b"poison", 500)], c=[answer()])
    client = await one.talk(body())
    assert (client.status, client.body) == (500, b"poison")
    assert one.upstream.order == ["a", "b"]


async def test_a_storm_of_failures_does_not_double_the_load():
    one = bench(
        a=[answer(b"down", 502) for _ in range(50)],
        b=[answer() for _ in range(50)],
        breaker=BreakerSettings(consecutive=1000, min_requests=1000),
        retries=BudgetSettings(share=0.1, per_second=0.0, burst=5),
    )
    statuses = [(await one.talk(body())).status for _ in range(50)]
    assert statuses.count(200) == len(one.upstream.order) - 50 <= 5 + 0.1 * 50
    assert statuses.count(502) == one.fleet.denied == 50 - statuses.count(200) >= 40


async def test_nothing_is_left_open_whatever_failed():
    one = bench(a=[fails("sent", "reset")], b=[answer(b"x", 503)], c=[answer(b"y", 500)])
    await one.talk(body())
    assert one.upstream.order == ["a", "b", "c"]
    assert one.idle


def fails_to_read(*_):
    raise ArithmeticError


async def test_nothing_is_left_open_where_an_answer_cannot_even_be_read(monkeypatch):
    monkeypatch.setattr("gateway.wire.headers.retry_after", fails_to_read)
    one = bench(a=[answer(b"x", 503)])
    assert (await one.talk(body())).status == 500
    assert (one.record.outcome.status, one.record.outcome.error) == ("rejected", "internal_error")
    assert one.idle
    assert one.record.attempts[0].status == 503


@pytest.mark.parametrize("wanted", [True, False], ids=["stream", "whole"])
async def test_a_request_that_left_a_backend_no_time_does_not_count_against_it(wanted):
    one = bench(
        timeouts=Timeouts(total=0.6), a=[stream(before=[NEVER])] * 2, breaker=BreakerSettings(consecutive=1)
    )
    late = Conversation(one.relay, body=None)
    late.say(body(stream=wanted)[:-1], more=True)
    await asyncio.sleep(0.3)  # half of its time
    late.say(b"}")
    await late.end()
    assert late.status == 504
    assert one.record.attempts[0].error == "timeout:deadline"
    assert state(one).breaker.phase(0.0) == "closed"
    await one.talk(body(stream=wanted))
    assert one.records[1].attempts[0].error == "timeout:total"
    assert state(one).breaker.phase(0.0) == "open"


async def test_a_backend_that_gets_what_others_left_does_not_pay_for_them():
    silent = [stream(before=[NEVER])]
    one = bench(
        timeouts=Timeouts(total=0.3, first_byte=0.2),
        a=silent,
        b=list(silent),
        breaker=BreakerSettings(consecutive=1),
    )
    await one.talk()
    assert [attempt.error for attempt in one.record.attempts] == ["timeout:first_byte", "timeout:deadline"]
    assert state(one, "a").breaker.phase(0.0) == "open"
    assert state(one, "b").breaker.phase(0.0) == "closed"


async def test_a_request_that_took_all_its_time_to_arrive_is_answered_and_not_sent():
    one = bench(timeouts=Timeouts(total=0.0), a=[])
    client = await one.talk(body())
    assert (client.status, client.complete) == (408, True)
    assert one.upstream.order == []
    assert one.record.outcome.status == "client_error"
