"""The one place that starts tasks: they are kept alive, named, and their failures are logged."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.aside import AT_A_STRETCH
from gateway.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

AGAIN_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
    """Start a task that the garbage collector cannot take and whose failure is not lost."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_finished)
    return task


def _finished(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("task %s failed", task.get_name(), exc_info=error)


async def bounded(coroutine: Coroutine[Any, Any, object], *, within: float, name: str) -> None:
    """Wait for the end of a coroutine, but not for longer than this: for what must not hold up a shutdown.

    Args:
        coroutine: What is to end; its failure is logged.
        within: Seconds after which it is cancelled and left to itself.
        name: What it is called in the log.
    """
    task = spawn(coroutine, name=name)
    _, late = await asyncio.wait((task,), timeout=within)
    if late:
        _log.warning("task %s did not end within %g s and is given up", name, within)
        task.cancel()


async def in_turns(steps: Iterable[None]) -> None:
    """Do work in the loop a little at a time.

    Args:
        steps: Does a step of it for each item that is taken.
    """
    until = clock.monotonic() + AT_A_STRETCH
    for _ in steps:
        if clock.monotonic() > until:
            await asyncio.sleep(0)
            until = clock.monotonic() + AT_A_STRETCH


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is gone.

    It is cancelled again after a while: a library that cancels something of its own at the same moment may
    take the first cancellation for that.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=AGAIN_SECONDS)
