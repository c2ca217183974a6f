"""What operators see of servers that are out, and what they may ask."""

import json
import os
import threading
from types import SimpleNamespace

import pytest
from fastapi import FastAPI, Request

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.fleet import STAND_IN
from gateway.core.outcome import Attempt
from gateway.policy.learned import parse
from gateway.runtime import clock
from gateway.runtime.acceptance import Acceptance
from gateway.runtime.agreement import Agreement
from gateway.runtime.draft_latency import DraftLatency
from gateway.runtime.fleet import Fleet
from gateway.runtime.learning import Learning
from gateway.runtime.sessions import Sessions
from gateway.wire import control as module
from gateway.wire.control import Control
from tests.asgi import Conversation
from tests.factories import backend, policy, route

POLICY = b"version: 1\nclassify: {examples: %s}\nroutes: [{name: all, prefer: [any]}]\n"


@pytest.fixture
def fleet():
    one = Fleet([backend("a", max_in_flight=8)], "fleet-1")
    one.govern(BreakerSettings(consecutive=1, open=50.0), BudgetSettings(burst=7))
    return one


@pytest.fixture
def control(fleet):
    config = SimpleNamespace(
        policy=policy(), fleet=SimpleNamespace(revision="fleet-1", backends=(backend(),), stand_ins=())
    )
    configuration = SimpleNamespace(config=config, warnings=(), problems=())
    return Control(
        configuration,
        fleet,
        classifier=None,
        sessions=Sessions(),
        learning=Learning(fleet, config.policy),
        agreement=Agreement(config.policy.classifier),
        acceptance=Acceptance(),
        draft_latency=DraftLatency(lambda: fleet.snapshot),
        exposition=lambda accept: (accept.encode(), "text/plain"),
        seed=0,
        body_limit=200,
    )


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


@pytest.mark.parametrize(("asks", "status"), [(True, 200), (False, 503)])
async def test_a_stand_in_that_no_route_asks_for_makes_no_gateway_ready(control, fleet, asks, status):
    fleet.replace([backend("a")], "fleet-2", [backend("h", method=STAND_IN)])
    fleet.down("a", "gone")
    control.configuration.config.policy = policy(route(stand_ins=asks))
    assert await ready(control) == status


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
    assert await ready(control) == 200, "requests wait for it in the queue"


async def test_a_fleet_that_is_full_is_waited_for(control, fleet):
    for _ in range(8):
        fleet.dispatched("a")
    one = await shown(control)
    assert (one["available"], one["unavailable"]) == (False, "full")
    assert await ready(control) == 200, "or no request would come to wait"


async def test_the_budget_of_further_attempts(control, fleet):
    assert (await control.status())["retries"] == {"left": 7.0, "denied": 0}
    fleet.denied = 3
    assert (await control.status())["retries"]["denied"] == 3


async def asked(control, path, *parts, headers=()):
    app = FastAPI()
    app.include_router(control.router())
    conversation = Conversation(app, path=path, body=None, headers=headers)
    for part in parts:
        conversation._inbox.put_nowait({"type": "http.request", "body": part, "more_body": True})
    conversation._inbox.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    return await conversation.end()


@pytest.mark.parametrize("path", ["/-/decide", "/-/policy/check"])
async def test_a_client_that_leaves_while_it_asks_is_no_failure(control, path):
    app = FastAPI(exception_handlers=module.HANDLERS)
    app.include_router(control.router())
    conversation = Conversation(app, path=path, body=None)
    conversation.say(b'{"model"', more=True)
    conversation.leave()
    assert (await conversation.end()).status == 499


def said(conversation):
    return json.loads(b"".join(one.get("body", b"") for one in conversation.sent))


async def test_a_posted_policy_opens_no_file(control, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in (str(pipe).encode(), b"/dev/zero", b"/etc/passwd"):
        answer = await asked(control, "/-/policy/check", POLICY % name)
        assert answer.status == 200, said(answer)
        (warning,) = said(answer)["warnings"]
        assert (warning["line"], warning["column"], warning["path"]) == (2, 22, "classify.examples")
        assert "was not read" in warning["wrong"]


@pytest.mark.parametrize(
    ("file", "told"), [("mine.yaml", "mine.yaml"), ("sk-canary-4f9d2c71", "policy.yaml")]
)
async def test_a_posted_policy_has_the_name_that_is_given_unless_that_looks_like_a_key(control, file, told):
    asking = Request({"type": "http", "method": "POST", "headers": [], "query_string": b""}, empty)
    found = json.loads((await control.check_policy(asking, file)).body)
    assert {problem["file"] for problem in found["problems"]} == {told}


async def empty():
    return {"type": "http.request", "body": b"", "more_body": False}


async def test_a_posted_policy_is_checked_beside_the_loop(control, monkeypatch):
    threads = []

    def load_policy(*given):
        threads.append(threading.current_thread())
        return load(*given)

    load = module.load_policy
    monkeypatch.setattr(module, "load_policy", load_policy)
    assert (await asked(control, "/-/policy/check", POLICY % b"own.json")).status == 200
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("path", ["/-/policy/check", "/-/decide"])
async def test_too_large_a_body_is_refused(control, path):
    whole = await asked(control, path, b"x" * 200)
    assert whole.status in (400, 422)
    in_pieces = await asked(control, path, b"x" * 200, b"x")
    declared = await asked(control, path, headers=[(b"content-length", b"201")])
    for answer in (in_pieces, declared):
        assert answer.status == 413
        assert said(answer)["error"]["code"] == "request_too_large"


async def test_what_was_learnt_is_a_file_that_a_policy_can_name(control):
    answer = await control.learned()
    assert answer.media_type == "application/yaml"
    assert set(parse(answer.body.decode())) == {"a"}


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/nope"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_pages_of_other_sites_may_read_the_models(control, path, method):
    app = FastAPI()
    app.include_router(control.router())
    asking = [(b"origin", b"http://page"), (b"access-control-request-headers", b"authorization")]
    answer = await Conversation(app, path=path, method=method, headers=asking).end()
    assert answer.headers[b"access-control-allow-origin"] == b"*"
    if method == "OPTIONS":
        assert answer.status == 200
        assert answer.headers[b"access-control-allow-headers"] == b"authorization"
    answer = await Conversation(app, path=path, method=method).end()
    assert b"access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/status", "/metrics", "/-/policy"])
async def test_what_is_for_operators_is_for_no_page_of_another_site(control, path):
    app = FastAPI()
    app.include_router(control.router())
    answer = await Conversation(app, path=path, method="OPTIONS", headers=[(b"origin", b"http://page")]).end()
    assert (answer.status, b"access-control-allow-origin" in answer.headers) == (405, False)
