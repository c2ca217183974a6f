"""Which servers of a pool may take a request, and why the others may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.core import reasons
from gateway.core.filters import incapable as incapable_of
from gateway.core.filters import least_tokens
from gateway.core.selectors import Ranking
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.core.features import Features
    from gateway.core.policy import Route
    from gateway.core.standing import Ranked, Standing


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


@value(frozen=True, slots=True)
class Sorted:
    """A pool sorted out.

    Attributes:
        incapable: Those that are kept from it by the request alone; they are among the rejected, too.
    """

    capable: list[Ranked]
    incapable: list[Ranked]
    rejected: list[Rejected]


def sort_out(
    servers: Sequence[Standing],
    ranking: Ranking,
    ranks: Sequence[int],
    features: Features,
    route: Route,
    now: float,
) -> Sorted:
    """Sort a pool out; ``ranks`` are those under its present load."""
    capable: list[Ranked] = []
    incapable: list[Ranked] = []
    rejected: list[Rejected] = []
    pin = features.hints.backend
    if pin is not None:
        rejected = [
            Rejected(one.name, reasons.NOT_PINNED, f"the caller chose {pin}")
            for one in servers
            if one.name != pin
        ]
        servers = [one for one in servers if one.name == pin]
        ranking, ranks = Ranking((0,), unnamed=1), (0,)
    unnamed, detail, tokens = ranking.unnamed, f"route {route.name} does not name it", least_tokens(features)
    for one, idle, rank in zip(servers, ranking.ranks, ranks, strict=True):
        if rank == unnamed:
            if idle == unnamed:
                rejected.append(Rejected(one.name, reasons.NOT_PREFERRED, detail))
            else:
                full = f"{one.state.in_flight} requests in flight, more than route {route.name} lets it have"
                rejected.append(Rejected(one.name, reasons.FULL, full))
        elif one.out:
            rejected.append(Rejected(one.name, *one.out))
        elif (tokens > one.most_tokens or one.picky) and (unable := incapable_of(one.state, features, now)):
            rejected.append(Rejected(one.name, *unable))
            incapable.append((one, rank))
        else:
            capable.append((one, rank))
    return Sorted(capable, incapable, rejected)


def baselines_of(
    servers: Sequence[Standing],
    ranking: Ranking,
    ranks: Sequence[int],
    features: Features,
    route: Route,
    places: Iterable[int],
    now: float,
) -> list[Ranked]:
    """The baselines that may be measured: those that can take the request.

    A route's own share goes to any, what is due for the measure of speed-up to those that the route names.
    """
    if features.hints.backend is not None:
        return []
    return [
        (servers[at], ranks[at])
        for at in places
        if (route.baseline_share or ranks[at] != ranking.unnamed)
        and not servers[at].out
        and not incapable_of(servers[at].state, features, now)
    ]
