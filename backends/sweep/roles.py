"""Servers to be kept for work with a limit on the time per token, by measured times: the rest does the bulk.

A server keeps the limit with as many requests as still do when 1.28 standard deviations more are in flight:
one in ten beyond, as :mod:`gateway.core.plan` counts in service. What it then gives a second is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.sweep.mix import candidate
from backends.sweep.model import GREEDY, SHORT, Candidate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gateway.policy.evidence import Evidence, Measurement

TAIL: Final = 1.28
HEADROOM: Final = 1.1
"""Factor on the rate that is asked for: it moves."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Work that must be served within a time per token.

    Attributes:
        tpot: Seconds a token.
        rate: Requests a second.
    """

    workload: str
    tpot: float
    rate: float


@dataclass(frozen=True, slots=True)
class Role:
    """Servers for one limit.

    Attributes:
        candidate: What they run; None where nothing measured keeps the limit.
        servers: How many it takes.
        batch: Requests in flight on each at most.
        each: Requests a second that each can take.
    """

    limit: Limit
    candidate: Candidate | None
    servers: int
    batch: int
    each: float


def roles(evidence: Evidence, limits: Iterable[Limit], excluded: Collection[Candidate] = ()) -> list[Role]:
    """For each limit the configuration that keeps it with the fewest servers.

    Args:
        evidence: All measurements; the greedy ones of short prompts count.
        limits: What must be kept.
        excluded: Configurations that are not to be used.
    """
    return [_role(evidence, limit, excluded) for limit in limits]


def _role(evidence: Evidence, limit: Limit, excluded: Collection[Candidate]) -> Role:
    best = Role(limit, None, 0, 0, 0.0)
    own = [
        one
        for one in evidence.measurements
        if (one.workload, one.sampling, one.prompt) == (limit.workload, GREEDY, SHORT)
        and one.tpot is not None
        and candidate(one) not in excluded
    ]
    tokens = [one.output_tokens for one in own if one.output_tokens]
    if not tokens:
        return best
    length = sum(tokens) / len(tokens)
    for who in dict.fromkeys(map(candidate, own)):
        batch, rate = _most([one for one in own if candidate(one) == who], limit.tpot)
        each = rate / length
        if batch and each > best.each:
            servers = math.ceil(HEADROOM * limit.rate / each)
            best = Role(limit, who, servers, batch, each)
    return best


def _most(cells: Sequence[Measurement], tpot: float) -> tuple[int, float]:
    """Largest batch within the measured loads that keeps a limit, and its tokens/s; zeros where none does."""
    ordered = sorted(cells, key=lambda one: one.concurrency)
    levels = [one.concurrency for one in ordered]
    times = [one.tpot.value if one.tpot is not None else math.inf for one in ordered]
    rates = [one.tokens_per_second.value for one in ordered]
    for batch in range(levels[-1], levels[0] - 1, -1):
        tail = min(float(levels[-1]), batch + TAIL * math.sqrt(batch)) if batch > 1 else 1.0
        if np.interp(tail, levels, times) <= tpot:
            return batch, float(np.exp(np.interp(math.log(batch), np.log(levels), np.log(rates))))
    return 0, 0.0
