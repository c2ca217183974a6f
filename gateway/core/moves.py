"""Where requests go under one policy and under another one: shares of the servers, and who changes server."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.core.choice import Draw
from gateway.core.decide import Decision, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.core.classes import ServiceClass
    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.policy import Policy

NOWHERE: Final = ""
"""In the place of a server where a policy has none for a request."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A request as a policy reads it.

    Attributes:
        service: Its class; None for the default one.
    """

    features: Features
    classification: Classification
    service: ServiceClass | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """What becomes of requests when a policy takes the place of another one.

    Attributes:
        requests: How many were looked at.
        were: Share of them by server under the one.
        become: The same under the other.
        moved: Least share of them that must go elsewhere for the one to become the other.
    """

    requests: int
    were: Mapping[str, float]
    become: Mapping[str, float]
    moved: float

    @classmethod
    def of(cls, were: Sequence[str], become: Sequence[str]) -> Moves:
        """Of the servers of the same requests under both."""
        before, after = _shares(were), _shares(become)
        moved = sum(max(0.0, after[name] - before.get(name, 0.0)) for name in after)
        return cls(len(were), before, after, moved)


def sent(requests: Sequence[Reading], snapshot: Snapshot, policy: Policy, open_at_a_time: int) -> list[str]:
    """Servers that requests are sent to, one after the other, all of them taking the same time.

    Args:
        requests: In order.
        snapshot: The fleet before the first.
        policy: Who decides.
        open_at_a_time: The oldest ends when there are so many, at least one.

    Returns:
        Names, :data:`NOWHERE` where there is none.
    """
    at = {state.backend.name: position for position, state in enumerate(snapshot.states)}
    states = list(snapshot.states)
    open_: deque[str] = deque()
    went = []
    for number, one in enumerate(requests):
        while len(open_) >= open_at_a_time:
            _count(states, at[open_.popleft()], -1)
        found = decide(
            one.features, one.classification, replace(snapshot, states=tuple(states)), policy,
            Draw.nth(number), 0.0, None, one.service,
        )  # fmt: skip
        name = found.candidates[0].backend if isinstance(found, Decision) else NOWHERE
        went.append(name)
        if name:
            open_.append(name)
            _count(states, at[name], +1)
    return went


def compare(labels: Sequence[str], were: Sequence[str], become: Sequence[str]) -> dict[str, Moves]:
    """What becomes of the requests of each label.

    Args:
        labels: Of the requests, in order.
        were: Their servers under the one policy.
        become: The same under the other.
    """
    of: dict[str, list[tuple[str, str]]] = {label: [] for label in sorted(set(labels))}
    for label, before, after in zip(labels, were, become, strict=True):
        of[label].append((before, after))
    return {label: Moves.of(*zip(*pairs, strict=True)) for label, pairs in of.items()}


def _shares(names: Sequence[str]) -> dict[str, float]:
    return {name: count / len(names) for name, count in Counter(names).most_common()}


def _count(states: list[BackendState], at: int, change: int) -> None:
    state = states[at]
    states[at] = state.counted(state.in_flight + change, state.since_load + change, state.breaker)
