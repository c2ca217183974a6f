"""What a request and a chunk cost in Python's own instructions: a count that no other program disturbs.

``python -m tests.bench.guard`` prints the counts beside the committed ones, ``--write`` commits to new ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self

import uvloop

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.policy.load import Loaded
from gateway.runtime import learning
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.bench.answers import DONE, STAMP
from tests.bench.cases import Case
from tests.bench.contenders import Place, specroute
from tests.bench.load import Load, request
from tests.bench.mock import Mock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

    from gateway.core.outcome import Record

BASELINE: Final = Path(__file__).with_name("baseline.json")
_VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"

TOLERANCE: Final = {"request": 1.25, "stream": 1.25, "chunk": 1.08}
"""How many times the committed counts they may be: what was learned of servers changes what a decision costs."""

_REQUESTS: Final = 20
_SECONDS: Final = 30.0
_ROUNDS: Final = 6
"""Of each case; the least counts, for what comes by chance comes on top."""

_SMALL: Final = Case("small", "", 1, 60.0, requests=_REQUESTS)
_STREAM: Final = Case("stream", "", 1, stream=True)
_FEW, _MANY = 10, 510
"""Chunks of a short and of a long stream, of which the difference is counted."""


class Instructions:
    """Counts Python's instructions and calls of C in this thread while its block runs.

    Attributes:
        count: Of both.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        """Begin to count."""
        sys.setprofile(self._called)
        sys.settrace(self._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Count no more."""
        sys.settrace(None)
        sys.setprofile(None)

    def _called(self, _: FrameType, event: str, __: object) -> None:
        self.count += event == "c_call"

    def _entered(self, frame: FrameType, _: str, __: object) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._stepped

    def _stepped(self, _: FrameType, event: str, __: object) -> Any:
        self.count += event == "opcode"
        return self._stepped


def settings_of(folder: Path, port: int) -> Settings:
    """Settings of a gateway before the mock that looks at it but once."""
    arguments = specroute(Place(folder, 0, [port, port]))
    files = {name: Path(arguments[arguments.index(f"--{name}") + 1]) for name in ("fleet", "policy")}
    rare = {"scrape_interval": 3600.0, "probe_interval": 3600.0}
    return Settings(**files, port=0, **rare)


class Lockstep(Mock):
    """Sends each chunk of a stream when it is asked for it, so that no two are ever read together."""

    def __init__(self, listener: socket.socket) -> None:
        """Serve a listener in a thread."""
        super().__init__([listener])
        self._due: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def queue(self, connection: Any, due: int) -> None:
        """Let a stream wait."""
        self._due.put(connection)

    def go_on(self) -> None:
        """Send the next chunk of the stream that waits."""
        self._chunk(self._due.get(timeout=_SECONDS), 0)


def _small(port: int, _: Lockstep) -> None:
    load = Load(_SMALL, ("127.0.0.1", port), ())
    load.run(_SMALL.seconds)
    load.close()
    if load.troubles or load.requests != _SMALL.requests:
        raise RuntimeError(f"{load.requests} of {_SMALL.requests} answers, {dict(load.troubles)}")


def stream(chunks: int, port: int, mock: Lockstep) -> None:
    """Read a stream of so many chunks to its end, over a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=_SECONDS) as client:
        client.sendall(request(replace(_STREAM, chunks=chunks), 0, "gateway", ()))
        data = b""
        for number in range(1, chunks + 1):
            mock.go_on()
            while len(STAMP.findall(data)) < number < chunks:
                data += client.recv(65536)
        while DONE not in data:
            data += client.recv(65536)


async def _count(
    work: Callable[[int, Lockstep], None], port: int, mock: Lockstep, records: list[Record], answers: int
) -> int:
    """Instructions of some work, all that follows from its answers included."""
    counts = []
    for _ in range(_ROUNDS):
        records.clear()
        with Instructions() as instructions:
            await asyncio.to_thread(work, port, mock)
            while len(records) < answers:  # noqa: ASYNC110 - an event would be counted too
                await asyncio.sleep(0.001)
        counts.append(instructions.count)
    return min(counts)


@contextmanager
def _evenly() -> Iterator[None]:
    """Learn from each request and publish nothing meanwhile: what is done each second depends on the clock."""
    usual = learning.PUBLISH_SECONDS, learning.ENOUGH
    learning.PUBLISH_SECONDS, learning.ENOUGH = 3600.0, sys.maxsize
    try:
        yield
    finally:
        learning.PUBLISH_SECONDS, learning.ENOUGH = usual


async def _measure(folder: Path) -> dict[str, float]:
    records: list[Record] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        mock = Lockstep(listener)
        settings = settings_of(folder, listener.getsockname()[1])
        loaded = load_files(settings.fleet, settings.policy, {})
        assert isinstance(loaded, Loaded)
        gateway = Gateway(settings, loaded, on_record=[records.append])
        async with serving(gateway, settings) as url:
            port = int(url.rsplit(":", 1)[1])
            small = await _count(_small, port, mock, records, _REQUESTS)
            few = await _count(partial(stream, _FEW), port, mock, records, 1)
            many = await _count(partial(stream, _MANY), port, mock, records, 1)
    return {
        "request": round(small / _REQUESTS),
        "stream": few,
        "chunk": round((many - few) / (_MANY - _FEW)),
    }


def measure() -> dict[str, float]:
    """Instructions of a small request, of a stream of ten chunks, and of each further chunk."""
    with tempfile.TemporaryDirectory(prefix="specroute-guard-") as folder, _evenly():
        return uvloop.run(_measure(Path(folder)))


def baseline() -> dict[str, float] | None:
    """The committed counts for this version of Python; None if there are none."""
    known: dict[str, dict[str, float]] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    return known.get(_VERSION)


def main() -> int:
    """Print the counts. Returns the exit code: 1 if one is beyond its tolerance."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.guard", description=__doc__)
    parser.add_argument("--write", action="store_true", help="take what is counted for the new baseline")
    options = parser.parse_args()
    found, before = measure(), baseline() or {}
    for name, count in found.items():
        known = before.get(name)
        print(f"{name:8} {count:7,.0f}" + (f"   {count / known:.2f} of {known:,.0f}" if known else ""))
    if options.write:
        known_versions = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
        BASELINE.write_text(json.dumps(known_versions | {_VERSION: found}, indent=2) + "\n")
        return 0
    return int(any(count > TOLERANCE[name] * before.get(name, count) for name, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
