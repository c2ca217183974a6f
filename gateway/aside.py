"""Long work in a thread steps aside now and then, so that streams do not wait for it.

A thread that does not sleep may keep others from its CPU until a tick of the kernel, 4 ms and more, however
soon it would give away the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")

AT_A_STRETCH: Final = 0.0005
"""Seconds of work after which streams come first; a thread steps aside ..."""

_ASIDE: Final = 0.00005
"""... for so many: who waits for the CPU gets it at once, and keeps it for as long as it has to do."""

_threads: Final = threading.local()


def step_aside() -> None:
    """Sleep for a moment if this thread has not for a while; to be called between steps of long work."""
    if time.thread_time() - getattr(_threads, "slept", 0.0) > AT_A_STRETCH:
        time.sleep(_ASIDE)
        _threads.slept = time.thread_time()


def unhurried(items: Iterable[_T]) -> Iterator[_T]:
    """The same items, with a chance to step aside before each."""
    for one in items:
        step_aside()
        yield one
