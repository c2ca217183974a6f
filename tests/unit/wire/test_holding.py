"""Requests about a response that one server keeps, and no other."""

import json
from dataclasses import replace

import pytest

from gateway.core import reasons
from gateway.core.decide import NoCandidate
from gateway.core.fleet import Backend
from tests.relaying import Bench
from tests.scripted import answer, fails

pytestmark = pytest.mark.usefixtures("piped")

ON = "/v1/responses"
JSON = (b"content-type", b"application/json")


def gave(name):
    return answer(json.dumps({"id": name, "object": "response", "output": []}).encode())


def lacks(name="resp_1"):
    return answer(json.dumps({"error": {"message": f"{name} not found", "code": 404}}).encode(), 404)


def asks(previous=None, **fields):
    return json.dumps({"model": "m", "input": "x", "previous_response_id": previous} | fields).encode()


ABOUT = [
    ("POST", ON, asks("resp_1")),
    ("POST", ON, asks("resp_1", store=True)),
    ("GET", f"{ON}/resp_1", b""),
    ("GET", f"{ON}/resp_1/input_items?limit=3", b""),
    ("POST", f"{ON}/resp_1/cancel", b""),
    ("POST", f"{ON}/resp_1/cancel", b"{}"),
    ("DELETE", f"{ON}/resp_1", b""),
]


def said(client):
    return json.loads(client.body)["error"]["message"]


about = pytest.mark.parametrize(("method", "path", "body"), ABOUT)


async def talk(bench, method="POST", path=ON, body=b"", *headers):
    path, _, query = path.partition("?")
    return await bench.talk(body, method=method, path=path, query=query.encode(), headers=[JSON, *headers])


async def given_by_b(*more, **options):
    """A bench where b gave the response resp_1, though a comes first."""
    bench = Bench(a=[], b=[gave("resp_1"), *more], **options)
    await talk(bench, "POST", ON, asks(), (b"x-specroute-backend", b"b"))
    return bench


@about
async def test_what_is_about_a_response_goes_to_who_gave_it(method, path, body):
    bench = await given_by_b(gave("resp_2"))
    client = await talk(bench, method, path, body)
    assert (client.status, client.headers[b"x-specroute-backend"]) == (200, b"b")
    decision = bench.records[-1].decision
    assert (decision.reason, decision.propensity, decision.seeks) == (reasons.HOLDER, 1.0, False)
    assert bench.idle


async def test_callers_need_not_be_allowed_to_choose():
    bench = await given_by_b(gave("resp_2"))
    bench.policy = replace(bench.policy, allow_pin=False)
    assert (await talk(bench, *ABOUT[0])).status == 200


async def test_the_callers_own_choice_comes_first():
    bench = Bench(a=[gave("resp_1")], b=[lacks()])
    await talk(bench, "POST", ON, asks())
    client = await talk(bench, "POST", ON, asks("resp_1"), (b"x-specroute-backend", b"b"))
    assert (client.status, client.headers[b"x-specroute-backend"]) == (404, b"b")
    assert bench.records[-1].decision.reason == reasons.PINNED


@about
async def test_nobody_answers_for_a_holder_that_is_out(method, path, body):
    bench = await given_by_b()
    bench.fleet.down("b", "reset")
    client = await talk(bench, method, path, body)
    assert client.status == 503
    assert "b: " in said(client)
    assert "no other holds the response" in said(client)
    assert isinstance(bench.records[-1].decision, NoCandidate)
    assert bench.upstream.order == ["b"]


@about
async def test_of_one_that_nobody_knows_all_are_asked_whatever_their_kind(method, path, body):
    alike = {name: [lacks()] for name in "abd"} | {"c": [gave("resp_1"), gave("resp_3")]}
    backends = [Backend(name, f"http://{name}", "target", "m") for name in "abdc"]
    bench = Bench(backends=backends, max_attempts=2, **alike)
    client = await talk(bench, method, path, body)
    assert (client.status, client.headers[b"x-specroute-backend"]) == (200, b"c")
    assert bench.records[-1].decision.seeks
    assert all(state.available(0.0) for state in bench.fleet.snapshot.states)
    asked = len(bench.upstream.order)
    assert (await talk(bench, "GET", f"{ON}/resp_1")).status == 200
    assert bench.upstream.order[asked:] == ["c"]


@about
async def test_one_that_nobody_has_is_not_there(method, path, body):
    bench = Bench(a=[lacks()], b=[lacks()])
    client = await talk(bench, method, path, body)
    assert (client.status, said(client)) == (404, "resp_1 not found")
    assert sorted(bench.upstream.order) == ["a", "b"]


@pytest.mark.parametrize("first", [fails("sent", "reset"), answer(b"busy", 503)])
@pytest.mark.parametrize(("method", "path", "body"), ABOUT[4:])
async def test_what_may_have_been_done_is_asked_of_nobody_else(method, path, body, first):
    bench = Bench(a=[first], b=[])
    await talk(bench, method, path, body)
    assert bench.upstream.order == ["a"]


async def test_what_another_model_holds_is_sought_among_the_own():
    bench = Bench(a=[lacks()], b=[gave("resp_1")])
    await talk(bench, "POST", ON, asks(), (b"x-specroute-backend", b"b"))
    bench.fleet.replace(
        [Backend("a", "http://a", "target", "m"), Backend("b", "http://b", "other", "m")], "f2"
    )
    assert (await talk(bench, *ABOUT[0])).status == 404
    assert bench.records[-1].decision.seeks


async def test_what_is_no_response_is_no_response():
    bench = Bench(a=[answer(), answer()], b=[])
    for path in (f"{ON}/", "/v1/responses_of_mine/resp_1"):
        assert (await talk(bench, "GET", path)).status == 200
        assert not bench.records[-1].decision.seeks
