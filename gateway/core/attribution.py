"""Acceptance by workload from a server's counters alone: whose drafts were they?

In a window of time a server counts drafts D and accepted tokens A over all its requests. Each token of a
workload w takes θ_w drafts and brings φ_w accepted tokens, so

    D = Σ_w θ_w·T_w + noise        A = Σ_w φ_w·T_w + noise

where T_w are the tokens that w decoded in the window. Over many windows with different mixes both are
least-squares problems with one design matrix; the mean accepted length of w is 1 + φ_w / θ_w. Windows weigh
1 / ΣT, since the noise grows with the tokens, and old ones are forgotten.

If the mix never changes, nothing can tell the workloads apart. That shows in a variance inflation: how much
larger the variance of θ_w is for the presence of the others. Where only chance changes it, or requests differ
much, the noise hides what there is to tell, and the 95 % interval of the length is too wide. Then there is no
number: the honest answer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.gain import student
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FORGET: Final = 0.99
"""Weight of a window relative to that of the next one."""

MOST_INFLATION: Final = 100.0
"""Variance inflation above which a workload cannot be told from the others."""

MOST_ERROR: Final = 0.02
"""Half the relative width of the 95 % interval above which an estimate is not worth its name. Of numbers
that wide one in 300 is off by more than 3 %."""

MIN_FREEDOM: Final = 8
"""Windows beyond those that the unknowns take up: with fewer, chance can make the noise look small."""

_SWEEPS: Final = 200
_RIDGE: Final = 1e-9


@value(frozen=True, slots=True)
class State:
    """Sums over windows: all that an estimate needs.

    Attributes:
        workloads: Names in the order of the rows.
        gram: Weighted Σ T·Tᵀ.
        moments: Weighted Σ T·y, a column for drafts, one for accepted tokens.
        squares: Weighted Σ y·yᵀ of both.
        windows: Discounted number of windows.
    """

    workloads: tuple[str, ...]
    gram: Floats
    moments: Floats
    squares: Floats
    windows: float


@value(frozen=True, slots=True)
class Estimate:
    """What the counters say of one workload.

    Attributes:
        mean_accepted_length: Tokens a step with a draft yields; None where it cannot be told.
        inflation: Variance inflation by the other workloads, 1 if it is alone.
        error: Half the relative width of the length's 95 % interval; infinite where windows are too few.
        why_not: Why there is no length: ``not_identifiable``, ``too_few_windows``, ``too_uncertain`` or
            ``no_drafts``; empty if there is one.
    """

    mean_accepted_length: float | None
    inflation: float
    error: float
    why_not: str = ""


def empty() -> State:
    """Before the first window."""
    return State((), np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((2, 2)), 0.0)


def update(state: State, tokens: Mapping[str, float], drafts: float, accepted: float) -> State:
    """Take in a window.

    Args:
        state: So far.
        tokens: Decoded tokens by workload; those of others' requests have a name of their own.
        drafts: Drafts counted.
        accepted: Accepted tokens counted.
    """
    total = sum(tokens.values())
    if total <= 0:
        return state
    state = _with(state, [name for name in tokens if name not in state.workloads])
    row = np.array([tokens.get(name, 0.0) for name in state.workloads])
    counted = np.array([drafts, accepted])
    return State(
        state.workloads,
        FORGET * state.gram + np.outer(row, row) / total,
        FORGET * state.moments + np.outer(row, counted) / total,
        FORGET * state.squares + np.outer(counted, counted) / total,
        FORGET * state.windows + 1.0,
    )


def _with(state: State, names: Sequence[str]) -> State:
    """The state with rows for further workloads."""
    more = len(names)
    if not more:
        return state
    return State(
        (*state.workloads, *names),
        np.pad(state.gram, (0, more)),
        np.pad(state.moments, ((0, more), (0, 0))),
        state.squares,
        state.windows,
    )


def estimates(state: State) -> dict[str, Estimate]:
    """What can be told of each workload now."""
    seen = [place for place in range(len(state.workloads)) if state.gram[place, place] > 0]
    if not seen:
        return {}
    gram, moments = state.gram[np.ix_(seen, seen)], state.moments[seen]
    scale = np.sqrt(np.diag(gram))
    normal = gram / np.outer(scale, scale)
    inverse = np.linalg.inv(normal + _RIDGE * np.eye(len(seen)))
    per_token = _bounded(normal, inverse, moments / scale[:, None]) / scale[:, None]
    freedom = state.windows - len(seen)
    explained = per_token.T @ moments
    residual = state.squares - explained - explained.T + per_token.T @ gram @ per_token
    found = {}
    for place, index in enumerate(seen):
        inflation = float(inverse[place, place])
        error = math.inf
        if freedom >= MIN_FREEDOM:
            spread = _spread(per_token[place], residual / freedom)
            error = student(freedom) * spread * math.sqrt(inflation) / float(scale[place])
        found[state.workloads[index]] = _judged(per_token[place], inflation, error)
    return found


def _spread(per_token: Floats, covariance: Floats) -> float:
    """Relative standard error of 1 + φ / θ for a covariance of both (delta method); 0 without drafts."""
    drafts, accepted = per_token
    if drafts <= 0:
        return 0.0
    slope = np.array([-accepted / drafts, 1.0])
    return math.sqrt(max(0.0, float(slope @ covariance @ slope))) / float(drafts + accepted)


def _judged(per_token: Floats, inflation: float, error: float) -> Estimate:
    drafts, accepted = per_token
    why_not = ""
    if math.isinf(error):
        why_not = "too_few_windows"
    elif inflation > MOST_INFLATION:
        why_not = "not_identifiable"
    elif drafts <= 0:
        why_not = "no_drafts"
    elif error > MOST_ERROR:
        why_not = "too_uncertain"
    length = None if why_not else 1.0 + float(accepted / drafts)
    return Estimate(length, inflation, error, why_not)


def _bounded(gram: Floats, inverse: Floats, moments: Floats) -> Floats:
    """Least squares with no coefficient below zero, by coordinate descent on the normal equations."""
    found = inverse @ moments
    if (found >= 0.0).all():
        return found
    found = np.maximum(found, 0.0)
    for _ in range(_SWEEPS):
        before = found.copy()
        for place in range(len(gram)):
            rest = moments[place] - gram[place] @ found + gram[place, place] * found[place]
            found[place] = np.maximum(rest / gram[place, place], 0.0)
        if np.allclose(found, before, rtol=1e-9, atol=0.0):
            break
    return found
