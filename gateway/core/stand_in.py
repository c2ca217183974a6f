"""Whether a hosted model answers in place of the servers of a target, and which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.core import reasons
from gateway.core.candidates import Candidate
from gateway.core.decide import Decision, NoCandidate
from gateway.core.filters import unavailable
from gateway.core.refusal import unknown_backend
from gateway.core.sorting import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.core.failover import GiveUp
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.outcome import Attempt
    from gateway.core.policy import Policy, Route

ENDPOINTS: Final = frozenset({"chat", "completions"})
"""Those that hosted models have in the same form."""

UNFIT: Final = frozenset({
    "allowed_token_ids", "bad_words", "chat_template", "guided_choice", "guided_grammar", "guided_json",
    "guided_regex", "ignore_eos", "logits_processors", "min_tokens", "prompt_embeds", "prompt_logprobs",
    "stop_token_ids", "structured_outputs", "use_beam_search",
})  # fmt: skip
"""Parameters of vLLM's own that decide what an answer may be: without them it is not what was asked for."""

_WANTING: Final = frozenset({
    reasons.UNHEALTHY, reasons.BREAKER_OPEN, reasons.RETRY_AFTER, reasons.WARMING_UP, reasons.FULL,
    reasons.KEPT_FOR_OTHERS,
})  # fmt: skip
"""Why a server cannot be had for the time being, whatever is asked of it."""

_NO_SERVER_LEFT: Final = frozenset({"attempts", "budget", "exhausted"})
"""Ends of the attempts after which another one might have followed, had there been a server for it."""


def instead(
    refused: NoCandidate, features: Features, policy: Policy, snapshot: Snapshot, now: float
) -> Decision | NoCandidate:
    """Who answers a request that no server can take; the refusal as it was where nobody does.

    A caller who chose a server gets that one or none.

    Args:
        refused: What was decided of the servers.
        features: Facts of the request.
        policy: The policy in force.
        snapshot: The fleet.
        now: Monotonic seconds.
    """
    if not snapshot.stand_ins or refused.route is None:
        return refused
    pin, route = features.hints.backend, _route(policy, refused.route)
    why = barred(features, route)
    able = list(stand_ins(features, refused.target, snapshot))
    own = [one for one in able if pin in {None, one.backend.name}]
    ready = [one for one in own if one.available(now)]
    if refused.kind == reasons.UNKNOWN_BACKEND:
        if why or not own:
            return _not_to_be_had(refused, why if own else "", [] if why else able, snapshot)
        reason = reasons.PINNED
        if not ready:
            return _pinned(refused, own, now)
    elif not why and pin is None and any(one.reason in _WANTING for one in refused.rejected):
        reason = reasons.STAND_IN
    else:
        return refused
    if not ready:
        return refused
    return Decision(
        refused.route,
        refused.target,
        [Candidate(one.backend.name, 0.0, ()) for one in ready],
        refused.rejected,
        reason,
        1.0,
        route.max_attempts,
        refused.policy_revision,
        refused.fleet_revision,
        refused.service,
    )


def after(
    gave_up: GiveUp, decision: Decision, attempts: Sequence[Attempt], features: Features, policy: Policy,
    snapshot: Snapshot, now: float,
) -> str | None:  # fmt: skip
    """Name of the stand-in that is asked once the attempts at servers have failed; None for none.

    It is asked for nothing that a server refused as wrong, nor for what servers fail on one after the other.
    The budget of further attempts does not count here: it keeps storms from the servers, and this is none.

    Args:
        gave_up: Why no server is asked any more.
        decision: The plan.
        attempts: Failed attempts so far, oldest first; at least one.
        features: Facts of the request.
        policy: The policy in force.
        snapshot: The fleet.
        now: Monotonic seconds.
    """
    if gave_up.why not in _NO_SERVER_LEFT or features.hints.backend is not None:
        return None
    if barred(features, _route(policy, decision.route)):
        return None
    if not attempts or any(_refused(one) for one in attempts):
        return None
    tried = {one.backend for one in attempts}
    ready = (one.backend.name for one in stand_ins(features, decision.target, snapshot) if one.available(now))
    return next((name for name in ready if name not in tried), None)


def barred(features: Features, route: Route) -> str:
    """Why no hosted model may have a request, in words; empty where one may.

    Args:
        features: Facts of the request.
        route: The one that took it.
    """
    if features.hints.stays:
        return "the caller or a class of the policy forbids it"
    return "" if route.stand_ins else f"route {route.name} asks for none"


def _route(policy: Policy, name: str) -> Route:
    return next(route for route in policy.routes if route.name == name)


def _refused(attempt: Attempt) -> bool:
    """Whether a server found fault with the request; one that is busy does not."""
    return attempt.error == "error_event:4xx" or (400 <= attempt.status < 500 and attempt.status != 429)


def stand_ins(features: Features, target: str, snapshot: Snapshot) -> Iterable[BackendState]:
    """The stand-ins that could answer a request for a target; an empty name stands for all."""
    if features.endpoint not in ENDPOINTS or not UNFIT.isdisjoint(features.parameters):
        return ()
    return (one for one in snapshot.stand_ins if target in {"", one.backend.target})


def _not_to_be_had(
    refused: NoCandidate, why: str, others: Iterable[BackendState], snapshot: Snapshot
) -> NoCandidate:
    """The refusal of a request whose caller chose a stand-in that it may not have, or nobody that there is.

    Args:
        refused: What was decided of the servers.
        why: Why it may not be had; empty where there is none of that name.
        others: Stand-ins that may be.
        snapshot: The fleet.
    """
    if why:
        return replace(refused, kind=reasons.PIN_NOT_ALLOWED, detail=f"no stand-in may answer: {why}")
    servers = snapshot.roster.pool(refused.target).names
    names = [*servers, *(one.backend.name for one in others)]
    return replace(refused, detail=unknown_backend(names))


def _pinned(refused: NoCandidate, own: Iterable[BackendState], now: float) -> NoCandidate:
    """The refusal of a request whose caller chose a stand-in that can take none now."""
    out = [(one.backend.name, *(unavailable(one, now) or ("", ""))) for one in own]
    return replace(
        refused,
        kind=reasons.ALL_REJECTED,
        detail="; ".join(f"{name}: {words}" for name, _, words in out),
        busy=any(reason in reasons.BUSY for _, reason, _ in out),
        rejected=tuple(Rejected(*one) for one in out),
    )
