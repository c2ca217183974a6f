"""Requests about a response that one server holds: what goes on from it, asks for it or cancels it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.wire.endpoints import OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.core.features import Features
    from gateway.core.policy import Policy
    from gateway.runtime.fleet import Fleet
    from gateway.runtime.homes import Homes
    from gateway.wire.exchange import Exchange

_BEFORE: Final = "/v1/responses/"
_LONGEST_ID: Final = 256


def bound(
    features: Features,
    path: str,
    policy: Policy,
    fleet: Fleet,
    homes: Homes,
    running: Iterable[Exchange],
) -> Features:
    """The facts of a request, with the server that alone can serve it where it is about a response.

    Args:
        features: Facts of the request; the caller's choice of a server stays.
        path: As the client sent it, without the query.
        policy: Knows the model by its alias.
        fleet: The backends.
        homes: Which of them holds which response.
        running: Requests under way, one of which may be about to give it.
    """
    if (response := _asked_for(features, path)) is None:  # as of nearly all
        return features
    hints = replace(features.hints, previous=response)
    if hints.backend is None:
        holder = homes.held.of(response) or _giving(response, running)
        if holder in fleet.snapshot.roster.pool(policy.aliases.get(features.model, features.model)).names:
            hints = replace(hints, backend=holder, held=True)
    return replace(features, hints=hints)


def _asked_for(features: Features, path: str) -> str | None:
    """Id of the response that a request is about."""
    if features.endpoint != OTHER or not path.startswith(_BEFORE):
        return features.hints.previous
    return path.removeprefix(_BEFORE).partition("/")[0][:_LONGEST_ID] or None


def _giving(response: str, running: Iterable[Exchange]) -> str:
    """Who is giving a response now."""
    trials = (exchange.trial for exchange in running)
    names = (one.backend.name for one in trials if one is not None and one.reading.response_id == response)
    return next(names, "")
