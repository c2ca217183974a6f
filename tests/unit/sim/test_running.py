from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from backends.sim.fleet import Member, Running, run_fleet
from backends.sim.server import Options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TARGET = "google/gemma-4-31B-it"
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {
    "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3000,
    "ignore_eos": True, "stream": True, "temperature": 0, "return_token_ids": True,
}  # fmt: skip


@pytest_asyncio.fixture
async def fleet() -> AsyncIterator[tuple[Running, ...]]:
    options = Options(served_model="tiny", speed=10.0)
    async with run_fleet(
        [Member(TARGET, "dflash", 7, options=options), Member(TARGET, options=options)]
    ) as fleet:
        yield fleet


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


class Stream:
    """A chat stream that has begun."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.lines = answer.aiter_lines()
        self.events: list[Any] = []

    @classmethod
    async def open(cls, http: httpx.AsyncClient, server: Running, events: int = 4) -> Stream:
        request = http.build_request("POST", server.url + CHAT, json=BODY)
        stream = cls(await http.send(request, stream=True))
        await stream.read(events)
        return stream

    async def read(self, events: int | None = None) -> None:
        """Read some events, or up to the end."""
        while events is None or len(self.events) < events:
            try:
                line = await anext(self.lines)
            except StopAsyncIteration:
                assert events is None
                return
            if line:
                data = line.removeprefix("data: ")
                self.events.append(data if data == "[DONE]" else json.loads(data))


async def healthy(http: httpx.AsyncClient, server: Running) -> bool:
    return (await http.get(server.url + "/health")).status_code == 200


async def refused(http: httpx.AsyncClient, server: Running) -> bool:
    try:
        await http.get(server.url + "/health")
    except httpx.ConnectError:
        return True
    return False


async def test_a_dead_engine_ends_streams_with_an_error_and_then_refuses(
    fleet: tuple[Running, ...], http: httpx.AsyncClient
) -> None:
    stream = await Stream.open(http, fleet[0])
    await fleet[0].kill("error")
    await stream.read()
    assert stream.events[-2]["error"]["code"] == 500
    assert stream.events[-1] == "[DONE]"
    assert await refused(http, fleet[0])
    assert await healthy(http, fleet[1])


async def test_a_lost_process_resets_its_connections_without_a_word(
    fleet: tuple[Running, ...], http: httpx.AsyncClient
) -> None:
    stream = await Stream.open(http, fleet[0])
    host, port = fleet[0].url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readuntil(b"data: ")
    await fleet[0].kill("reset")
    with pytest.raises(ConnectionResetError):
        await reader.read()
    with pytest.raises(httpx.ReadError):
        await stream.read()
    assert "[DONE]" not in stream.events
    assert not any("error" in event for event in stream.events)
    assert await refused(http, fleet[0])
    writer.close()
    with pytest.raises(ConnectionResetError):
        await writer.wait_closed()


async def test_a_stalled_server_is_silent_until_it_is_revived(
    fleet: tuple[Running, ...], http: httpx.AsyncClient
) -> None:
    stream = await Stream.open(http, fleet[0])
    await fleet[0].kill("stall")
    whole = BODY | {"stream": False}
    get = asyncio.get_running_loop().create_task
    hanging = [
        get(stream.read()),
        get(http.get(fleet[0].url + "/health")),
        get(http.post(fleet[0].url + CHAT, json=BODY)),
        get(http.post(fleet[0].url + CHAT, json=whole)),
    ]
    done, _ = await asyncio.wait(hanging, timeout=0.3)
    assert not done
    assert fleet[0].simulator.stalled
    assert await healthy(http, fleet[1])
    before = fleet[0].simulator
    await fleet[0].revive()
    for one in hanging:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await one
    assert fleet[0].simulator is not before
    assert await healthy(http, fleet[0])


async def test_a_client_of_a_stalled_server_may_leave(
    fleet: tuple[Running, ...], http: httpx.AsyncClient
) -> None:
    stream = await Stream.open(http, fleet[0])
    simulator = fleet[0].simulator
    await fleet[0].kill("stall")
    await stream.answer.aclose()
    async with asyncio.timeout(10):
        while simulator.running:
            assert await healthy(http, fleet[1])


@pytest.mark.parametrize("how", ["error", "reset", "stall"])
async def test_a_revived_server_is_a_new_one_at_the_same_address(
    fleet: tuple[Running, ...], http: httpx.AsyncClient, how: Any
) -> None:
    server, url = fleet[0], fleet[0].url
    await Stream.open(http, server)
    for _ in range(2):
        await server.kill(how)
        await server.revive()
        assert server.url == url
        page = (await http.get(url + "/metrics")).text
        assert 'vllm:generation_tokens_total{engine="0",model_name="tiny"} 0.0' in page
        answer = await http.post(url + CHAT, json=BODY | {"stream": False, "max_tokens": 5})
        assert answer.json()["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("how", ["error", "reset", "stall"])
async def test_an_answer_goes_on_elsewhere_by_the_ids_that_came(
    fleet: tuple[Running, ...], http: httpx.AsyncClient, how: Any
) -> None:
    stream = await Stream.open(http, fleet[0], 20)
    await fleet[0].kill(how)
    prompt = stream.events[0]["prompt_token_ids"]
    ids = [token for event in stream.events[1:] for token in event["choices"][0]["token_ids"]]
    fixed = {"model": "tiny", "ignore_eos": True, "temperature": 0, "return_token_ids": True}
    rest = fixed | {"prompt": prompt + ids, "max_tokens": 20}
    whole = fixed | {"prompt": prompt, "max_tokens": len(ids) + 20}
    found = [
        (await http.post(fleet[1].url + "/v1/completions", json=body)).json()["choices"][0]["token_ids"]
        for body in (rest, whole)
    ]
    assert ids + found[0] == found[1]


async def test_only_what_lives_dies_and_only_what_is_dead_is_revived(fleet: tuple[Running, ...]) -> None:
    with pytest.raises(RuntimeError, match="dflash-7 is alive"):
        await fleet[0].revive()
    await fleet[0].kill("stall")
    with pytest.raises(RuntimeError, match="dead already"):
        await fleet[0].kill("error")
    await fleet[0].kill("reset")
    with pytest.raises(RuntimeError, match="dead already"):
        await fleet[0].kill("reset")


async def test_a_fleet_may_end_with_stalled_and_dead_servers(http: httpx.AsyncClient) -> None:
    async with run_fleet([Member(TARGET, options=Options(served_model="tiny")) for _ in range(2)]) as fleet:
        stream = await Stream.open(http, fleet[0])
        await fleet[0].kill("stall")
        await fleet[1].kill("reset")
    with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
        await stream.read()
    assert await refused(http, fleet[0])
    assert await refused(http, fleet[1])
