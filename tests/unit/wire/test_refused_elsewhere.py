"""Requests that one backend refuses and another one takes: no refusal reaches the client that another would not give."""

import json

import pytest

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.fleet import Backend
from gateway.core.refused import TIMES
from tests.relaying import Bench, body
from tests.scripted import answer, fails, stream

pytestmark = pytest.mark.usefixtures("piped")

NO = b'{"error":{"message":"min_p and logit_bias are not yet supported","code":400}}'
NO_EITHER = b'{"error":{"message":"nor do I","code":400}}'
DONE = b'data: {"id":"c","choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
NO_EVENT = b'data: {"error":{"message":"no tools","type":"BadRequestError","code":400}}\n\n'


def backend(name, method="none", **given):
    return Backend(
        name, f"http://{name}", "target", "m", method, draft_tokens=0 if method == "none" else 3, **given
    )


NGRAM, EAGLE, BASELINE = backend("a", "ngram"), backend("b", "eagle3"), backend("c")


def bench(*backends, **acts):
    return Bench(backends=backends, **acts)


@pytest.mark.parametrize("status", [400, 404, 413, 422, 501])
async def test_what_one_kind_of_server_refuses_another_is_asked_for(status):
    one = bench(NGRAM, BASELINE, a=[answer(NO, status)], c=[answer()])
    client = await one.talk(body())
    assert (client.status, client.headers[b"x-specroute-backend"]) == (200, b"c")
    assert [attempt.error for attempt in one.record.attempts] == [f"status:{status}", ""]
    assert one.record.outcome.status == "ok"
    assert one.idle


async def test_a_refusal_within_a_stream_is_one_too():
    one = bench(NGRAM, BASELINE, a=[stream(NO_EVENT, DONE)], c=[stream(DONE)])
    client = await one.talk()
    assert (client.status, client.body) == (200, DONE)


async def test_the_baseline_is_asked_first_as_it_refuses_least():
    one = bench(NGRAM, EAGLE, BASELINE, a=[answer(NO, 400)], b=[], c=[answer()])
    assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "c"]


async def test_kinds_are_asked_in_turn_until_one_takes_it():
    one = bench(NGRAM, EAGLE, BASELINE, a=[answer(NO, 400)], b=[answer()], c=[answer(NO, 400)])
    assert (await one.talk(body())).status == 200
    assert one.upstream.order == ["a", "c", "b"]


@pytest.mark.parametrize("given", [{}, {"stream": True}])
async def test_when_all_refuse_the_client_gets_the_first_refusal(given):
    one = bench(NGRAM, BASELINE, a=[answer(NO, 400)], c=[answer(NO_EITHER, 422)])
    client = await one.talk(body(**given))
    assert (client.status, client.body, client.headers[b"x-specroute-backend"]) == (400, NO, b"a")
    outcome = one.record.outcome
    assert (outcome.status, outcome.error, one.record.backend) == ("client_error", "status:400", "a")


async def test_a_refusal_says_more_than_the_failure_of_another():
    one = bench(NGRAM, BASELINE, a=[answer(NO, 400)], c=[fails("sent", "reset")])
    client = await one.talk(body())
    assert (client.status, client.body) == (400, NO)


@pytest.mark.parametrize("alike", [backend("b", "ngram"), backend("b", "ngram", labels={"rack": "2"})])
async def test_servers_of_one_kind_are_not_asked_again(alike):
    one = bench(NGRAM, alike, a=[answer(NO, 400)], b=[])
    assert (await one.talk(body())).body == NO
    assert one.upstream.order == ["a"]


@pytest.mark.parametrize("unlike", [{"flags": "tools"}, {"refuses": frozenset({"n"})}, {"max_model_len": 99}])
async def test_servers_of_one_method_may_be_of_different_kinds(unlike):
    one = bench(NGRAM, backend("b", "ngram", **unlike), a=[answer(NO, 400)], b=[answer()])
    assert (await one.talk(body())).status == 200


@pytest.mark.parametrize("status", [401, 403, 408, 409])
async def test_what_is_no_matter_of_kind_is_final(status):
    one = bench(NGRAM, BASELINE, a=[answer(NO, status)], c=[])
    assert (await one.talk(body())).status == status
    assert one.upstream.order == ["a"]


async def test_a_pinned_request_gets_the_answer_of_its_backend():
    one = bench(NGRAM, BASELINE, a=[answer(NO, 400)], c=[])
    assert (await one.talk(body(), headers=[(b"x-specroute-backend", b"a")])).body == NO


async def test_refusals_cost_the_budget_nothing():
    one = bench(NGRAM, BASELINE, a=[answer(NO, 400)], c=[answer()])
    one.fleet.govern(BreakerSettings(), BudgetSettings(share=0.0, per_second=0.0, burst=0))
    assert (await one.talk(body())).status == 200


@pytest.mark.parametrize(
    ("given", "words"),
    [({"seed": 1, "logit_bias": {"7": -1}}, "logit_bias, seed"), ({}, "no parameters")],
    ids=["some", "none"],
)
async def test_what_was_refused_goes_elsewhere_at_once_in_future(given, words, caplog):
    one = bench(NGRAM, BASELINE, a=[answer(NO, 400) for _ in range(TIMES)], c=[answer() for _ in range(9)])
    for _ in range(9):
        assert (await one.talk(body(**given))).status == 200
    assert (
        f"a refused {TIMES} requests that others took (chat, status 400, with {words}): such" in caplog.text
    )
    assert one.upstream.order == ["a", "c"] * TIMES + ["c"] * (9 - TIMES)
    rejected = one.records[-1].decision.rejected[0]
    assert (rejected.backend, rejected.reason) == ("a", "refuses_parameter")


async def test_what_differs_from_what_was_refused_still_goes_there():
    one = bench(
        NGRAM,
        BASELINE,
        a=[*(answer(NO, 400) for _ in range(TIMES)), answer()],
        c=[answer() for _ in range(9)],
    )
    for _ in range(TIMES):
        await one.talk(body(seed=1))
    await one.talk(body())
    assert one.upstream.order[-1] == "a"


async def test_one_that_was_taken_in_between_shows_that_the_kind_is_not_refused():
    refused = [answer(NO, 400) for _ in range(TIMES - 1)]
    one = bench(NGRAM, BASELINE, a=[*refused, answer(), *refused, answer()], c=[answer() for _ in range(9)])
    for _ in range(2 * TIMES):
        assert (await one.talk(body())).status == 200
    assert one.upstream.order[-1] == "a"


async def test_the_clients_own_faults_turn_nobody_out():
    one = bench(
        NGRAM,
        BASELINE,
        a=[*(answer(NO, 400) for _ in range(9)), answer()],
        c=[answer(NO, 400) for _ in range(9)],
    )
    for _ in range(9):
        assert (await one.talk(body())).status == 400
    assert (await one.talk(body())).headers[b"x-specroute-backend"] == b"a"


async def test_a_server_that_was_started_anew_is_asked_again():
    one = bench(
        NGRAM,
        BASELINE,
        a=[*(answer(NO, 400) for _ in range(TIMES)), answer()],
        c=[answer() for _ in range(9)],
    )
    for _ in range(TIMES):
        await one.talk(body())
    one.fleet.down("a", "stopped")
    one.fleet.up("a")
    await one.talk(body())
    assert one.upstream.order[-1] == "a"


async def test_paths_that_are_missing_somewhere_say_nothing_of_others():
    one = bench(
        NGRAM,
        BASELINE,
        a=[*(answer(NO, 404) for _ in range(TIMES)), answer()],
        c=[answer() for _ in range(9)],
    )
    for _ in range(TIMES):
        await one.talk(json.dumps({"model": "m"}).encode(), path="/v1/audio/speech")
    await one.talk(json.dumps({"model": "m"}).encode(), path="/v1/audio/other")
    assert one.upstream.order[-1] == "a"


async def test_a_server_that_has_not_the_response_gone_on_from_refuses_no_kind_of_request():
    acts = [answer(NO, 404) for _ in range(TIMES)]
    one = bench(NGRAM, BASELINE, a=[*acts, answer()], c=[answer() for _ in range(9)])
    for number in range(TIMES):
        asked = b'{"model":"m","input":"hi","previous_response_id":"resp_%d"}' % number
        await one.talk(asked, path="/v1/responses")
    await one.talk(b'{"model":"m","input":"hi"}', path="/v1/responses")
    assert one.upstream.order == [*["a", "c"] * TIMES, "a"]
