"""A server of raw bytes for tests of HTTP clients: a script says what each connection gets."""

import asyncio
import socket
from contextlib import asynccontextmanager

RESET = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER that makes close() send a reset."""


def length(head):
    return next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )


class Server:
    """Hands each request to ``script(reader, writer)`` after it was read, until the script returns false.

    With ``unread`` the script gets the connection after the request's head, its body still to be read; with
    ``silent`` it gets it untouched.

    Attributes:
        requests: Heads and bodies as they came.
        connections: How many were accepted.
        closed: Set when a client has closed its side.
    """

    def __init__(self, script, *, unread=False, silent=False):
        self._script = script
        self._unread = unread
        self._silent = silent
        self._handlers = set()
        self.requests = []
        self.connections = 0
        self.closed = asyncio.Event()

    async def __call__(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self._handlers.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._handlers.discard(task)

    async def _one(self, reader, writer):
        if not self._silent:
            head = await reader.readuntil(b"\r\n\r\n")
            body = b"" if self._unread else await reader.readexactly(length(head))
            self.requests.append((head, body))
        return await self._script(reader, writer)

    async def stop(self):
        handlers = tuple(self._handlers)
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


@asynccontextmanager
async def serving(script, *, host="127.0.0.1", tls=None, **how):
    """Serve on a free port; gives the server and its base URL."""
    server = Server(script, **how)
    listener = await asyncio.start_server(server, host, 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    try:
        yield server, f"{'https' if tls else 'http'}://{shown}:{port}"
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()


def saying(*answers):
    """A script that gives these answers one after the other, each to a request, and stays."""
    left = list(answers)

    async def script(_, writer):
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        return True

    return script


def only_first(answer):
    """A script that gives an answer to the first request, and to every other one closes without a word."""
    left = [answer]

    async def script(_, writer):
        if not left:
            return False
        writer.write(left.pop())
        return True

    return script


def reset(writer):
    """Make the end of the script a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


async def gone(reader):
    """Wait until the client has closed its side."""
    while await reader.read(2**16):
        pass
    raise ConnectionResetError


@asynccontextmanager
async def full_listener():
    """The URL of a socket whose backlog is full, so that connecting to it takes for ever."""
    with socket.socket() as listener, socket.socket() as filler:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filler.connect(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
