"""Reason codes that leave the process in decisions, headers, metrics and logs."""

from __future__ import annotations

from typing import Final

# Why a backend was not a candidate.
WRONG_MODEL: Final = "wrong_model"
NOT_PREFERRED: Final = "not_in_route"
UNHEALTHY: Final = "unhealthy"
FULL: Final = "full"
REFUSES_PARAMETER: Final = "refuses_parameter"
CONTEXT_TOO_LONG: Final = "context_too_long"
EXCLUDED: Final = "already_tried"
NOT_PINNED: Final = "not_pinned"

# Why the first candidate was chosen.
SCORE: Final = "score"
ONLY_CANDIDATE: Final = "only_candidate"
BASELINE_SHARE: Final = "baseline_share"
PINNED: Final = "pinned"

# Why no backend was left.
EMPTY_POOL: Final = "empty_pool"
ALL_REJECTED: Final = "all_rejected"
UNSUPPORTED: Final = "unsupported"
UNKNOWN_MODEL: Final = "unknown_model"

BUSY: Final = frozenset({FULL})
"""Rejections that pass by themselves; a client may try again."""
