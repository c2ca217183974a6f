"""Decode steps for a token by configuration and kind of request: discounted sums, shrunk level by level.

With θ = E[1/τ] for one cell, log θ = prior + level of the configuration + what its kin finds hard in this
workload (:mod:`gateway.core.kinship`) + the workload's own deviation + the cell's own. Each term is drawn to
zero by a weight in requests: a cell without evidence says what its workload says, and a workload what the
configuration and its kin say.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.core.drift import Drift
from gateway.core.kinship import DRAFTS, LOOKUPS, Member, relate, slope
from gateway.core.predict import PROMPT_BINS, SAMPLED, STRATA, Cell, ServerModel
from gateway.core.samples import LOOKUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gateway.core.kinship import Belief, Kin, Seen
    from gateway.core.samples import Arm

CELL: Final = 8.0
"""Requests that the belief counts for that a cell is like its workload."""

_SPREAD: Final = 0.3
"""Standard deviation of log θ between the requests of one cell, for the watch over changes."""

_REQUEST_SPREAD: Final = 0.2
_OUTLIER: Final = 1.0
"""What the standard deviation of log θ between requests is believed to be before there are any, and the most
that the square of a residual counts for."""

_VARYING: Final = 0.02
"""Share of each new request in that variance."""

_MEMORY: Final = 600.0
"""Requests after which evidence in one cell has lost most of its weight."""

_FORGET: Final = 0.2
"""Share of a cell's evidence that outlives a change in its acceptance."""

STALE: Final = 600.0
"""Seconds without a request after which what was learnt before counts for less and less in how sure it is, so
that a server that gets none is tried again."""

TOGETHER: Final = 32
"""Configurations that tell each other at most: more would take a millisecond, and have told all there is."""

_SURE: Final = 0.5
"""Probability of a cell above which a request tells whether the cell has changed."""


@dataclass(slots=True)
class Sums:
    """Evidence of one cell; two of them add up.

    Attributes:
        weight: In requests.
        total: Sum of weight times steps a token.
    """

    weight: float = 0.0
    total: float = 0.0


@dataclass(slots=True)
class Evidence:
    """What requests have shown of one configuration.

    Attributes:
        prior: What was believed before the first.
        belief: How alike workloads and configurations are.
        draft: What makes its drafts; configurations with the same one are siblings.
        slope: How much its acceptance shows in log θ, see :func:`gateway.core.kinship.slope`.
        cells: By cell.
        drifts: Watch over each cell that has evidence.
        seen: Monotonic seconds of the last request by workload.
        variance: Of log θ between requests, whatever they ask for.
    """

    prior: ServerModel
    belief: Belief = DRAFTS
    draft: str = ""
    slope: float = 0.4
    cells: dict[Cell, Sums] = field(default_factory=lambda: defaultdict(Sums))
    drifts: dict[Cell, Drift] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    variance: float = _REQUEST_SPREAD**2

    @classmethod
    def of(cls, arm: Arm, prior: ServerModel) -> Evidence:
        """That of a server's configuration, of which a prior is believed."""
        belief = LOOKUPS if arm.family == LOOKUP else DRAFTS
        return cls(prior, belief, arm.draft, slope(prior.other_steps_per_token, arm.draft_tokens))

    def believed(self, cell: Cell) -> float:
        """The prior's log θ, from a like cell where it has none."""
        known = self.prior.steps_per_token
        for like in (cell, Cell(cell.workload, 0, cell.stratum), Cell(cell.workload, 0, SAMPLED)):
            if (found := known.get(like)) is not None:
                return math.log(found)
        return math.log(self.prior.other_steps_per_token)

    def add(self, shares: Iterable[tuple[Cell, float, float]], seen: float, weight: float) -> float:
        """Take in a request.

        Where its label is in doubt, the difference to what was expected goes to each likely cell by its
        probability. In the long run that is least squares on the probabilities, so that label errors do not
        make workloads look alike.

        Args:
            shares: Its likely cells, each with its probability and the θ published for it.
            seen: Steps a token.
            weight: In requests.

        Returns:
            Log ratio of what was seen to what was expected.
        """
        shares = tuple(shares)
        residual = math.log(seen / sum([share * theta for _, share, theta in shares]))
        self.variance += weight * _VARYING * (min(_OUTLIER, residual * residual) - self.variance)
        ratio = math.exp(residual)
        for cell, share, theta in shares:
            sums = self.cells[cell]
            part = share * weight
            keep = 1.0 - part / _MEMORY
            sums.weight = keep * sums.weight + part
            sums.total = keep * sums.total + part * theta * ratio
            if share > _SURE and sums.weight > CELL:
                drift = self.drifts.setdefault(cell, Drift(_SPREAD))
                if drift.step(residual) is not None:
                    sums.weight *= _FORGET
                    sums.total *= _FORGET
        return residual

    def weaken(self, keep: float) -> None:
        """Keep a share of the evidence."""
        for sums in self.cells.values():
            sums.weight *= keep
            sums.total *= keep

    def member(self) -> Member:
        """What it tells its kin."""
        weights: dict[str, float] = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for cell, sums in self.cells.items():
            if sums.weight > 0.0:
                weights[cell.workload] += sums.weight
                ratio = math.log(sums.total / sums.weight) - self.believed(cell)
                totals[cell.workload] += sums.weight * ratio
        seen = {workload: (weight, totals[workload] / weight) for workload, weight in weights.items()}
        return Member(self.draft, self.slope, seen)


@dataclass(frozen=True, slots=True)
class Published:
    """θ by cell, for cells that are not known, and how sure it is; see :class:`ServerModel`."""

    steps_per_token: Mapping[Cell, float]
    other_steps_per_token: float
    evidence: Mapping[str, float]
    spread: Mapping[str, float]
    other_spread: float
    request_spread: float


def fresh(age: float) -> float:
    """What evidence still counts for in how sure it is, when the last request was so many seconds ago."""
    return math.exp(min(0.0, STALE - age) / STALE)


def publish_each(
    accepted: Mapping[str, Evidence], arms: Mapping[str, Arm], now: float
) -> Iterator[tuple[str, Published]]:
    """What is known of several configurations, one after the other, each beside its family.

    Args:
        accepted: Their evidence, by fingerprint.
        arms: Which ones.
        now: Monotonic seconds.
    """
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fingerprint, arm in arms.items():
        if arm.draft_tokens:
            families[arm.target, arm.family].append(fingerprint)
        else:
            yield fingerprint, publish(accepted[fingerprint], now)
    for family in families.values():
        family.sort(key=lambda fingerprint: accepted[fingerprint].draft)  # siblings stay together
        for first in range(0, len(family), TOGETHER):
            part = family[first : first + TOGETHER]
            members = [accepted[fingerprint].member() for fingerprint in part]
            kin = relate(members, accepted[part[0]].belief)
            for fingerprint, member, known in zip(part, members, kin, strict=True):
                yield fingerprint, _published(accepted[fingerprint], member.seen, known, now)


def publish(one: Evidence, now: float) -> Published:
    """What is known of a configuration without kin."""
    member = one.member()
    (kin,) = relate([member], one.belief)
    return _published(one, member.seen, kin, now)


def _published(one: Evidence, seen: Seen, kin: Kin, now: float) -> Published:
    workloads = {*kin.workloads, *(cell.workload for cell in one.prior.steps_per_token)}
    belief, known, spread = one.belief, dict[Cell, float](), dict[str, float]()
    for workload in workloads:
        weight, deviation = seen.get(workload, (0.0, 0.0))
        above = kin.workloads.get(workload, kin.level)
        own = (weight * deviation + belief.own * above) / (weight + belief.own)
        for bin_ in range(len(PROMPT_BINS) + 1):
            for stratum in STRATA:
                cell = Cell(workload, bin_, stratum)
                believed = one.believed(cell)
                log = own
                if (sums := one.cells.get(cell)) is not None and sums.weight > 0.0:
                    ratio = math.log(sums.total / sums.weight) - believed
                    log = (sums.weight * ratio + CELL * own) / (sums.weight + CELL)
                known[cell] = math.exp(min(0.0, believed + log))
        told = weight + kin.told.get(workload, belief.prior)
        trusted = fresh(now - one.seen.get(workload, now))
        spread[workload] = math.sqrt(one.variance / (trusted * told + (1.0 - trusted) * belief.prior))
    return Published(
        steps_per_token=known,
        other_steps_per_token=math.exp(min(0.0, math.log(one.prior.other_steps_per_token) + kin.level)),
        evidence={workload: weight for workload, (weight, _) in seen.items()},
        spread=spread,
        other_spread=math.sqrt(one.variance / belief.prior),
        request_spread=math.sqrt(one.variance),
    )
