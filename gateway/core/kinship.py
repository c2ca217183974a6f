"""What configurations tell of each other's acceptance: siblings, which differ in N alone, nearly all of it.

A workload that is hard for one draft is hard for most, but how much that shows in θ = E[1/τ] depends on N: of
one drafted token a step never makes more than two. With acceptance a at each position, τ = 1 + a + … + a^N,
and a workload whose log odds of acceptance are δ lower has log θ higher by κ·δ, κ = a·(1 - a)·τ'(a) / τ(a).
In units of κ, workloads differ by about as much at N = 3 as at 15 where a draft's acceptance is published.

So of configuration c with workload w, log θ over the prior's is κ_c·(level_c + family_w + draft_dw + own_cw),
each term drawn to zero with a weight in requests, which is least squares with a ridge. ``own`` is left out
here: it only lessens what one configuration's requests tell of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_LEAST_GAIN: Final = 0.02
"""Tokens above one a step that a draft is believed to give: κ is nothing where it gives none."""

_MOST_EVEN: Final = 0.8
"""Highest acceptance at which κ is taken: as it differs between positions and requests, workloads show more
where nearly all is accepted than they would if it did not."""

_HALVINGS: Final = 30


@dataclass(frozen=True, slots=True)
class Belief:
    """How many requests it takes to be told from zero, for each term.

    Attributes:
        level: A configuration's distance from its prior.
        family: How hard a workload is for all drafts of a kind.
        draft: How hard it is for one draft beyond that.
        own: How hard it is for one N of that draft beyond that.
    """

    level: float
    family: float
    draft: float
    own: float

    @property
    def prior(self) -> float:
        """Requests that all that is believed of a workload before the first one counts for."""
        return 1.0 / (1.0 / self.family + 1.0 / self.draft + 1.0 / self.own)


DRAFTS: Final = Belief(level=1.0, family=2.0, draft=6.0, own=60.0)
"""Of draft models. Requests of one workload differ by 0.6 in log odds, workloads by 0.45, drafts by 0.25."""

LOOKUPS: Final = Belief(level=2.0, family=0.4, draft=0.4, own=4.0)
"""Of looking text up, which finds nearly all or nothing, so that one workload tells little of another."""


Seen = dict[str, tuple[float, float]]
"""By workload, the weight of its requests and their mean log θ over the prior's."""


class Member(NamedTuple):
    """A configuration of a family.

    Attributes:
        draft: What makes its drafts; siblings have the same.
        slope: Its κ, see :func:`slope`.
        seen: What its requests have shown.
    """

    draft: str
    slope: float
    seen: Seen


class Kin(NamedTuple):
    """What is known of a configuration, its own deviations left out.

    Attributes:
        level: Its log θ over its prior's, where nothing is known of the workload.
        workloads: The same by workload.
        told: Requests of its own that all that others have shown counts for, by workload.
    """

    level: float
    workloads: Mapping[str, float]
    told: Mapping[str, float]


def slope(steps_per_token: float, draft_tokens: int) -> float:
    """By how much log θ falls with the log odds of acceptance, at a θ and an N: κ.

    Args:
        steps_per_token: θ.
        draft_tokens: N, at least 1.
    """
    wanted = max(1.0 + _LEAST_GAIN, 1.0 / steps_per_token)
    low, high = 0.0, _MOST_EVEN
    for _ in range(_HALVINGS):
        rate = (low + high) / 2.0
        if sum([rate**place for place in range(draft_tokens + 1)]) < wanted:
            low = rate
        else:
            high = rate
    length = sum([low**place for place in range(draft_tokens + 1)])
    rises = sum([place * low ** (place - 1) for place in range(1, draft_tokens + 1)])
    return low * (1.0 - low) * rises / length


def relate(members: Sequence[Member], belief: Belief) -> list[Kin]:
    """What each configuration of a family is believed to accept, by what all of them have shown."""
    workloads = sorted({workload for one in members for workload in one.seen})
    if not workloads:
        return [Kin(0.0, {}, {}) for _ in members]
    slopes = np.array([one.slope for one in members])
    seen = np.array([[one.seen.get(workload, (0.0, 0.0)) for workload in workloads] for one in members])

    weight, off = seen[:, :, 0], seen[:, :, 1] / slopes[:, None]
    weight = weight * belief.own / (weight + belief.own)
    # With the levels taken off, the drafts' terms follow from the family's, and that from all requests, so
    # that only the levels are left to solve for.
    drafts = np.array([one.draft for one in members])
    siblings = (drafts[:, None] == drafts).astype(float)
    by_draft = siblings @ weight + belief.draft
    shared = belief.draft / by_draft
    pulled = weight * shared
    family = pulled.sum(axis=0) + belief.family
    explained = (pulled / family) @ pulled.T + siblings * ((weight / by_draft) @ weight.T)

    def hard(level: NDArray[np.float64]) -> NDArray[np.float64]:
        rest = off - level[:, None]
        told = siblings @ (weight * rest) / by_draft
        found: NDArray[np.float64] = told + shared * (pulled * rest).sum(axis=0) / family
        return found

    nothing = np.zeros(len(members))
    system = np.diag(weight.sum(axis=1) + belief.level) - explained
    level = np.linalg.solve(system, (weight * (off - hard(nothing))).sum(axis=1))
    known = slopes[:, None] * (level[:, None] + hard(level))
    # The same without each one's own requests, for how much the others' count for.
    others = by_draft - weight
    left = belief.draft / others
    rest = family - (siblings @ pulled) + left * (others - belief.draft)
    counts = 1.0 / (1.0 / others + left**2 / rest + 1.0 / belief.own)
    return [
        Kin(own, dict(zip(workloads, each, strict=True)), dict(zip(workloads, told, strict=True)))
        for own, each, told in zip((slopes * level).tolist(), known.tolist(), counts.tolist(), strict=True)
    ]
