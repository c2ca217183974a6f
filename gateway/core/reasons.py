"""Reason codes that leave the process in decisions, headers, metrics and logs."""

from __future__ import annotations

from typing import Final

# Why a backend was not a candidate.
NOT_PREFERRED: Final = "not_preferred"
UNHEALTHY: Final = "unhealthy"
BREAKER_OPEN: Final = "breaker_open"
RETRY_AFTER: Final = "retry_after"
WARMING_UP: Final = "warming_up"
FULL: Final = "full"
REFUSES_PARAMETER: Final = "refuses_parameter"
CONTEXT_TOO_LONG: Final = "context_too_long"
NOT_PINNED: Final = "not_pinned"
NOT_HOLDER: Final = "not_holder"
"""Another backend holds the response that the request is about."""
KEPT_FOR_OTHERS: Final = "kept_for_others"
"""Roles keep its room: for other classes, or for those of the same one that it has already."""
REJECTIONS: Final = (
    NOT_PREFERRED, UNHEALTHY, BREAKER_OPEN, RETRY_AFTER, WARMING_UP, FULL, REFUSES_PARAMETER,
    CONTEXT_TOO_LONG, NOT_PINNED, NOT_HOLDER, KEPT_FOR_OTHERS,
)  # fmt: skip
BUSY: Final = frozenset({RETRY_AFTER, WARMING_UP, FULL, KEPT_FOR_OTHERS})
"""Those that pass by themselves: the server is well."""

# Why the first candidate is first.
LOWEST_COST: Final = "lowest_cost"
ONLY_CANDIDATE: Final = "only_candidate"
BASELINE_SHARE: Final = "baseline_share"
PINNED: Final = "pinned"
HOLDER: Final = "holder"
NONE_CAPABLE: Final = "none_capable"
EXPLORES: Final = "explores"
STAND_IN: Final = "stand_in"
"""No server could take the request, so a hosted model answers."""
LEARNING: Final = frozenset({BASELINE_SHARE, EXPLORES})
"""Those of requests that went there to be measured, not because it looked best."""

CHOICES: Final = (
    LOWEST_COST, ONLY_CANDIDATE, BASELINE_SHARE, PINNED, HOLDER, NONE_CAPABLE, EXPLORES, STAND_IN,
)  # fmt: skip

# Why there is no candidate.
UNKNOWN_MODEL: Final = "unknown_model"
NO_ROUTE: Final = "no_route"
EMPTY_POOL: Final = "empty_pool"
ALL_REJECTED: Final = "all_rejected"
UNKNOWN_BACKEND: Final = "unknown_backend"
PIN_NOT_ALLOWED: Final = "pin_not_allowed"
UNREADABLE: Final = "unreadable"
OVERLOADED: Final = "overloaded"
REFUSALS: Final = (
    UNKNOWN_MODEL, NO_ROUTE, EMPTY_POOL, ALL_REJECTED, UNKNOWN_BACKEND, PIN_NOT_ALLOWED, UNREADABLE,
    OVERLOADED,
)  # fmt: skip
