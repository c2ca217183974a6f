"""Backends: what one is, what is known of it now, and the snapshot that decisions read."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from gateway.core.breaker import Breaker
from gateway.core.roster import Roster
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.core.gpus import GpuSource
    from gateway.core.plan import Plan
    from gateway.core.predict import ServerModel
    from gateway.core.refused import Refused, Shape

METHODS: Final = (
    "none", "mtp", "gemma4-mtp", "eagle3", "dflash", "dspark",
    "ngram", "suffix", "draft-model", "eagle", "medusa",
)  # fmt: skip
"""Speculative decoding methods a backend may be declared with. ``none`` is the baseline."""

STAND_IN: Final = "stand-in"
"""Stands for the method of a backend that is no server: a hosted model that answers where no server can."""

FIRST_DRAFT_TOKENS: Final = {
    "mtp": 1, "gemma4-mtp": 4, "eagle3": 3, "dflash": 7, "dspark": 7,
    "ngram": 4, "suffix": 8, "draft-model": 3, "eagle": 3, "medusa": 3,
}  # fmt: skip
"""N to begin with, by method."""

REFUSED_WITH_DRAFT: Final = frozenset({"min_p", "logit_bias"})
"""Parameters that vLLM answers with 400 on any server with a draft (vllm-project/vllm#42744)."""


@value(frozen=True, slots=True)
class Backend:
    """Identity of one server; changes only when the fleet file does.

    Attributes:
        name: Unique in the fleet.
        url: Base address without path, such as ``http://10.0.0.5:8000``.
        target: The target model all interchangeable servers share (a Hugging Face id).
        served_model: The name the server answers to in ``model``.
        method: One of :data:`METHODS`, or :data:`STAND_IN`.
        draft_tokens: N, the number of draft tokens a step; 0 for ``none``.
        draft: Draft checkpoint, if the method has one.
        refuses: Request parameters that this server cannot take.
        flags: What it is started with, as one text; empty where that is not known.
        max_in_flight: Requests this gateway may hold open on it at once.
        max_model_len: Context length in tokens, prompt and answer together; None if unknown.
        labels: Free text by name, for selectors (``hardware: MI300X``).
        api_key: Sent as bearer token; never logged.
        gpus: Where to read of its GPUs.
    """

    name: str
    url: str
    target: str
    served_model: str
    method: str = "none"
    draft_tokens: int = 0
    draft: str | None = None
    refuses: frozenset[str] = frozenset()
    flags: str = ""
    max_in_flight: int = 256
    max_model_len: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    api_key: str | None = field(default=None, repr=False)
    gpus: GpuSource | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it decodes without speculation."""
        return self.method == "none"

    @property
    def stands_in(self) -> bool:
        """Whether it is a hosted model that answers where no server of its target can."""
        return self.method == STAND_IN

    @property
    def room(self) -> float:
        """Tokens of prompt and answer that it takes."""
        return math.inf if self.max_model_len is None else self.max_model_len

    @property
    def kind(self) -> tuple[object, ...]:
        """What decides which requests it takes: those of one kind refuse the same ones."""
        return self.method, self.refuses, self.flags, self.max_model_len


@value(frozen=True, slots=True)
class Load:
    """Load of a server as scraped from its ``/metrics``.

    Attributes:
        running: Requests in the batch.
        waiting: Requests in its queue.
        kv_usage: Share of the KV cache in use, 0 to 1; None where the server does not say.
        at: Monotonic time of the scrape, seconds.
    """

    running: int
    waiting: int
    kv_usage: float | None
    at: float


_CLOSED: Final = Breaker()


@value(frozen=True, slots=True)
class BackendState:
    """What is known of a backend now.

    Attributes:
        in_flight: Requests this gateway holds open on it, all of its workers together.
        since_load: Change of :attr:`in_flight` since the scrape of :attr:`load` began.
        load: Last scrape, or None before the first. A missing scrape is not an idle server.
        healthy: False once a probe failed or it could not be reached.
        reason: Why it is not healthy, in words; empty when it is.
        breaker: What became of the requests it was sent.
        retry_at: Monotonic seconds before which it asked not to be sent any.
        model: What was learnt of its speed; None before that.
        refused: What it turned out to refuse, see :mod:`gateway.core.refused`.
    """

    backend: Backend
    in_flight: int = 0
    since_load: int = 0
    load: Load | None = None
    healthy: bool = True
    reason: str = ""
    breaker: Breaker = _CLOSED
    retry_at: float = 0.0
    model: ServerModel | None = None
    refused: Mapping[Shape, Refused] = field(default_factory=dict, hash=False)

    def counted(self, in_flight: int, since_load: int, breaker: Breaker) -> BackendState:
        """The state after a request went or came back; ``replace`` takes three times as long."""
        return BackendState(
            self.backend, in_flight, since_load, self.load, self.healthy, self.reason, breaker,
            self.retry_at, self.model, self.refused,
        )  # fmt: skip

    def available(self, now: float) -> bool:
        """The one predicate that every routing path asks: whether it may get a request at this time."""
        return (
            self.healthy
            and self.breaker.until <= now
            and self.retry_at <= now
            and self.in_flight < self.limit(now)
        )

    def limit(self, now: float) -> int:
        """Requests this gateway may hold open on it at this time: all, except while it warms up."""
        return self.breaker.limit(self.backend.max_in_flight, now)

    @property
    def back_at(self) -> float:
        """Monotonic seconds at which breaker and ``Retry-After`` let requests through again."""
        return max(self.breaker.until, self.retry_at)

    def queue(self, now: float, stale_after: float) -> float:
        """Requests on the server as far as is known: scraped plus sent since, at least our own.

        Args:
            now: Monotonic time, seconds.
            stale_after: Age in seconds beyond which a scrape is ignored.
        """
        load = self.load
        if load is None or now - load.at > stale_after:
            return float(self.in_flight)
        return float(max(self.in_flight, load.running + load.waiting + self.since_load))


@value(frozen=True, slots=True)
class Guide:
    """What was learnt of the fleet as a whole.

    Attributes:
        plan: Which servers hold which class, by target.
        explorable: Targets and workloads of which a request may explore now: there is budget left, and the
            fleet is calm.
        due: Targets and workloads whose next request should go to a baseline, to keep the measure of speed-up
            honest.
    """

    plan: Mapping[str, Plan] = field(default_factory=dict)
    explorable: frozenset[tuple[str, str]] = frozenset()
    due: frozenset[tuple[str, str]] = frozenset()


_NO_GUIDE: Final = Guide()


@value(frozen=True, slots=True)
class Snapshot:
    """All backends at one moment; replaced whole, never changed.

    Attributes:
        revision: Content hash of the fleet file.
        roster: Of the same backends in the same order; shared by all snapshots of one fleet file.
        guide: Roles and what may be explored.
        stand_ins: Hosted models that answer where no backend of their target can; they are in no pool, and
            nothing is learnt of them.
    """

    states: tuple[BackendState, ...]
    revision: str
    roster: Roster = field(repr=False, compare=False)
    guide: Guide = _NO_GUIDE
    stand_ins: tuple[BackendState, ...] = ()

    @classmethod
    def of(
        cls, states: Iterable[BackendState], revision: str, stand_ins: Iterable[BackendState] = ()
    ) -> Snapshot:
        """The first snapshot of a fleet file."""
        kept = tuple(states)
        return cls(kept, revision, Roster([state.backend for state in kept]), stand_ins=tuple(stand_ins))

    def at(self, position: int) -> BackendState:
        """The one at a place; stand-ins come after all others."""
        states = self.states
        return states[position] if position < len(states) else self.stand_ins[position - len(states)]

    def put(self, position: int, state: BackendState) -> Snapshot:
        """The fleet with another state at a place; stand-ins come after all others."""
        states, beside = self.states, position - len(self.states)
        if beside < 0:
            states = (*states[:position], state, *states[position + 1 :])
            return Snapshot(states, self.revision, self.roster, self.guide, self.stand_ins)
        others = (*self.stand_ins[:beside], state, *self.stand_ins[beside + 1 :])
        return Snapshot(states, self.revision, self.roster, self.guide, others)

    def learnt(self, models: Mapping[str, ServerModel]) -> Snapshot:
        """The fleet with what was learnt of backends, by name."""
        states = tuple(
            state if (model := models.get(state.backend.name)) is state.model else replace(state, model=model)
            for state in self.states
        )
        return replace(self, states=states)

    @property
    def busy(self) -> float:
        """Requests open on all backends that are well, as a share of their limits together."""
        well = [state for state in self.states if state.healthy]
        most = sum(state.backend.max_in_flight for state in well)
        return sum(state.in_flight for state in well) / most if most else 1.0

    @property
    def everybody(self) -> tuple[BackendState, ...]:
        """All that may answer: backends and stand-ins."""
        return self.states + self.stand_ins
