"""Speed cannot be lost unnoticed: what a request and a chunk cost is counted and compared."""

from __future__ import annotations

import asyncio
import gc
import select
import socket
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import uvloop

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.policy.load import Loaded
from gateway.runtime.reload import load_files
from tests.bench import guard

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.core.outcome import Record

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the mock needs Linux")


def _twice(number: int) -> int:
    return sum([number, number])


def test_the_same_work_has_the_same_count_and_more_has_more() -> None:
    counts = []
    for times in (1, 1, 10):
        with guard.Instructions() as instructions:
            for _ in range(times):
                _twice(1)
        counts.append(instructions.count)
    assert counts[0] == counts[1]
    assert 9 <= (counts[2] - counts[1]) / _cost() <= 9.5


def _cost() -> int:
    with guard.Instructions() as one:
        _twice(1)
    with guard.Instructions() as two:
        _twice(1)
        _twice(1)
    return two.count - one.count


async def _garbage(folder: Path) -> list[object]:
    """What streams leave that only a collection would free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        mock = guard.Lockstep(listener)
        settings = guard.settings_of(folder, listener.getsockname()[1])
        loaded = load_files(settings.fleet, settings.policy, {})
        assert isinstance(loaded, Loaded)
        records: list[Record] = []
        async with serving(Gateway(settings, loaded, on_record=[records.append]), settings) as url:
            port = int(url.rsplit(":", 1)[1])
            await asyncio.to_thread(guard.stream, 20, port, mock)
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    await asyncio.to_thread(guard.stream, 20, port, mock)
                while len(records) < 6:  # noqa: ASYNC110 - records are no events
                    await asyncio.sleep(0.001)
                records.clear()
                await asyncio.sleep(0.1)  # connections end
                gc.set_debug(gc.DEBUG_SAVEALL)
                gc.collect()
                return list(gc.garbage)
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()


def test_nothing_of_a_stream_waits_for_a_collection(tmp_path: Path) -> None:
    left = Counter(type(one).__qualname__ for one in uvloop.run(_garbage(tmp_path)))
    ours = {"Client", "Exchange", "LeanResponse", "Pipe", "RequestResponseCycle", "StreamTap", "Trial"}
    assert not ours & set(left), left


def test_no_request_and_no_chunk_costs_more_than_it_did() -> None:
    known = guard.baseline()
    if known is None:
        pytest.skip("nothing was counted for this version of Python yet")
    found = guard.measure()
    beyond = {
        name: f"{count:.0f} instructions, {known[name]:.0f} before"
        for name, count in found.items()
        if count > guard.TOLERANCE[name] * known[name]
    }
    assert not beyond, "look for what costs more, or commit to it by python -m tests.bench.guard --write"
