"""What decisions read of one server, worked out once and kept while its state and the time allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.filters import unavailable
from gateway.core.predict import ServerModel, pace

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState
    from gateway.core.predict import Pace

_UNKNOWN: Final = ServerModel()

FULL_CACHE: Final = 0.8
"""Share of the KV cache in use above which more requests risk preemption."""

_STEP_SPREAD: Final = 0.3
"""Standard deviation of the logarithm of a step time before the first request."""

_COLD_SPREAD: Final = 0.8
"""The same for what a server's first requests tell, which may have waited for it to get warm: half of it
after one request, and ever less with each."""


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
        held: Whether it is out, or was seen to refuse some requests.
        paces: By requests on it, as far as they were asked for while its model was the same.
        paced: Its :attr:`pace`, if that is among them.
    """

    __slots__ = (
        "_doubt", "_relief", "cache_price", "configuration", "held", "load", "model", "name", "out", "paced",
        "paces", "picky", "queue", "room", "state", "until",
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
        backend, scraped, breaker = state.backend, state.load, state.breaker
        self.state = state
        self.name = backend.name
        self.model = state.model or _UNKNOWN
        self.configuration = backend.method if state.model is None else state.model.fingerprint
        self.queue = state.queue(now, stale_after)
        self.load = self.queue / backend.max_in_flight
        self.cache_price = 1.0
        if scraped is not None and scraped.kv_usage is not None and scraped.kv_usage > FULL_CACHE:
            self.cache_price += (scraped.kv_usage - FULL_CACHE) / max(1e-3, 1.0 - scraped.kv_usage)
        self.out = unavailable(state, now)
        self.room = backend.room
        self.picky = bool(backend.refuses or state.refused)
        self.held = self.out is not None or bool(state.refused)
        if breaker.until > now or state.retry_at > now or breaker.warm_at > now:
            self.until = -math.inf  # words and limits that follow the clock
        else:
            goes_stale = math.inf if scraped is None else scraped.at + stale_after
            self.until = goes_stale if now <= goes_stale else math.inf
        self.paces: dict[float, Pace] = before.paces if before and before.model is self.model else {}
        self.paced = self.paces.get(self.queue)
        self._doubt = self._relief = 0.0

    @property
    def pace(self) -> Pace:
        """How a request's time on it follows from its prompt and its steps."""
        if self.paced is None:
            self.paced = self.paces[self.queue] = pace(self.model, self.queue)
        return self.paced

    @property
    def doubt(self) -> float:
        """Standard deviation of the logarithm of its step time, as far as that is unknown."""
        if not self._doubt:
            if self.state.model is None:
                self._doubt = _STEP_SPREAD
            else:
                seen = self.model.measured
                cold = _COLD_SPREAD * seen / (1.0 + seen * seen)
                self._doubt = math.hypot(_STEP_SPREAD / math.sqrt(1.0 + seen), cold)
        return self._doubt

    @property
    def relief(self) -> float:
        """Part of its step time with one more request that it has without."""
        if not self._relief:
            self._relief = self.model.step(self.queue) / self.model.step(self.queue + 1.0)
        return self._relief
