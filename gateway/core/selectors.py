"""Which requests a route takes and which backends a preference names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import Backend
    from gateway.core.policy import Match, Selector

CHARS_PER_TOKEN = 4
"""Usual length of a token in Latin text; only for routing by prompt length, never for limits."""


def selects(selector: Selector, backend: Backend) -> bool:
    """Whether a preference names this backend."""
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
        ranks: One for each backend, 0 for the first choice.
        unnamed: The place after the last choice, which those have that no preference names.
    """

    ranks: tuple[int, ...]
    unnamed: int


def rank(prefer: tuple[Selector, ...], pool: Sequence[Backend]) -> Ranking:
    """Rank a pool: a backend belongs to the first preference that names it.

    Preferences that name nobody new in this pool are not counted, so that the next choice is always one
    place away, whatever the list says of other pools.
    """
    nowhere = len(prefer)
    first = [
        next((at for at, one in enumerate(prefer) if selects(one, backend)), nowhere) for backend in pool
    ]
    places = {position: place for place, position in enumerate(sorted(set(first) - {nowhere}))}
    return Ranking(tuple(places.get(position, len(places)) for position in first), unnamed=len(places))


def matches(match: Match, features: Features, classification: Classification) -> bool:
    """Whether a route takes this request."""
    tokens = features.prompt_chars // CHARS_PER_TOKEN
    return (
        (not match.models or features.model in match.models)
        and (not match.workloads or classification.label in match.workloads)
        and classification.confidence >= match.min_confidence
        and (not match.languages or features.output_language in match.languages)
        and (not match.endpoints or features.endpoint in match.endpoints)
        and (match.stream is None or match.stream == features.stream)
        and (not match.tenants or features.hints.tenant in match.tenants)
        and tokens >= match.min_prompt_tokens
        and (match.max_prompt_tokens is None or tokens <= match.max_prompt_tokens)
    )
