from __future__ import annotations

import signal
import socket

import httpx
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.profiles import UnknownConfigurationError
from backends.sim.server import Options

TARGET = "google/gemma-4-31B-it"


async def test_servers_listen_on_ports_of_their_own_and_stop() -> None:
    before = signal.getsignal(signal.SIGINT)
    members = [Member(TARGET), Member(TARGET, "dflash", 7, name="fast", options=Options(served_model="g"))]
    async with httpx.AsyncClient() as client:
        async with run_fleet(members) as fleet:
            assert [running.member.label for running in fleet] == ["none", "fast"]
            assert len({running.url for running in fleet}) == 2
            answers = [await client.get(f"{running.url}/v1/models") for running in fleet]
            assert [answer.json()["data"][0]["id"] for answer in answers] == [TARGET, "g"]
            assert signal.getsignal(signal.SIGINT) is before
        for running in fleet:
            with pytest.raises(httpx.ConnectError):
                await client.get(running.url)


async def test_a_stop_ends_the_streams_under_way() -> None:
    body = {"model": TARGET, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    slow = Member(TARGET, options=Options(speed=0.01))
    async with httpx.AsyncClient() as client:
        async with run_fleet([slow]) as (running,):
            url = f"{running.url}/v1/chat/completions"
            answer = await client.send(client.build_request("POST", url, json=body), stream=True)
        text = (await answer.aread()).decode()
    assert '"code": 500' in text
    assert text.endswith("data: [DONE]\n\n")


async def test_a_taken_port_and_an_unknown_profile_start_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        members = [Member(TARGET), Member(TARGET, port=taken.getsockname()[1])]
        with pytest.raises(OSError, match="in use"):
            async with run_fleet(members):
                raise AssertionError("it started")
    with pytest.raises(UnknownConfigurationError):
        async with run_fleet([Member(TARGET, "dflash", 99)]):
            raise AssertionError("it started")


def test_a_server_without_a_name_is_called_by_method_and_n() -> None:
    assert [Member("t").label, Member("t", "eagle3", 5).label, Member("t", name="x").label] == [
        "none",
        "eagle3-5",
        "x",
    ]
