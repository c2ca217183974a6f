"""Requests about a response that one server holds: what goes on from it, asks for it or cancels it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.wire.endpoints import OTHER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gateway.core.features import Features
    from gateway.core.outcome import Attempt
    from gateway.runtime.holders import Holders
    from gateway.wire.exchange import Exchange

_BEFORE: Final = "/v1/responses/"
_LONGEST_ID: Final = 256
_LACKED: Final = 404


def asked_for(features: Features, path: str) -> str | None:
    """Id of the response that a request is about; None for nearly all.

    Args:
        features: Facts of the request.
        path: As the client sent it, without the query.
    """
    if features.endpoint != OTHER or not path.startswith(_BEFORE):
        return features.hints.previous
    return path.removeprefix(_BEFORE).partition("/")[0][:_LONGEST_ID] or None


def bound(
    features: Features,
    response: str,
    holders: Holders,
    running: Iterable[Exchange],
    pool: Collection[str],
) -> Features:
    """The facts of a request about a response, with the server that alone can serve it, if that is known.

    Args:
        features: Facts of the request; what they say of the caller's choice stays.
        response: Id of the response.
        holders: Which server holds which.
        running: Requests under way, one of which may be about to give it.
        pool: Names of the backends of its model.
    """
    hints = replace(features.hints, previous=response)
    holder = holders.of(response) or _giving(response, running)
    if hints.backend is None and holder in pool:
        hints = replace(hints, backend=holder, held=True)
    return replace(features, hints=hints)


def _giving(response: str, running: Iterable[Exchange]) -> str:
    trials = (exchange.trial for exchange in running)
    names = (one.backend.name for one in trials if one is not None and one.reading.response_id == response)
    return next(names, "")


def seeks(features: Features, attempts: Iterable[Attempt]) -> bool:
    """Whether other servers are asked for a response of which nobody knows who holds it.

    Args:
        features: Facts of the request, bound.
        attempts: So far; a server that lacks it has done nothing, whatever was asked of it.
    """
    hints = features.hints
    return (
        hints.previous is not None
        and hints.backend is None
        and all(attempt.status == _LACKED for attempt in attempts)
    )
