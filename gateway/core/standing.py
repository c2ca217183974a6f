"""What decisions read of one server, worked out once and kept while its state and the time allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.filters import unavailable
from gateway.core.predict import ServerModel, pace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.fleet import BackendState
    from gateway.core.predict import Cell, Pace

    Terms = tuple[
        ServerModel,
        Mapping[str, float],
        Mapping[Cell, float],
        float,
        float,
        float,
        float,
        float,
        float,
        float,
    ]

_UNKNOWN: Final = ServerModel()

FULL_CACHE: Final = 0.8
"""Share of the KV cache in use above which more requests risk preemption."""

STEP_SPREAD: Final = 0.3
"""Standard deviation of the logarithm of a step time before the first request."""

_COLD_SPREAD: Final = 0.8
"""The same for what a server's first requests tell, which may have waited for it to get warm: half of it
after one request, and ever less with each."""


def step_spread(seen: float) -> float:
    """Standard deviation of the logarithm of a step time of which so many requests have told."""
    return STEP_SPREAD / math.sqrt(1.0 + seen)


class Standing:
    """One server as it stands: most of a fleet stands as it did at the last decision.

    Attributes:
        state: What it follows from.
        until: Monotonic seconds after which time alone may have changed it.
        name: Of the backend.
        configuration: Equal for replicas.
        model: What is known of its speed.
        queue: Requests on it as far as is known ...
        load: ... as a share of its in-flight limit: 0 idle, 1 at the limit.
        cache_price: What seconds on it count: 1, and up to infinity where its KV cache is nearly full.
        out: Reason code and words why it cannot take any request, or None.
        room: Tokens of prompt and answer that it takes.
        picky: Whether it refuses some requests for other reasons than their length.
        wary: Whether it was seen to refuse some requests.
        paces: By requests on it, as far as they were asked for while its model was the same.
        known: Its :meth:`terms` from the time they were first asked for.
    """

    __slots__ = (
        "_doubt", "_relief", "cache_price", "configuration", "known", "load", "model", "name", "out", "paces",
        "picky", "queue", "room", "state", "until", "wary",
    )  # fmt: skip

    def __init__(
        self, state: BackendState, now: float, stale_after: float, before: Standing | None = None
    ) -> None:
        """Look at a server.

        Args:
            state: What is known of it.
            now: Monotonic seconds.
            stale_after: Age in seconds beyond which its scraped load is ignored.
            before: How it stood at the last look, whose paces are taken over while its model is the same.
        """
        backend, scraped, breaker, refused = state.backend, state.load, state.breaker, state.refused
        self.state = state
        self.name = backend.name
        self.model = state.model or _UNKNOWN
        self.configuration = backend.method if state.model is None else state.model.fingerprint
        self.queue = queue = state.queue(now, stale_after)
        self.load = queue / backend.max_in_flight
        self.cache_price = 1.0
        if scraped is not None and scraped.kv_usage is not None and scraped.kv_usage > FULL_CACHE:
            self.cache_price += (scraped.kv_usage - FULL_CACHE) / max(1e-3, 1.0 - scraped.kv_usage)
        self.out = unavailable(state, now)
        self.room = backend.room
        self.wary = bool(refused)
        self.picky = bool(refused or backend.refuses)
        if breaker.until > now or state.retry_at > now or breaker.warm_at > now:
            self.until = -math.inf  # words and limits that follow the clock
        else:
            goes_stale = math.inf if scraped is None else scraped.at + stale_after
            self.until = goes_stale if now <= goes_stale else math.inf
        self.paces: dict[float, Pace] = before.paces if before and before.model is self.model else {}
        self.known: Terms | None = None
        self._doubt = self._relief = 0.0

    @property
    def pace(self) -> Pace:
        """How a request's time on it follows from its prompt and its steps."""
        found = self.paces.get(self.queue)
        if found is None:
            found = self.paces[self.queue] = pace(self.model, self.queue)
        return found

    def terms(self) -> Terms:
        """What a prediction reads of it, as one tuple: a decision spends most of its time on reading that."""
        model = self.model
        self.known = found = (
            model, model.output_tokens, model.steps_per_token, model.other_steps_per_token, *self.pace,
            self.cache_price,
        )  # fmt: skip
        return found

    @property
    def doubt(self) -> float:
        """Standard deviation of the logarithm of its step time, as far as that is unknown."""
        if not self._doubt:
            if self.state.model is None:
                self._doubt = STEP_SPREAD
            else:
                seen = self.model.measured
                cold = _COLD_SPREAD * seen / (1.0 + seen * seen)
                self._doubt = math.hypot(step_spread(seen), cold)
        return self._doubt

    @property
    def relief(self) -> float:
        """Part of its step time with one more request that it has without."""
        if not self._relief:
            self._relief = self.model.step(self.queue) / self.model.step(self.queue + 1.0)
        return self._relief
