"""From request facts, a snapshot and a policy to an ordered plan with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.core import reasons
from gateway.core.filters import rejection
from gateway.core.scorers import SCORERS, Costing
from gateway.core.selectors import matches, rank

if TYPE_CHECKING:
    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.policy import Policy, Route


@dataclass(frozen=True, slots=True)
class Draw:
    """This request's random numbers, uniform in [0, 1), so that a decision can be replayed.

    Attributes:
        explore: Decides whether the request goes to the baseline share.
        tie: Breaks ties between equal costs.
    """

    explore: float
    tie: float


@dataclass(frozen=True, slots=True)
class CostPart:
    """One scorer's part of a candidate's cost.

    Attributes:
        scorer: YAML name of the scorer.
        value: Its cost, in the scorer's own unit; lower is better.
        weight: What the policy multiplies it by.
    """

    scorer: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend that may take the request, with what it costs."""

    backend: str
    cost: float
    parts: tuple[CostPart, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A backend that may not take the request.

    Attributes:
        reason: A code of :mod:`gateway.core.reasons`.
        detail: The same in words.
    """

    backend: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decision:
    """An ordered plan: try the candidates in turn.

    Attributes:
        reason: Why the first candidate is first, a code of :mod:`gateway.core.reasons`.
        propensity: Probability with which this policy sends such a request to the first candidate.
    """

    route: str
    target: str
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    reason: str
    propensity: float
    max_attempts: int
    policy_revision: str
    fleet_revision: str


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """No backend can take the request: a value, not an exception.

    Attributes:
        kind: ``unknown_model``, ``empty_pool``, ``unsupported`` or ``all_rejected``.
        busy: All that stands in the way will pass by itself, so the client may try again.
    """

    kind: str
    detail: str
    busy: bool
    route: str | None
    rejected: tuple[Rejected, ...]
    policy_revision: str
    fleet_revision: str
