"""The load generator: closed loop on keep-alive connections, as a process of its own.

One thread on plain epoll with httptools, like the mock, so that what it costs itself is small and even. Each
answer is checked: status, text, number and order of chunks, finish reason, ``[DONE]``, end of the body. It makes
one request on every connection to warm up, prints what went wrong with them, waits for a line on its input, loads,
and prints one JSON object. Requests that began in time are awaited, so all that was begun is counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import select
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import httptools

from tests.bench import answers
from tests.bench.cases import Case

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS = "explain how a paged key value cache lets an inference server batch more requests at the same time, "
_GRACE = 20.0
"""Seconds that answers may take after the end of the load, and longer than their pauses take."""

_TRIES = 3
_SO_TIMESTAMPNS = 35
"""Of Linux: each read is told when its last bytes came, in seconds and nanoseconds of the clock on the wall."""
_TIME = struct.Struct("@qq")


def request(case: Case, number: int, host: str, headers: Sequence[str]) -> bytes:
    """The request of one connection, ready to send; no two connections send the same prompt."""
    text = f"Question {number}: {_WORDS * (case.prompt_bytes // len(_WORDS) + 1)}"[: case.prompt_bytes]
    body = {
        "model": answers.MODEL,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0.7,
        "max_tokens": case.chunks,
        "stream": case.stream,
    }
    if case.pause_us:
        body["seed"] = case.pause_us
    data = json.dumps(body, separators=(",", ":")).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: {host}",
        "Accept: application/json",
        "Content-Type: application/json",
        "User-Agent: bench",
        *headers,
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


class _Connection:
    """One connection, which is also its parser's listener, and the answer that runs on it."""

    __slots__ = (
        "begun", "chunks", "done", "finished", "first", "fresh", "heard", "last_stamp", "load", "message", "ordered", "parser",
        "request", "rest", "sock", "tries", "unsent",
    )  # fmt: skip

    def __init__(self, load: Load) -> None:
        self.load = load
        self.message = b""
        self.tries = self.begun = 0
        self.sock: socket.socket | None = None

    def connect(self) -> socket.socket:
        self.sock = sock = socket.create_connection(self.load.address)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.load.case.stream:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.parser = httptools.HttpResponseParser(self)
        self.fresh = True
        return sock

    def begin(self) -> None:
        self.rest = b""
        self.first = self.chunks = self.done = self.last_stamp = 0
        self.finished = self.heard = False
        self.ordered = True
        self.unsent = self.message
        self.begun = time.monotonic_ns()

    def on_body(self, body: bytes) -> None:
        if not self.load.case.stream:
            self.rest += body
            return
        data = self.rest + body if self.rest else body
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            self.rest = data
            return
        self.rest = data[end:]
        now = self.load.now
        if not self.first:
            self.first = now
        self.load.events += data.count(b"data: ", 0, end)
        for stamp in answers.STAMP.findall(data, 0, end):
            left = int(stamp)
            if left < self.last_stamp:
                self.ordered = False
            self.last_stamp = left
            self.chunks += 1
            self.load.delays.append(now - left)
        if self.chunks == self.load.case.chunks:
            self.finished = self.finished or b'"finish_reason":"stop"' in data
            self.done += data.count(answers.DONE, 0, end)

    def whole(self) -> bool:
        """Whether the answer that just ended is all of what the mock sent."""
        if self.load.case.stream:
            expected = (self.load.case.chunks, 1, True, True, b"")
            return (self.chunks, self.done, self.finished, self.ordered, self.rest) == expected
        return answers.TEXT.encode() in self.rest and self.rest.endswith(b"}")

    def on_message_complete(self) -> None:
        self.load.ended(self, ok=self.parser.get_status_code() == 200 and self.whole())


class Load:
    """Connections under load, and what was measured on them; times in nanoseconds."""

    def __init__(self, case: Case, address: tuple[str, int], headers: Sequence[str]) -> None:
        """Make ready to load an address."""
        self.case = case
        self.address = address
        self._epoll = select.epoll()
        self._connections = [_Connection(self) for _ in range(case.connections)]
        self._headers = headers
        self._by_fd: dict[int, _Connection] = {}
        self._until = 0
        self._busy = 0
        self._again: list[_Connection] = []
        self.reset()

    def warm_up(self) -> None:
        """Open all connections and make one request on each, of a few chunks where the case is of streams."""
        case = self.case
        self.case = replace(case, chunks=min(4, case.chunks))
        self.run(0)
        self.case = case

    def reset(self) -> None:
        """Forget what was measured."""
        self.now = 0
        self._begun = 0
        self.events = self.reads = 0
        self.requests = 0
        self.troubles: Counter[str] = Counter()
        self.delays: list[int] = []
        self.latencies: list[int] = []
        self.first_bytes: list[int] = []

    def run(self, seconds: float) -> float:
        """Load for some seconds and wait for what was begun. Returns the seconds until the last answer."""
        host = f"{self.address[0]}:{self.address[1]}"
        for number, connection in enumerate(self._connections):
            connection.message = request(self.case, number, host, self._headers)
        started = time.monotonic_ns()
        self._until = started + int(seconds * 1e9)
        for number, connection in enumerate(self._connections):
            self._turn(until=started + number * self.case.stagger_us * 1000)
            self._begin(connection)
        give_up = self._until + int(_GRACE * 1e9) + self.case.chunks * self.case.pause_us * 1000
        while (self._busy or self._again) and time.monotonic_ns() < give_up:
            self._turn(until=give_up)
        if self._busy:
            self.troubles["hung"] += self._busy
        return (time.monotonic_ns() - started) / 1e9

    def _turn(self, until: int) -> None:
        """Handle what comes until a time, or once where that is far away."""
        while True:
            self._go_on()
            wait = (until - time.monotonic_ns()) / 1e9
            if not self._busy and wait >= 0.01:
                return
            if 0 < wait < 0.01:
                select.select([self._epoll], (), (), wait)  # epoll itself waits whole milliseconds
            events = self._epoll.poll(max(0, wait) if wait >= 0.01 else 0)
            for fd, event in events:
                if (connection := self._by_fd.get(fd)) is not None:
                    if event & select.EPOLLOUT:
                        self._send(connection)
                    if event & ~select.EPOLLOUT:
                        self._read(connection)
            if wait <= 0 or wait >= 0.01:
                return

    def _go_on(self) -> None:
        # The next burst begins when the last answer of this one has come.
        while self._again and not (self.case.burst and self._busy):
            again, self._again = self._again, []
            for connection in again:
                self._begin(connection)

    def _begin(self, connection: _Connection) -> None:
        self._busy += 1
        self._begun += 1
        connection.begin()
        if connection.sock is None:
            try:
                sock = connection.connect()
            except OSError as error:
                self._failed(connection, type(error).__name__)
                return
            self._by_fd[sock.fileno()] = connection
            self._epoll.register(sock, select.EPOLLIN)
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        assert connection.sock is not None
        data = connection.unsent
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(connection, type(error).__name__)
            return
        connection.unsent = data[sent:]
        if sent < len(data):
            self._epoll.modify(connection.sock, select.EPOLLIN | select.EPOLLOUT)
        elif data is not connection.message:
            self._epoll.modify(connection.sock, select.EPOLLIN)

    def _read(self, connection: _Connection) -> None:
        assert connection.sock is not None
        try:
            if self.case.stream:
                data, notes, *_ = connection.sock.recvmsg(262144, socket.CMSG_SPACE(_TIME.size))
                self.now = arrived(notes, time.time_ns(), time.monotonic_ns())
            else:
                data = connection.sock.recv(262144)
                self.now = time.monotonic_ns()
            self.reads += 1
            if data:
                connection.heard = True
                connection.parser.feed_data(data)
            else:
                self._broken(connection, "closed")
        except BlockingIOError:
            return
        except (OSError, httptools.HttpParserError) as error:
            self._broken(connection, type(error).__name__)

    def _broken(self, connection: _Connection, why: str) -> None:
        """Connection lost: a server may close one between two requests, everything else is trouble."""
        self._drop(connection)
        if not connection.begun:
            return
        if connection.fresh or connection.heard:
            self._failed(connection, why)
        else:  # it crossed the request, which goes out again
            connection.begun = 0
            self._busy -= 1
            self._begun -= 1
            self._again.append(connection)

    def _failed(self, connection: _Connection, why: str) -> None:
        connection.begun = 0
        self._busy -= 1
        self.troubles[why] += 1
        self._later(connection)

    def ended(self, connection: _Connection, *, ok: bool) -> None:
        """Note an answer and go on."""
        self._busy -= 1
        self.requests += 1
        if ok:
            connection.tries = 0
            self.latencies.append(self.now - connection.begun)
            if connection.first:
                self.first_bytes.append(connection.first - connection.begun)
        else:
            self.troubles[f"broken answer ({connection.parser.get_status_code()})"] += 1
        connection.begun = 0
        connection.fresh = False
        if not connection.parser.should_keep_alive():
            self._drop(connection)
        self._later(connection, failed=not ok)

    def _drop(self, connection: _Connection) -> None:
        assert connection.sock is not None
        del self._by_fd[connection.sock.fileno()]
        connection.sock.close()
        connection.sock = None

    def _later(self, connection: _Connection, *, failed: bool = True) -> None:
        connection.tries += failed
        limit = self.case.requests
        enough = limit and self._begun + len(self._again) >= limit
        if connection.tries < _TRIES and self.now < self._until and not enough:
            self._again.append(connection)

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._by_fd.values()):
            self._drop(connection)
        self._epoll.close()

    def figures(self, seconds: float) -> dict[str, object]:
        """What was measured."""
        return {
            "seconds": round(seconds, 4),
            "requests": self.requests,
            "events": self.events,
            "reads": self.reads,
            "troubles": dict(self.troubles),
            **percentiles("latency_ms", self.latencies),
            **percentiles("ttft_ms", self.first_bytes),
            **percentiles("delay_ms", self.delays),
        }


def arrived(notes: Sequence[tuple[int, int, bytes]], clock: int, now: int) -> int:
    """When what was read had reached the socket, on the monotonic clock; now where the kernel does not say.

    So a chunk is not late because the load was late to read it.

    Args:
        notes: What a read says beside its bytes.
        clock: Nanoseconds of the clock on the wall.
        now: Monotonic nanoseconds of the same moment, or of one later, which makes a delay longer, not shorter.
    """
    for level, kind, value in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIME.unpack(value)
            return now - (clock - seconds * 1_000_000_000 - nanoseconds)
    return now


def percentiles(name: str, values: list[int]) -> dict[str, float]:
    """The median, the 99th percentile and the maximum of nanoseconds, in milliseconds; nothing of nothing."""
    if not values:
        return {}
    values.sort()
    last = len(values) - 1
    return {
        f"{name}_{tag}": round(values[round(last * share)] / 1e6, 4)
        for tag, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def main() -> None:
    """Load an address as a case says."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--case", required=True, help="a case as JSON")
    options.add_argument("--header", action="append", default=[], help="'Name: value' to add to each request")
    given = options.parse_args()
    load = Load(Case(**json.loads(given.case)), ("127.0.0.1", given.port), given.header)
    load.warm_up()
    print(json.dumps({"troubles": dict(load.troubles)}), flush=True)
    if not sys.stdin.readline():
        return
    load.reset()
    gc.collect()
    gc.disable()
    before = time.process_time()
    figures = load.figures(load.run(load.case.seconds))
    print(json.dumps({**figures, "load_cpu": round(time.process_time() - before, 3)}), flush=True)


def as_argument(case: Case) -> str:
    """A case as ``--case`` takes it."""
    return json.dumps(asdict(case))


if __name__ == "__main__":
    main()
