"""A compiled policy: ordered routes, each a match, preferences, scorers and limits. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.classes import ServiceClass
    from gateway.core.examples import LearntLabels
    from gateway.core.labels import LabelRule
    from gateway.core.predict import ServerModel


@dataclass(frozen=True, slots=True)
class Selector:
    """Which backends a preference names. Empty fields match everything.

    Attributes:
        name: Backend name, may hold ``*`` and ``?`` as in file globs.
        method: Speculative method.
        draft_tokens: N.
        labels: Labels that must all be present with these values.
        max_in_flight: It names a backend only while that has so many requests at most, the one that is to be
            placed included.
    """

    name: str | None = None
    method: str | None = None
    draft_tokens: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    max_in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests a route takes. Empty fields match everything; all given ones must match.

    Attributes:
        models: Aliases as clients send them.
        workloads: Labels.
        min_confidence: Lowest classification confidence.
        languages: ISO 639-1 codes of the output.
        endpoints: Names from :data:`gateway.core.features.ENDPOINTS`.
        stream: Only streams (True), only non-streams (False).
        tenants: Tenant names.
        min_prompt_tokens: Estimated prompt length, inclusive.
        max_prompt_tokens: Estimated prompt length, inclusive.
    """

    models: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()
    min_confidence: float = 0.0
    languages: frozenset[str] = frozenset()
    endpoints: frozenset[str] = frozenset()
    stream: bool | None = None
    tenants: frozenset[str] = frozenset()
    min_prompt_tokens: int = 0
    max_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class WeightedScorer:
    """A scorer by its YAML name and what its cost counts in the sum."""

    name: str
    weight: float


@dataclass(frozen=True, slots=True)
class Route:
    """One rule of a policy.

    Attributes:
        prefer: Selectors in order; see :func:`gateway.core.selectors.rank`. Backends that match none are
            not candidates.
        scorers: Costs to add up, lowest wins; at least one.
        baseline_share: Share of this route's requests sent to a baseline, to keep the measure of
            speed-up honest, 0 to 1.
        max_attempts: Backends tried for one request, the first included.
        stand_ins: Whether hosted models may answer where no backend can: prompts then leave the house.
    """

    name: str
    match: Match
    prefer: tuple[Selector, ...]
    scorers: tuple[WeightedScorer, ...]
    baseline_share: float = 0.0
    max_attempts: int = 3
    stand_ins: bool = False


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds on the phases of one attempt, and on the whole request.

    Attributes:
        keep_alive: Silence after which a stream gets a comment; 0 for none.
    """

    connect: float = 2.0
    first_byte: float = 120.0
    idle: float = 60.0
    total: float = 1800.0
    keep_alive: float = 15.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """What becomes of requests while all backends that could take them are busy.

    Attributes:
        wait: Seconds after which one is refused; 0 refuses at once.
        length: Requests that may wait at a time.
    """

    wait: float = 5.0
    length: int = 256


@dataclass(frozen=True, slots=True)
class Resume:
    """Whether another backend goes on with a stream that broke off.

    Attributes:
        mode: ``off``, or ``exact``: by token ids, where the seam cannot be seen.
        limit: How often for one answer.
    """

    mode: str = "off"
    limit: int = 2


@dataclass(frozen=True, slots=True)
class ClassifierSettings:
    """How requests are classified.

    Attributes:
        default: Label where no rule is sure enough.
        threshold: Confidence that is sure enough.
        unsure: What becomes of a request below it: ``default`` gives it the default label, ``mix`` the
            likeliest one, and predictions count each label by its probability.
        trust_hints: Whether the caller's ``x-specroute-workload`` decides.
        model: ``trained``, or ``rules`` for the built-in rules alone.
        examples: Labels of the operator's own that were learnt from examples; they go before the model's.
        rules: Rules of the policy, tried in order before any model; they may give labels of their own.
    """

    default: str = "chat"
    threshold: float = 0.5
    unsure: str = "default"
    trust_hints: bool = True
    model: str = "trained"
    rules: tuple[LabelRule, ...] = ()
    examples: LearntLabels | None = None


STATIC: Final = "static"
SHADOW: Final = "shadow"
CANARY: Final = "canary"
AUTO: Final = "auto"
FROZEN: Final = "frozen"
MODES: Final = (STATIC, SHADOW, CANARY, AUTO, FROZEN)
"""Who decides: the routes' own scores; the same, while it is noted what the learnt ones would do; those for a
share of the requests; those for all; those for all, as they were written down."""


@dataclass(frozen=True, slots=True)
class Learning:
    """What is made of what was learnt.

    Attributes:
        mode: One of :data:`MODES`.
        share: Share of the requests that the learnt score decides.
        explore: Share of the requests that may be sent where not the best but the most is to be learnt.
        floor: Share of the requests of each workload that goes to a baseline at least.
        known: What is believed of backends before the first request, by name; all that is, where nothing is
            learnt.
    """

    mode: str = STATIC
    share: float = 0.0
    explore: float = 0.0
    floor: float = 0.0
    known: Mapping[str, ServerModel] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """All routes in force.

    Attributes:
        aliases: Model name as clients send it → target model of the fleet.
        routes: First match wins.
        allow_pin: Whether ``x-specroute-backend`` is honoured.
        stale_after: Age in seconds beyond which scraped load is ignored.
        revision: Content hash of the policy file and of the examples it names.
        queue: What becomes of requests while all backends are busy.
        resume: What becomes of streams that break off.
        breaker: When a backend is taken out and let back in.
        retries: How many further attempts the whole gateway may make.
        learning: What is made of what was learnt.
        classes: Service classes, the first that fits takes the request.
        trust_class: Whether callers may name the class.
    """

    aliases: Mapping[str, str]
    routes: tuple[Route, ...]
    timeouts: Timeouts
    classifier: ClassifierSettings
    allow_pin: bool
    stale_after: float
    revision: str
    queue: Waiting = field(default_factory=Waiting)
    resume: Resume = field(default_factory=Resume)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    retries: BudgetSettings = field(default_factory=BudgetSettings)
    learning: Learning = field(default_factory=Learning)
    classes: tuple[ServiceClass, ...] = ()
    trust_class: bool = True
