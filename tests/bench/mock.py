"""The mock upstream: a vLLM server that costs next to nothing, as a process of its own.

Written here, since no packaged tool streams paced server-sent events that hold the time they left. One thread on
plain epoll with httptools: a chunk costs one ``send`` and about 2 µs around it, where asyncio, even on uvloop,
adds a transport and a timer with a resolution of 1 ms, which would bunch paced chunks of different streams.

Of a completion request it reads ``stream``, ``max_tokens`` (number of chunks with text), ``seed`` (pause between
them in microseconds) and ``include_usage``; gateways pass these on. Each chunk goes out in a ``send`` of its own.
A chunk that is late is not made up for: the next is due one pause after it. Prints its ports as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import re
import select
import socket
import sys
import time
from collections import deque
from heapq import heappop, heappush

import httptools

from tests.bench import answers

_SEED = re.compile(rb'"seed":\s*(\d+)')
_CHUNKS = re.compile(rb'"max_tokens":\s*(\d+)')
_STREAM = re.compile(rb'"stream":\s*true')
_USAGE = re.compile(rb'"include_usage":\s*true')
_ENDS = 4096
"""Bytes at either end of a body that are searched: the middle of a long one is the prompt."""


class _Connection:
    """One connection, which is also its parser's listener, and the stream that runs on it."""

    __slots__ = ("_body", "_path", "chunks", "left", "mock", "parser", "pause", "pending", "sock", "usage")

    def __init__(self, mock: Mock, sock: socket.socket) -> None:
        self.mock = mock
        self.sock = sock
        self.parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body: list[bytes] = []
        self.pending = b""
        self.chunks = self.left = 0
        self.pause = 0
        self.usage = False

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        path, body = self._path.partition(b"?")[0].decode(), b"".join(self._body)
        self._body.clear()
        if not path.endswith("/completions"):
            self.mock.send(self, answers.ROUTES.get(path, answers.NOT_FOUND))
            return
        if len(body) > 2 * _ENDS:
            body = body[:_ENDS] + body[-_ENDS:]
        if not _STREAM.search(body):
            self.mock.send(self, answers.COMPLETION)
            return
        chunks, seed = _CHUNKS.search(body), _SEED.search(body)
        self.chunks = self.left = int(chunks[1]) if chunks else 128
        self.pause = 1000 * int(seed[1]) if seed else 0
        self.usage = _USAGE.search(body) is not None
        if self.mock.send(self, answers.STREAM_HEAD + answers.ROLE):
            self.mock.queue(self, time.monotonic_ns())


class Mock:
    """Listeners, connections and the streams that run."""

    def __init__(self, listeners: list[socket.socket]) -> None:
        """Serve these listeners, each one backend."""
        self._epoll = select.epoll()
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._connections: dict[int, _Connection] = {}
        self._ready: deque[_Connection] = deque()
        self._timed: list[tuple[int, int, _Connection]] = []
        self._order = 0
        for fd in self._listeners:
            self._epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        """Serve for ever."""
        while True:
            for fd, event in self._events():
                if fd in self._listeners:
                    self._accept(self._listeners[fd])
                elif (connection := self._connections.get(fd)) is not None:
                    if event & select.EPOLLOUT:
                        self._flush(connection)
                    if event & ~select.EPOLLOUT:
                        self._read(connection)
            self._step()

    def _events(self) -> list[tuple[int, int]]:
        if self._ready:
            return self._epoll.poll(0)
        if not self._timed:
            return self._epoll.poll()
        wait = (self._timed[0][0] - time.monotonic_ns()) / 1e9
        if wait > 0:  # epoll itself waits whole milliseconds, select on it microseconds
            select.select([self._epoll], (), (), wait)
        return self._epoll.poll(0)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections[sock.fileno()] = _Connection(self, sock)
                self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(262144)
            if data:
                connection.parser.feed_data(data)
                return
        except BlockingIOError:
            return
        except (OSError, httptools.HttpParserError):
            pass
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection.sock.fileno() >= 0:
            del self._connections[connection.sock.fileno()]
            connection.sock.close()

    def send(self, connection: _Connection, data: bytes) -> bool:
        """Send now; False if the connection is gone or some is left for later."""
        if connection.pending:
            connection.pending += data
            return False
        try:
            sent = connection.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return False
        if sent == len(data):
            return True
        connection.pending = data[sent:]
        self._epoll.modify(connection.sock, select.EPOLLIN | select.EPOLLOUT)
        return False

    def _flush(self, connection: _Connection) -> None:
        data, connection.pending = connection.pending, b""
        if self.send(connection, data):
            self._epoll.modify(connection.sock, select.EPOLLIN)
            if connection.left:
                self.queue(connection, time.monotonic_ns())

    def queue(self, connection: _Connection, due: int) -> None:
        """Let a stream go on one pause after the time ``due`` of its last chunk."""
        if connection.pause:
            self._order += 1
            heappush(self._timed, (due + connection.pause, self._order, connection))
        else:
            self._ready.append(connection)

    def _step(self) -> None:
        """Send one chunk of every stream that is due."""
        ready, timed = self._ready, self._timed
        for _ in range(len(ready)):
            self._chunk(ready.popleft(), 0)
        now = time.monotonic_ns()
        while timed and timed[0][0] <= now:
            due, _, connection = heappop(timed)
            # Less than a pause late keeps the beat.
            self._chunk(connection, due if now - due < connection.pause else now)

    def _chunk(self, connection: _Connection, due: int) -> None:
        connection.left -= 1
        before, after = answers.CONTENT if connection.left else answers.LAST_CONTENT
        going = self.send(connection, b"%s%020d%s" % (before, time.monotonic_ns(), after))
        if connection.left:
            if going:
                self.queue(connection, due)
            return
        if connection.usage:
            self.send(connection, answers.USAGE)
        self.send(connection, answers.STREAM_END)


def main() -> None:
    """Listen on free ports of the loopback, say which, serve."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--backends", type=int, default=2, help="ports to listen on")
    listeners = []
    for _ in range(options.parse_args().backends):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.setblocking(False)
        listeners.append(listener)
    json.dump({"ports": [listener.getsockname()[1] for listener in listeners]}, sys.stdout)
    print(flush=True)
    gc.disable()  # connections are cycles, but few, and a collection is a delay that no gateway caused
    Mock(listeners).run()


if __name__ == "__main__":
    main()
