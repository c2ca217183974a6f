"""Which requests a route takes and which backends a preference names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def rank(prefer: tuple[Selector, ...], backend: Backend) -> int | None:
    """Position of the first preference that names this backend; None if none does."""
    for position, selector in enumerate(prefer):
        if selects(selector, backend):
            return position
    return None


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
