"""Responses that are made in the background: nobody waits for them, and they are asked for later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from backends.sim.asgi import Request

_COMPLETED: Final = b"event: response.completed\n"


class Work:
    """The answer to one request, in the place of a connection; its events are kept for those who ask.

    Attributes:
        failed: Whether it ended in an error.
    """

    def __init__(self) -> None:
        self.failed = False
        self._events: list[bytes] = []
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    def begin(self, run: Callable[[Work], Coroutine[None, None, None]]) -> None:
        """Have it made."""
        self._task = asyncio.get_running_loop().create_task(run(self), name="response in the background")

    async def cancel(self) -> None:
        """Stop it; it is stopped on return."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def left(self) -> None:
        """Nobody is there who could leave."""
        await asyncio.get_running_loop().create_future()

    async def reply(self, _body: bytes, *, status: int = 200) -> None:
        """Take the whole answer, which is stored by who made it."""
        self.failed = status >= 400

    async def stream(self) -> None:
        """Take what follows as events."""

    async def write(self, body: bytes, *, more: bool) -> None:  # noqa: ARG002 - as a connection has it
        """Take some of the events."""
        async with self._news:
            self._events += [one + b"\n\n" for one in body.split(b"\n\n") if one]
            self._news.notify_all()

    async def follow(self, request: Request, first: int) -> None:
        """Send the events from one on; where the response was cancelled that does not end, as in vLLM."""
        await request.stream()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send(request, first))
            leaving = group.create_task(request.left())
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            sending.cancel()
            leaving.cancel()

    async def _send(self, request: Request, at: int) -> None:
        while True:
            async with self._news:
                while len(self._events) <= at:
                    await self._news.wait()
            for event in self._events[at:]:
                at += 1
                last = event.startswith(_COMPLETED)
                await request.write(event, more=not last)
                if last:
                    return
