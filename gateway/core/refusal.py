"""Why no backend can take a request, in words that are fit for the client."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from gateway.core import reasons
from gateway.core.labels import known as known_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gateway.core.decide import Rejected
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.policy import Policy, Route

_FOR_A_TIME: Final = frozenset({reasons.BREAKER_OPEN, reasons.RETRY_AFTER})
_AT_ANY_MOMENT: Final = frozenset({reasons.FULL, reasons.WARMING_UP, reasons.KEPT_FOR_OTHERS})
_FOR_WHAT_IT_ASKS: Final = frozenset({reasons.REFUSES_PARAMETER, reasons.CONTEXT_TOO_LONG})

_LONGEST_LABEL: Final = 64
"""Characters that are compared with the labels there are, so that no client can make that long."""

NAMED_AT_MOST: Final = 5
"""Names in one sentence; a large fleet would make it unreadable."""


def refusal(
    features: Features, policy: Policy, snapshot: Snapshot, pool: Sequence[str]
) -> tuple[str, str] | None:
    """Refuse a model or a pin that no state of the fleet could serve.

    Args:
        features: Facts of the request.
        policy: The policy in force.
        snapshot: The fleet.
        pool: Names of those of its backends that serve the model.

    Returns:
        A code of :data:`gateway.core.reasons.REFUSALS` and words; None where there is nothing to refuse.
    """
    if not pool:
        if features.model and features.model not in policy.aliases:
            known = sorted({*policy.aliases, *(state.backend.target for state in snapshot.states)})
            there_are = _label_words(features.model, policy, known) or f"there are: {_few(known, ', ')}"
            return reasons.UNKNOWN_MODEL, f"The model `{features.model}` does not exist; {there_are}"
        return (
            reasons.EMPTY_POOL,
            f"no backend serves `{features.model}`" if features.model else "the fleet is empty",
        )
    pin = features.hints.backend
    if pin is not None and not (policy.allow_pin or features.hints.held):
        return reasons.PIN_NOT_ALLOWED, "the policy does not allow the caller to choose a backend"
    if pin is not None and pin not in pool:
        return reasons.UNKNOWN_BACKEND, unknown_backend(pool)
    return None


def unknown_backend(names: Sequence[str]) -> str:
    """That the caller chose none of those that there are."""
    return f"no backend of this model has the name asked for; there are: {_few(names, ', ')}"


def why_rejected(rejected: Sequence[Rejected], route: Route) -> str:
    """Why each backend is out that the route, or the caller, named."""
    passed = {reasons.NOT_PREFERRED, reasons.NOT_PINNED, reasons.NOT_HOLDER}
    named = [f"{one.backend}: {one.detail}" for one in rejected if one.reason not in passed]
    return _few(named, "; ") or f"route {route.name} names no backend of this model"


def is_picky(rejected: Iterable[Rejected]) -> bool:
    """Whether a request asks for what some backend refuses: where it finds no room, others may."""
    return any(one.reason in _FOR_WHAT_IT_ASKS for one in rejected)


def back_in(rejected: Sequence[Rejected], states: Sequence[BackendState], now: float) -> float | None:
    """Seconds until one of those that are out for a known time is back; None if another may be free sooner.

    Args:
        rejected: Why each backend is out.
        states: Those backends, and maybe others.
        now: Monotonic seconds.
    """
    why = {one.backend: one.reason for one in rejected}
    if not _AT_ANY_MOMENT.isdisjoint(why.values()):
        return None
    known = [state.back_at - now for state in states if why.get(state.backend.name) in _FOR_A_TIME]
    return min(known, default=None)


def _label_words(model: str, policy: Policy, known: Collection[str]) -> str:
    """What is wrong where a model that there is has a label behind it that there is not; else ``""``.

    Nothing of the label is repeated, as it may be a key.
    """
    name, colon, label = model.rpartition(":")
    if not colon or name not in known:
        return ""
    labels = sorted(known_labels(policy.classifier))
    near = get_close_matches(label[:_LONGEST_LABEL], labels, n=1)
    right = f"the nearest is `{name}:{near[0]}`" if near else f"there are: {_few(labels, ', ')}"
    return f"what follows `{name}:` is no workload of the policy; {right}"


def _few(words: Sequence[str], separator: str) -> str:
    rest = len(words) - NAMED_AT_MOST
    return separator.join([*words[:NAMED_AT_MOST], *([f"… and {rest} more"] if rest > 0 else [])])
