"""How far the requests that run have come, for the learner and for what counters are compared with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gateway.core.features import STEPWISE
from gateway.core.observe import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.runtime.homes import Homes
    from gateway.wire.exchange import Exchange


def open_since(exchanges: Iterable[Exchange], backend: str) -> float:
    """Monotonic seconds at which the oldest request under way was sent to a backend; infinite without one."""
    started = math.inf
    for exchange in tuple(exchanges):
        trial = exchange.trial
        if trial is not None and trial.backend.name == backend:
            started = min(started, trial.started)
        for attempt in exchange.attempts:
            if attempt.backend == backend:
                started = min(started, attempt.started)
    return started


def progress(exchanges: Iterable[Exchange], homes: Homes) -> Iterator[Progress]:
    """What can be told of streams whose tokens come from one server as it makes them.

    Args:
        exchanges: Requests under way.
        homes: Where conversations were answered last.
    """
    for exchange in tuple(exchanges):
        trial, features = exchange.trial, exchange.features
        if trial is None or features is None or exchange.resumed or exchange.client.slow:
            continue
        if trial.backend.stands_in:
            continue
        reading = trial.reading
        first, last = reading.first_token_at, reading.last_token_at
        if first is None or last is None or features.n != 1 or exchange.endpoint not in STEPWISE:
            continue
        home = homes.of(features.hints, exchange.started)
        cached = home.tokens if home is not None and home.backend == trial.backend.name else 0.0
        yield Progress(
            exchange.request_id, trial.backend.name, features, exchange.classification, trial.started,
            first, last, reading.events, cached,
        )  # fmt: skip
