"""Tells a server that hangs from one that is slow: by how long nothing has come of all that is asked of it.

One stream alone says little: a server that is short of KV cache lets it wait until others have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sweep.answer import Answer

FIRST: Final = 3
"""Patiences without a first token that are a hang: prompts are read, and kernels compiled, in silence."""


class DeadServerError(RuntimeError):
    """The server stopped answering within a round; the text says how."""


class StalledServerError(DeadServerError):
    """It takes requests, and none of them gets on; the text says for how long."""


class Watch:
    """The open requests of a server, and when something last came of any."""

    def __init__(self, patience: float) -> None:
        """Begin with no request, in a running loop.

        Args:
            patience: Seconds that may go by without an event of any stream that has begun;
                :data:`FIRST` times as many where none has.
        """
        self._patience = patience
        self._clock = asyncio.get_running_loop().time
        self._open: set[Answer] = set()
        self._heard = self._clock()

    @contextlib.contextmanager
    def over(self, answer: Answer) -> Iterator[None]:
        """Count a request as open for as long as the context lasts."""
        self._open.add(answer)
        self.heard()
        try:
            yield
        finally:
            self._open.discard(answer)
            self.heard()

    def heard(self) -> None:
        """Something came, or a request began or ended."""
        self._heard = self._clock()

    async def silence(self) -> NoReturn:
        """Wait for a hang.

        Raises:
            StalledServerError: There is one.
        """
        while True:
            begun = any(one.begun for one in self._open)
            allowed = self._patience if begun else FIRST * self._patience
            left = self._heard + allowed - self._clock()
            if left <= 0.0:
                what = "token of any answer" if begun else "first token"
                raise StalledServerError(f"no {what} for {allowed:g} s, with {len(self._open)} in flight")
            # No longer than one patience: a stream that begins meanwhile makes the time shorter.
            await asyncio.sleep(min(left, self._patience))
