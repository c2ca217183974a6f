"""How much of a replay rests on the model alone, as the log has few requests that went there.

Where many logged requests went to a server at about the load that another policy puts on it, what the model
is wrong by is mended by them. Where few did, a step may take longer or shorter by as much as before the first
request, and all the policy's requests there by the same factor. So it is with what a draft is believed to
accept of a workload, whose error the model gives.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.standing import step_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.core.predict import ServerModel

FEW: Final = 10
"""Logged requests on a server at about a load below which the log tells little of it."""

_ABOUT: Final = 2.0
"""Loads up to this factor apart are about the same."""

_SIGMAS: Final = 1.96


class Stay(NamedTuple):
    """A request on a server.

    Attributes:
        label: Its workload.
        backend: The server.
        load: Requests on it when this one came, this one too.
        seconds: How long the model says that it stays.
    """

    label: str
    backend: str
    load: int
    seconds: float


class Untold(NamedTuple):
    """What a log does not tell.

    Attributes:
        requests: Requests of the other policy that go to a server at a load of which the log has fewer than
            :data:`FEW`.
        error: Half the width of the 95 % interval of the mean seconds a request, as far as the model may be
            wrong where the log is silent.
    """

    requests: int
    error: float


def untold(was: Iterable[Stay], would: Sequence[Stay], models: Mapping[str, ServerModel]) -> Untold:
    """Compare where another policy sends requests with where logged ones went.

    Args:
        was: The requests as they were logged.
        would: The same under the other policy; at least one.
        models: What is believed of each server.
    """
    loads = defaultdict[str, list[int]](list)
    for one in was:
        loads[one.backend].append(one.load)
    for of in loads.values():
        of.sort()
    few, errors = 0, defaultdict[tuple[str, str], float](float)
    for one in would:
        near, model = _near(loads[one.backend], one.load), models[one.backend]
        few += near < FEW
        errors[one.backend, ""] += one.seconds * step_spread(near)
        errors[one.backend, one.label] += one.seconds * model.spread.get(one.label, model.other_spread)
    return Untold(few, _SIGMAS * math.hypot(*errors.values()) / len(would))


def _near(loads: Sequence[int], load: int) -> int:
    """How many of some loads, in order, are about one."""
    return bisect_right(loads, load * _ABOUT) - bisect_left(loads, load / _ABOUT)
