"""What a whole mix of work takes of each configuration: seconds, in those of the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.sweep.model import Candidate, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.policy.evidence import Measurement


def candidate(one: Measurement) -> Candidate:
    """Whose measurement it is."""
    return Candidate(one.method, one.draft_tokens)


def work(one: Measurement) -> Work:
    """What kind of requests was measured."""
    return Work(one.workload, one.prompt, one.sampling)


def ratio(one: Measurement) -> float:
    """Speed-up of a measurement; 0 where there is none."""
    return one.speedup.value if one.speedup is not None else 0.0


def shares(works: Iterable[Work], mix: Mapping[str, float] | None) -> dict[Work, float]:
    """Share of the requests that are of each kind, those above 0; they add up to 1.

    Args:
        works: Kinds there are.
        mix: Shares by workload, of which all its kinds get the same; or by label of a kind, such as
            ``chat 8k``: the workload's own share is then for its other kinds. Equal ones if left out.
    """
    kinds = list(dict.fromkeys(works))
    given = dict.fromkeys((one.workload for one in kinds), 1.0) if mix is None else mix
    found = dict.fromkeys(kinds, 0.0)
    for name, share in given.items():
        named = [one for one in kinds if one.label == name and not one.is_plain]
        named = named or [
            one for one in kinds if one.workload == name and (one.is_plain or one.label not in given)
        ]
        for one in named:
            found[one] += share / len(named)
    total = sum(found.values())
    return {one: share / total for one, share in found.items() if share > 0.0}


def totals(
    cells: Sequence[Measurement], level: int, mix: Mapping[str, float] | None
) -> tuple[dict[Candidate, float], float]:
    """Seconds for the mix by candidate, and by the best of each kind of work; the baseline's are 1."""
    here = [one for one in cells if one.concurrency == level]
    # Seconds of the baseline for a request of each kind: its tokens over the rate.
    base = {
        work(one): (one.output_tokens or 1.0) / one.tokens_per_second.value for one in here if one.is_baseline
    }
    weights = {one: share * base[one] for one, share in shares(base, mix).items()}
    total = sum(weights.values())
    if not total:
        return {}, 1.0
    parts = {one: weight / total for one, weight in weights.items()}
    speeds: dict[Candidate, dict[Work, float]] = {}
    for one in here:
        if work(one) in parts:
            speeds.setdefault(candidate(one), {})[work(one)] = ratio(one)
    complete = {who: by for who, by in speeds.items() if by.keys() == parts.keys()}
    seconds = {who: sum(parts[one] / by[one] for one in parts) for who, by in complete.items()}
    best = sum(share / max(by.get(one, 0.0) for by in speeds.values()) for one, share in parts.items())
    return seconds, best


def counted(cells: Sequence[Measurement], mix: Mapping[str, float] | None) -> list[Measurement]:
    """The cells that a choice for everything rests on.

    All of them where at each load a draft was measured with every kind of work; else those with plain
    requests, if there are any.
    """
    plain = [one for one in cells if work(one).is_plain]
    levels = {one.concurrency for one in cells}
    whole = all(any(not who.is_baseline for who in totals(cells, level, mix)[0]) for level in levels)
    return list(cells) if whole or not plain else plain
