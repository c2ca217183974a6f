from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gateway.runtime.fleet import Fleet
from gateway.runtime.probe import Prober
from tests.factories import backend

DEEP = b'{"data":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


class Server:
    """A server by what it answers to each path: a response, an exception to raise, or None to hang."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {
            "/health": httpx.Response(200),
            "/v1/models": self.models("tiny", "other"),
        }

    @staticmethod
    def models(*names: str) -> httpx.Response:
        return httpx.Response(200, json={"object": "list", "data": [{"id": name} for name in names]})

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        page = self.pages[request.url.path]
        if page is None:
            await asyncio.Event().wait()
        if isinstance(page, Exception):
            raise page
        return page


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet([backend("a")], "fleet-1")


@pytest.fixture
def client(server: Server) -> httpx.MockTransport:
    return httpx.MockTransport(server)


@pytest.fixture
def prober(fleet: Fleet, client: httpx.MockTransport) -> Prober:
    return Prober(fleet, client, timeout=9.0)


def health(fleet: Fleet) -> tuple[bool, str]:
    [state] = fleet.snapshot.states
    return state.healthy, state.reason


async def test_a_server_that_is_well_and_has_the_model_stays(fleet: Fleet, prober: Prober) -> None:
    await prober.once(backend("a"))
    assert health(fleet) == (True, "")


@pytest.mark.parametrize(
    ("path", "page", "reason"),
    [
        ("/health", httpx.ConnectError("refused"), "/health: ConnectError"),
        ("/health", httpx.Response(503), "/health answered 503"),
        ("/health", httpx.Response(307), "/health answered 307"),
        ("/v1/models", httpx.ReadError("reset"), "/v1/models: ReadError"),
        ("/v1/models", httpx.Response(401), "/v1/models answered 401"),
        ("/v1/models", httpx.Response(200, content=b"<html>"), "/v1/models is no list of models"),
        ("/v1/models", httpx.Response(200, json={"data": [{}]}), "/v1/models is no list of models"),
        ("/v1/models", httpx.Response(200, content=DEEP), "/v1/models is no list of models"),
        ("/v1/models", Server.models("x", "y"), "it serves x, y, not tiny"),
        ("/v1/models", Server.models(), "it serves nothing, not tiny"),
        ("/v1/models", Server.models(*"abcde"), "it serves a, b, c, not tiny"),
    ],
)
async def test_a_server_that_is_not_well_is_out_and_says_why(
    fleet: Fleet, prober: Prober, server: Server, path: str, page: object, reason: str
) -> None:
    good, server.pages[path] = server.pages[path], page
    await prober.once(backend("a"))
    assert health(fleet) == (False, reason)
    server.pages[path] = good
    await prober.once(backend("a"))
    assert health(fleet) == (True, "")


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
async def test_one_silence_is_forgiven_two_in_a_row_are_not(
    fleet: Fleet, client: httpx.MockTransport, server: Server, path: str
) -> None:
    impatient, patient = (Prober(fleet, client, timeout=within) for within in (0.01, 9.0))
    impatient._silences = patient._silences
    good, server.pages[path] = server.pages[path], None
    await impatient.once(backend("a"))
    assert health(fleet) == (True, "")
    server.pages[path] = good
    await patient.once(backend("a"))
    server.pages[path] = None
    await impatient.once(backend("a"))
    assert health(fleet) == (True, "")
    await impatient.once(backend("a"))
    assert health(fleet) == (False, "no answer to 2 probes within 0.01 s")


async def test_a_probe_lets_a_server_back_in_that_could_not_be_connected_to(
    fleet: Fleet, prober: Prober
) -> None:
    fleet.down("a", "connect")
    await prober.once(backend("a"))
    assert health(fleet) == (True, "")
