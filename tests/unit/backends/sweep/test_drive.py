from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backends.sweep.drive import Driver, Limits
from backends.sweep.model import BASELINE, Cell, Condition
from backends.sweep.prompts import Prompt
from backends.sweep.servers import Place
from backends.sweep.stall import DeadServerError, StalledServerError
from tests.raw_server import gone, serving
from tests.unit.backends.sweep.making import CODE

if TYPE_CHECKING:
    import asyncio

    from backends.sweep.model import Sample

PROMPTS = {("code", "short"): (Prompt("p", {"messages": []}),)}
BEGUN = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    b'data: {"choices": [{"delta": {"role": "assistant", "content": "a"}}]}\n\n'
)
NONE = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await gone(reader)


async def test_a_server_that_answers_nothing_hangs_before_a_round_waits_for_it() -> None:
    async with serving(silent) as (server, url), Driver(PROMPTS, Limits(stall=0.1)) as driver:
        with pytest.raises(StalledServerError, match=r"no first token for 0\.3 s, with 1 in flight"):
            await driver.warm(Place(url, "served"), CODE)
        assert len(server.requests) == 1


async def test_a_server_that_hangs_within_its_answers_ends_the_round_with_all_its_requests() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if server.requests[-1][0].startswith(b"GET"):
            writer.write(NONE)
            return True
        writer.write(BEGUN)
        await gone(reader)
        return False

    kept: list[Sample] = []
    cell = Cell(BASELINE, Condition("code", 3))
    async with serving(script) as (server, url), Driver(PROMPTS, Limits(stall=0.3)) as driver:
        with pytest.raises(StalledServerError, match=r"no token of any answer for 0\.3 s, with 3 in flight"):
            await driver.round(Place(url, "served", "secret"), cell, 0, 8, kept.append)
        await server.closed.wait()
        heads = [head for head, _ in server.requests if head.startswith(b"POST")]
    assert kept == []
    assert len(heads) == 3
    assert all(b"\r\nauthorization: bearer secret\r\n" in one.lower() for one in heads)


async def test_a_request_that_does_not_end_in_time_counts_as_a_death_where_it_is_the_first() -> None:
    async with serving(silent) as (_, url), Driver(PROMPTS, Limits(timeout=0.2)) as driver:
        with pytest.raises(DeadServerError, match=r"no end after 0\.2 s"):
            await driver.warm(Place(url, "served"), CODE)
