"""What is to be said of the servers of one target, in words and numbers."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.runtime.advice import advise

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from gateway.core.plan import Kind, Wanted

_log = logging.getLogger(__name__)

LASTS: Final = 60.0
"""Seconds for which what is said of the same servers is not made anew."""


@dataclass(frozen=True, slots=True)
class FleetAdvice:
    """What is to be said of the servers of one target.

    Attributes:
        routing: Output that telling workloads apart adds to spreading load alone, as a share.
        consolidating: Output that each backend's configuration on all servers would add, as a share.
        words: The same in sentences.
    """

    routing: float
    consolidating: Mapping[str, float]
    words: tuple[str, ...]

    @classmethod
    def of(cls, kinds: Sequence[Kind], wanted: Sequence[Wanted]) -> FleetAdvice:
        """Work it out; takes tenths of a second."""
        found = advise(kinds, wanted)
        first = {kind.model.fingerprint: kind.backends[0] for kind in kinds}
        gains = {one: option.gain for option in found.options for one in option.servers}
        same = {kind.configuration: kind.model.fingerprint for kind in reversed(kinds)}
        consolidating = {kind.backends[0]: gains[same[kind.configuration]] for kind in kinds}
        names = {known: f"{name}'s configuration" for known, name in first.items()}
        return cls(found.routing, consolidating, found.words(names))


class Advising:
    """Makes advice anew from time to time. One event loop owns it.

    Attributes:
        now: The advice, by target.
    """

    def __init__(self) -> None:
        self.now: Mapping[str, FleetAdvice] = {}
        self._made: dict[str, tuple[float, frozenset[tuple[str, str]]]] = {}

    async def renew(self, target: str, kinds: Sequence[Kind], wanted: Sequence[Wanted], at: float) -> None:
        """Look at a target at monotonic seconds, beside the loop; where that fails the last advice stays."""
        servers = frozenset((name, one.model.fingerprint) for one in kinds for name in one.backends)
        before, of = self._made.get(target, (-math.inf, servers))
        if at - before < LASTS and servers == of:
            return
        self._made[target] = at, servers
        try:
            found = await asyncio.to_thread(FleetAdvice.of, kinds, wanted)
        except Exception:  # noqa: BLE001 - whatever it is, requests and roles do not depend on it
            _log.exception("no new advice on %s", target)
            return
        self.now = {**self.now, target: found}

    def keep(self, served: Container[str]) -> None:
        """Forget other targets than these."""
        self.now = {target: one for target, one in self.now.items() if target in served}
        self._made = {target: one for target, one in self._made.items() if target in served}
