"""Which servers of a pool may take a request, and why the others may not."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core import reasons
from gateway.core.filters import incapable as incapable_of
from gateway.core.filters import least_tokens
from gateway.core.selectors import Ranking

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.core.features import Features
    from gateway.core.policy import Route
    from gateway.core.roster import Look
    from gateway.core.standing import Standing


_PINNED: Final = Ranking((0,), unnamed=1)


# A tuple, as there is one for each backend that is out, which may be a thousand.
class Rejected(NamedTuple):
    """A backend that may not take the request.

    Attributes:
        reason: A code of :mod:`gateway.core.reasons`.
        detail: The same in words.
    """

    backend: str
    reason: str
    detail: str


@lru_cache(1 << 14)
def _not_named(backend: str, route: str) -> Rejected:
    """Said of the same ones at each request, which may be a thousand."""
    return Rejected(backend, reasons.NOT_PREFERRED, f"route {route} does not name it")


class Sorted(NamedTuple):
    """A pool sorted out.

    Attributes:
        servers: Those that can take the request.
        ranks: The place of each in the route's preferences.
        capable: False where no other is left than those that are kept from it by the request alone; they are
            among the rejected, too.
    """

    servers: Sequence[Standing]
    ranks: Sequence[int]
    rejected: Sequence[Rejected]
    capable: bool


def sort_out(
    look: Look, ranking: Ranking, ranks: Sequence[int], features: Features, route: Route, now: float
) -> Sorted:
    """Sort a pool out; ``ranks`` are those under its present load."""
    servers, pin, unnamed = look.standings, features.hints.backend, ranking.unnamed
    if pin is None and unnamed not in ranks and _all_take(look, features):
        return Sorted(servers, ranks, (), capable=True)
    tokens = least_tokens(features)
    capable: list[int] = []
    incapable: list[int] = []
    rejected: list[Rejected] = []
    if pin is not None:
        words = f"the caller chose {pin}"
        rejected = [Rejected(one.name, reasons.NOT_PINNED, words) for one in servers if one.name != pin]
        servers = [one for one in servers if one.name == pin]
        ranking, ranks, unnamed = _PINNED, _PINNED.ranks, _PINNED.unnamed
    for at, one in enumerate(servers):
        if ranks[at] == unnamed:
            if ranking.ranks[at] == unnamed:
                rejected.append(_not_named(one.name, route.name))
            else:
                full = f"{one.state.in_flight} requests in flight, more than route {route.name} lets it have"
                rejected.append(Rejected(one.name, reasons.FULL, full))
        elif one.out:
            rejected.append(Rejected(one.name, *one.out))
        elif (tokens > one.room or one.picky) and (unable := incapable_of(one.state, features, now)):
            rejected.append(Rejected(one.name, *unable))
            incapable.append(at)
        else:
            capable.append(at)
    places = capable or incapable
    return Sorted([servers[at] for at in places], [ranks[at] for at in places], rejected, bool(capable))


def baselines_of(
    look: Look,
    ranking: Ranking,
    ranks: Sequence[int],
    features: Features,
    route: Route,
    places: Iterable[int],
    now: float,
) -> list[int]:
    """Places of the baselines that may be measured: those that can take the request.

    A route's own share goes to any, what is due for the measure of speed-up to those that the route names.
    """
    if features.hints.backend is not None:
        return []
    if not route.baseline_share:
        places = [at for at in places if ranks[at] != ranking.unnamed]
    if _all_take(look, features):
        return [*places]
    servers = look.standings
    return [
        at for at in places if not (one := servers[at]).out and not incapable_of(one.state, features, now)
    ]


def _all_take(look: Look, features: Features) -> bool:
    """Whether each server of a pool takes a request."""
    return (
        not look.held
        and least_tokens(features) <= look.room
        and (not features.parameters or look.refuses.isdisjoint(features.parameters))
    )
