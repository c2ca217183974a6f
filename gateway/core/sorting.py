"""Which servers of a pool may take a request, and why the others may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.core import reasons
from gateway.core.filters import incapable as incapable_of
from gateway.core.filters import least_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.features import Features
    from gateway.core.policy import Route
    from gateway.core.roster import Look
    from gateway.core.standing import Standing


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


class Line(NamedTuple):
    """Who of a pool may be used at a moment by the requests of a route, whatever they ask for.

    Attributes:
        look: How all of them stand.
        ranks: The place of each in the route's preferences, under its present load.
        unnamed: The place of those that the route does not name.
        why: Why each may not be used, None where it may.
        free: Whether each may.
        usable: The pool sorted out by that.
    """

    look: Look
    ranks: Sequence[int]
    unnamed: int
    why: Sequence[Rejected | None]
    free: Sequence[bool]
    usable: Sorted


def sort_out(line: Line, features: Features, now: float) -> Sorted:
    """Sort a pool out for a request."""
    pin = features.hints.backend
    if pin is None and _fits_all(line.look, features):
        return line.usable
    servers, ranks, why = line.look.standings, line.ranks, line.why
    tokens = least_tokens(features)
    capable: list[int] = []
    incapable: list[int] = []
    rejected: list[Rejected] = []
    if pin is not None:
        (code, words), alone = _bound(pin, held=features.hints.held)
        rejected = [Rejected(one.name, code, words) for one in servers if one.name != pin]
        servers = [one for one in servers if one.name == pin]
        outs = [one.out for one in servers]
        ranks, why = (0,), [None if out is None else Rejected(pin, out[0], out[1] + alone) for out in outs]
    for at, one in enumerate(servers):
        if (out := why[at]) is not None:
            rejected.append(out)
        elif (tokens > one.room or one.picky) and (unable := incapable_of(one.state, features, now)):
            rejected.append(Rejected(one.name, *unable))
            incapable.append(at)
        else:
            capable.append(at)
    places = capable or incapable
    return Sorted([servers[at] for at in places], [ranks[at] for at in places], rejected, bool(capable))


def _bound(pin: str, *, held: bool) -> tuple[tuple[str, str], str]:
    """Why a request goes to one server only: said of all others, and behind what is wrong with that one."""
    if held:
        return (reasons.NOT_HOLDER, f"{pin} holds the response that is asked for"), (
            ", and no other holds the response that is asked for"
        )
    return (reasons.NOT_PINNED, f"the caller chose {pin}"), ""


def baselines_of(
    line: Line, found: Sorted, features: Features, route: Route, places: Sequence[int], now: float
) -> Sequence[int]:
    """Places of the baselines that may be measured: those that can take the request.

    A route's own share goes to any, what is due for the measure of speed-up to those that the route names.
    """
    if features.hints.backend is not None:
        return []
    if not route.baseline_share:
        places = [at for at in places if line.ranks[at] != line.unnamed]
    if found is line.usable and not line.look.out:
        return places
    servers = line.look.standings
    return [
        at for at in places if not (one := servers[at]).out and not incapable_of(one.state, features, now)
    ]


def _fits_all(look: Look, features: Features) -> bool:
    """Whether a request asks for nothing that a server of the pool may refuse."""
    return (
        not look.wary
        and least_tokens(features) <= look.room
        and (not features.parameters or look.refuses.isdisjoint(features.parameters))
    )
