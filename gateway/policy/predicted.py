"""Predictions, service classes, models and methods in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.predict import predict
from gateway.core.stand_in import barred, stand_ins

if TYPE_CHECKING:
    from gateway.core.features import Features
    from gateway.core.fleet import Backend, BackendState, Snapshot
    from gateway.core.plan import Plan
    from gateway.core.policy import Policy, Route
    from gateway.core.predict import Ask


def service_words(name: str, policy: Policy, plan: Plan | None) -> str:
    """A class, its limits, and the servers that are kept for it."""
    found = next((one for one in policy.classes if one.name == name), None)
    if not policy.classes:
        return ""
    said = [f"TTFT within {found.limits.ttft:g} s"] if found and found.limits.ttft is not None else []
    if found and found.limits.tpot is not None:
        said.append(f"{found.limits.tpot * 1e3:g} ms a token")
    if plan is not None and (members := plan.roles.get(name)):
        said.append(f"kept for it: {', '.join(sorted(members))}")
    return f"{name}: {'; '.join(said)}" if said else name


def predicted_words(state: BackendState, request: Ask, stale_after: float) -> str:
    """What the learnt score reckons with, in words."""
    if state.model is None:
        return "nothing is known of its speed"
    queue = state.queue(state.load.at if state.load is not None else 0.0, stale_after)
    found = predict(state.model, request, queue)
    others = f"; the {queue:.0f} there lose {found.harm:.2f} s together" if queue else ""
    return (
        f"{found.completion:.2f} s: the first token after {found.ttft:.2f} s, then {found.tpot * 1e3:.1f} ms "
        f"each{others}"
    )


def named_words(model: str, target: str) -> str:
    """A model as the client named it, and what it stands for."""
    if not model:
        return "none named: any target"
    return model if model == target else f"{model}, which stands for {target}"


def stand_in_words(features: Features, target: str, snapshot: Snapshot, route: Route | None) -> str:
    """Who answers a request where no server of its target can; nobody answers one that was pinned."""
    if features.hints.backend is not None or route is None:
        return ""
    found = [one.backend for one in stand_ins(features, target, snapshot)]
    if not found:
        return ""
    if why := barred(features, route):
        return f"Where no server can answer: nobody, {why}."
    named = ", then ".join(f"{one.name} ({one.served_model})" for one in found)
    return f"Where no server can answer: {named}."


def method_words(backend: Backend) -> str:
    """How a backend drafts."""
    if backend.stands_in:
        return f"stand-in, {backend.served_model}"
    return (
        "no speculation" if backend.is_baseline else f"{backend.method}, {backend.draft_tokens} draft tokens"
    )
