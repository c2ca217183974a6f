"""Which requests a route takes and which backends a preference names."""

from __future__ import annotations

import math
from dataclasses import field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import Backend
    from gateway.core.policy import Match, Selector

CHARS_PER_TOKEN = 4
"""Usual length of a token in Latin text; only for routing by prompt length, never for limits."""


def selects(selector: Selector, backend: Backend) -> bool:
    """Whether a preference names this backend, when it is idle."""
    return (
        (selector.name is None or fnmatchcase(backend.name, selector.name))
        and (selector.method is None or selector.method == backend.method)
        and (selector.draft_tokens is None or selector.draft_tokens == backend.draft_tokens)
        and all(backend.labels.get(name) == value for name, value in selector.labels.items())
    )


@value(frozen=True, slots=True)
class Ranking:
    """Places of the backends of a pool in a route's preferences.

    Attributes:
        ranks: One for each backend when it is idle, 0 for the first choice.
        unnamed: The place after the last choice, which those have that no preference names.
        limited: By a backend's position in the pool, (requests at most, rank), ascending: of those whose rank
            falls with their load.
    """

    ranks: tuple[int, ...]
    unnamed: int
    limited: Mapping[int, tuple[tuple[float, int], ...]] = field(default_factory=dict)

    def under(self, at: int, queue: float) -> int:
        """The rank of a backend while so many requests are on it."""
        if at not in self.limited:
            return self.ranks[at]
        return next((rank for most, rank in self.limited[at] if queue < most), self.unnamed)


def rank(prefer: tuple[Selector, ...], pool: Sequence[Backend]) -> Ranking:
    """Rank a pool: a backend belongs to the first preference that names it under its load.

    Preferences that name nobody new in this pool are not counted, so that the next choice is always one
    place away, whatever the list says of other pools.
    """
    named = [tuple(_steps(prefer, backend)) for backend in pool]
    places = {at: place for place, at in enumerate(sorted({at for steps in named for _, at in steps}))}
    return Ranking(
        tuple(places[steps[0][1]] if steps else len(places) for steps in named),
        unnamed=len(places),
        limited={
            position: tuple((most, places[at]) for most, at in steps)
            for position, steps in enumerate(named)
            if steps and steps[0][0] < math.inf
        },
    )


def _steps(prefer: tuple[Selector, ...], backend: Backend) -> Iterator[tuple[float, int]]:
    """The preferences that a backend belongs to as its load grows: (requests at most, position)."""
    reached = 0.0
    for at, one in enumerate(prefer):
        most = math.inf if one.max_in_flight is None else one.max_in_flight
        if most > reached and selects(one, backend):
            yield most, at
            reached = most


def matches(match: Match, features: Features, classification: Classification) -> bool:
    """Whether a route takes this request."""
    # What tells most routes apart is looked at first.
    return (
        (not match.workloads or classification.label in match.workloads)
        and (not match.models or features.model in match.models)
        and classification.confidence >= match.min_confidence
        and (not match.languages or features.output_language in match.languages)
        and (not match.endpoints or features.endpoint in match.endpoints)
        and (match.stream is None or match.stream == features.stream)
        and (not match.tenants or features.hints.tenant in match.tenants)
        and (tokens := features.prompt_chars // CHARS_PER_TOKEN) >= match.min_prompt_tokens
        and (match.max_prompt_tokens is None or tokens <= match.max_prompt_tokens)
    )
