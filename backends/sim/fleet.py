"""Several simulated servers in one process, on ports of their own."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backends.sim.running import Running
from backends.sim.server import Options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = ["Member", "Running", "run_fleet"]


@dataclass(frozen=True, slots=True)
class Member:
    """A server to start.

    Attributes:
        target: Hugging Face id of the target model.
        method: Speculative method, ``none`` for the baseline.
        draft_tokens: N; 0 for the baseline.
        name: What to call it; made from method and N where empty.
        port: Port to listen on; 0 for a free one.
    """

    target: str
    method: str = "none"
    draft_tokens: int = 0
    name: str = ""
    port: int = 0
    options: Options = field(default_factory=Options)

    @property
    def label(self) -> str:
        """Its name, or one made from method and N."""
        return self.name or (f"{self.method}-{self.draft_tokens}" if self.draft_tokens else self.method)


@contextlib.asynccontextmanager
async def run_fleet(
    members: Sequence[Member], *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Running, ...]]:
    """Start servers in the running loop and stop them at the end.

    Yields:
        The servers in the order given, all of them listening; tests may kill and revive them.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: A member has no profile.
        OSError: A port is taken.
        ValueError: A member could not start as a real server could not.
    """
    fleet = tuple(Running(member, host) for member in members)
    try:
        for one in fleet:
            await one.start()
        yield fleet
    finally:
        await asyncio.gather(*(one.stop() for one in fleet))
