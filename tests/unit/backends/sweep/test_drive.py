from __future__ import annotations

import asyncio

import pytest

from backends.sweep.drive import DeadServerError, Driver, Limits
from backends.sweep.prompts import Prompt
from tests.unit.backends.sweep.making import CODE


async def test_a_server_that_hangs_counts_as_dead_before_a_round_waits_for_it() -> None:
    calls: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: calls.append(writer), "127.0.0.1", 0)
    prompts = {("code", "short"): (Prompt("p", {"messages": []}),)}
    async with silent, Driver(prompts, Limits(timeout=0.2)) as driver:
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        with pytest.raises(DeadServerError, match=r"no end after 0\.2 s"):
            await driver.warm(url, "served", CODE)
        calls[0].close()
