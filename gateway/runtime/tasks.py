"""The one place that starts tasks: they are kept alive, named, and their failures are logged."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

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


async def cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is gone."""
    task.cancel()
    await asyncio.wait((task,))
