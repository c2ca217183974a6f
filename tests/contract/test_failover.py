"""Servers that stop while requests come in: other servers answer, and the stopped one comes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.contract.stack import eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.stack import Loop, Stack

FLEET = """\
version: 1
backends:
  - {name: first, url: http://127.0.0.1:1, model: google/gemma-4-31B-it, served_model: tiny, method: dflash, draft_tokens: 7}
  - {name: second, url: http://127.0.0.1:2, model: google/gemma-4-31B-it, served_model: tiny}
"""
POLICY = """\
version: 1
models: {tiny: google/gemma-4-31B-it}
allow_pin: true
routes:
  - {name: default, prefer: [first, second]}
"""
CHAT: Any = {"model": "tiny", "messages": [{"role": "user", "content": "Hello there."}], "max_tokens": 20}


@pytest.fixture
def scraped(loop: Loop, tmp_path: Path, pipe: bool) -> Iterator[Stack]:
    """A gateway that looks at its servers all the time."""
    given = {"pipe": pipe}
    with running(loop, tmp_path, FLEET, POLICY, scrape_interval=0.05, given=given) as found:
        yield found


@pytest.fixture
def blind(loop: Loop, tmp_path: Path, pipe: bool) -> Iterator[Stack]:
    """A gateway that looked at its servers once, and whose first server is slow."""
    with running(
        loop,
        tmp_path,
        FLEET,
        POLICY,
        scrape_interval=3600.0,
        changes={"first": {"speed": 0.5}},
        given={"pipe": pipe},
    ) as found:
        yield found


def client_of(stack: Stack) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0, http_client=http)


def served_by(stack: Stack, **changes: Any) -> str:
    answer = stack.http.post("/v1/chat/completions", json=CHAT | changes)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-specroute-backend"])


def test_a_stopped_server_is_passed_over_and_comes_back(scraped: Stack) -> None:
    assert served_by(scraped) == "first"
    scraped.loop.run(scraped.servers["first"].stop())
    assert [served_by(scraped, stream=stream) for stream in (False, True, False)] == ["second"] * 3
    state = scraped.until("first", healthy=False)
    assert state["reason"]
    assert not state["available"]
    assert scraped.http.get("/readyz").status_code == 200
    scraped.loop.run(scraped.servers["first"].start())
    scraped.until("first", healthy=True)
    eventually(lambda: served_by(scraped), lambda name: name == "first")


def test_when_all_are_stopped_the_client_is_told_when_to_try_again(scraped: Stack) -> None:
    for server in scraped.servers.values():
        scraped.loop.run(server.stop())
    for name in scraped.servers:
        scraped.until(name, healthy=False)
    assert scraped.http.get("/readyz").status_code == 503
    with client_of(scraped) as sdk, pytest.raises(openai.InternalServerError) as told:
        sdk.chat.completions.create(**CHAT)
    assert told.value.status_code == 503
    assert told.value.response.headers["retry-after"]
    for server in scraped.servers.values():
        scraped.loop.run(server.start())
    for name in scraped.servers:
        scraped.until(name, healthy=True)
    assert scraped.http.get("/readyz").status_code == 200
    eventually(
        lambda: scraped.http.post("/v1/chat/completions", json=CHAT).status_code, lambda code: code == 200
    )


def test_the_first_request_that_finds_it_stopped_is_answered_by_another(blind: Stack) -> None:
    assert served_by(blind) == "first"
    blind.loop.run(blind.servers["first"].stop())
    answer = blind.http.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200
    record = blind.records.of(answer.headers["x-request-id"])
    assert [(attempt.backend, attempt.phase) for attempt in record.attempts] == [
        ("first", "connect"), ("second", "done"),
    ]  # fmt: skip
    assert blind.until("second")["healthy"]


def test_a_request_under_way_is_answered_by_another(blind: Stack) -> None:
    """A whole answer that did not begin can be given by anybody."""
    server = blind.servers["first"]
    with client_of(blind) as sdk, ThreadPoolExecutor(1) as other:
        asking = other.submit(sdk.chat.completions.with_raw_response.create, **CHAT)
        eventually(lambda: server.simulator.running, bool)
        blind.loop.run(server.stop())
        raw = asking.result()
    assert raw.headers["x-specroute-backend"] == "second"
    record = blind.records.of(raw.headers["x-request-id"])
    assert [attempt.backend for attempt in record.attempts] == ["first", "second"]
    assert record.attempts[0].error
    assert record.outcome.status == "ok"


def test_a_stream_under_way_ends_in_an_error_that_the_sdk_raises(blind: Stack) -> None:
    headers = {"x-request-id": "broken-1", "x-specroute-backend": "first"}
    with client_of(blind) as sdk:
        chunks = sdk.chat.completions.create(
            **CHAT | {"max_tokens": 2000}, extra_body={"ignore_eos": True}, stream=True, extra_headers=headers
        )
        assert next(chunks).choices
        blind.loop.run(blind.servers["first"].stop())
        with pytest.raises(openai.APIError):
            for _ in chunks:
                pass
    assert blind.records.of("broken-1").outcome.status == "truncated"
