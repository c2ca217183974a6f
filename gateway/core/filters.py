"""Why a backend may not take a request: availability first, capability second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core import reasons
from gateway.core.refused import shape_of

if TYPE_CHECKING:
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState

CHARS_PER_TOKEN_AT_MOST = 12
"""No usual text packs more characters into a token: a limit passed by this measure is passed for sure."""


def unavailable(state: BackendState, now: float) -> tuple[str, str] | None:
    """Reason code and words why the backend cannot take any request at this time, or None."""
    if state.available(now):
        return None
    if not state.healthy:
        return reasons.UNHEALTHY, state.reason
    if state.breaker.until > now:
        return reasons.BREAKER_OPEN, f"it failed too often, next trial in {state.breaker.until - now:.1f} s"
    if state.retry_at > now:
        return reasons.RETRY_AFTER, f"it asked to be left alone for another {state.retry_at - now:.1f} s"
    if state.in_flight < state.backend.max_in_flight:
        return reasons.WARMING_UP, f"{state.in_flight} requests in flight, its limit while it warms up"
    return reasons.FULL, f"{state.in_flight} requests in flight, its limit"


def incapable(state: BackendState, features: Features, now: float) -> tuple[str, str] | None:
    """Reason code and words why the backend would refuse or spoil this request, or None."""
    backend = state.backend
    if features.parameters and (refused := backend.refuses & features.parameters):
        return reasons.REFUSES_PARAMETER, f"refuses {', '.join(sorted(refused))}"
    if state.refused and (found := state.refused.get(shape_of(features))) and found.until > now:
        wait = found.until - now
        return (
            reasons.REFUSES_PARAMETER,
            f"refused the last {found.times} such requests, next trial in {wait:.0f} s",
        )
    if backend.max_model_len is not None and least_tokens(features) > backend.max_model_len:
        return reasons.CONTEXT_TOO_LONG, f"prompt and answer need more than {backend.max_model_len} tokens"
    return None


def least_tokens(features: Features) -> int:
    """Tokens that prompt and answer need at the least."""
    return features.prompt_chars // CHARS_PER_TOKEN_AT_MOST + (features.max_tokens or 0)
