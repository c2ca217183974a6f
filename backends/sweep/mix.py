"""What a whole mix of workloads takes of each configuration: seconds, in those of the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.sweep.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.policy.evidence import Measurement


def candidate(one: Measurement) -> Candidate:
    """Whose measurement it is."""
    return Candidate(one.method, one.draft_tokens)


def ratio(one: Measurement) -> float:
    """Speed-up of a measurement; 0 where there is none."""
    return one.speedup.value if one.speedup is not None else 0.0


def totals(
    cells: Sequence[Measurement], level: int, mix: Mapping[str, float] | None
) -> tuple[dict[Candidate, float], float]:
    """Seconds for the mix by candidate, and by the best of each workload; the baseline's are 1."""
    here = [one for one in cells if one.concurrency == level]
    workloads = tuple(dict.fromkeys(one.workload for one in here))
    weights = {name: (mix or {}).get(name, 0.0 if mix else 1.0) for name in workloads}
    # Seconds of the baseline for a request of each workload: its tokens over the rate.
    base = {
        one.workload: one.tokens_per_second.value / (one.output_tokens or 1.0)
        for one in here
        if one.is_baseline
    }
    weights = {name: weight for name, weight in weights.items() if weight > 0.0 and name in base}
    total = sum(weight / base[name] for name, weight in weights.items())
    if not total:
        return {}, 1.0
    shares = {name: weight / base[name] / total for name, weight in weights.items()}
    speeds: dict[Candidate, dict[str, float]] = {}
    for one in here:
        if one.workload in shares:
            speeds.setdefault(candidate(one), {})[one.workload] = ratio(one)
    complete = {who: by for who, by in speeds.items() if by.keys() == shares.keys()}
    seconds = {who: sum(shares[name] / by[name] for name in shares) for who, by in complete.items()}
    best = sum(share / max(by.get(name, 0.0) for by in speeds.values()) for name, share in shares.items())
    return seconds, best
