"""What a server turned out to refuse: requests of a shape that a server of another kind took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.features import Features

    Shape = tuple[str, frozenset[str], int]
    """Endpoint, parameters, and length up to a factor of two."""

TIMES: Final = 2
"""Refusals with none taken in between that show it: one may be due to what the request said."""

FIRST_WAIT: Final = 60.0
"""Seconds until it is asked again; twice as many after each further refusal."""

LONGEST_WAIT: Final = 3600.0
SHAPES: Final = 64
"""Shapes remembered of a server; the oldest gives way."""

_CHARS_PER_TOKEN: Final = 4


class Refused(NamedTuple):
    """What became of requests of one shape.

    Attributes:
        times: Refusals since one was last taken.
        until: Monotonic seconds until which such requests go elsewhere.
    """

    times: int
    until: float


def shape_of(features: Features) -> Shape:
    """What decides whether a server takes a request, as far as it can be told without its text."""
    tokens = features.prompt_chars // _CHARS_PER_TOKEN + (features.max_tokens or 0)
    return features.endpoint, features.parameters, tokens.bit_length()


def after_refusal(known: Mapping[Shape, Refused], shape: Shape, now: float) -> Mapping[Shape, Refused]:
    """What is known after one more refusal; those that were under way at the last one add nothing."""
    before = known.get(shape, Refused(0, 0.0))
    if before.until > now:
        return known
    times = before.times + 1
    wait = min(FIRST_WAIT * 2.0 ** min(times - TIMES, SHAPES), LONGEST_WAIT)
    others = {key: one for key, one in known.items() if key != shape}
    if len(others) == SHAPES:
        del others[next(iter(others))]
    return {**others, shape: Refused(times, now + wait if times >= TIMES else 0.0)}


def after_taken(known: Mapping[Shape, Refused], shape: Shape) -> Mapping[Shape, Refused]:
    """What is known after one was taken."""
    return {key: one for key, one in known.items() if key != shape} if shape in known else known
