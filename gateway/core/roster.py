"""What follows from a fleet's backends alone, worked out once for all decisions: pools and their ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.selectors import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.fleet import Backend
    from gateway.core.policy import Selector
    from gateway.core.selectors import Ranking


class Pool:
    """The backends that serve one target.

    Attributes:
        positions: Their places among all backends, in order.
    """

    __slots__ = ("_backends", "_rankings", "positions")

    def __init__(self, backends: Sequence[Backend], target: str) -> None:
        """Pick the backends of a target; an empty name stands for all."""
        self.positions = tuple(at for at, one in enumerate(backends) if not target or one.target == target)
        self._backends = tuple(backends[at] for at in self.positions)
        self._rankings: dict[tuple[Selector, ...], Ranking] = {}

    def ranking(self, prefer: tuple[Selector, ...]) -> Ranking:
        """Ranks of the backends in a list of preferences; remembered, as a policy has few such lists."""
        if (known := self._rankings.get(prefer)) is None:
            known = self._rankings[prefer] = rank(prefer, self._backends)
        return known


_EMPTY: Final = Pool((), "")


class Roster:
    """The backends of one fleet file, by target."""

    __slots__ = ("_pools",)

    def __init__(self, backends: Sequence[Backend]) -> None:
        """Sort backends into pools."""
        targets = {"", *(backend.target for backend in backends)}
        self._pools = {target: Pool(backends, target) for target in targets}

    def pool(self, target: str) -> Pool:
        """The backends of a target, empty where nobody serves it; an empty name stands for all."""
        return self._pools.get(target, _EMPTY)
