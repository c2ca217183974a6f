from __future__ import annotations

import math
import random

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gateway.core.kinship import DRAFTS, LOOKUPS, Belief, Member, relate, slope


def length(rate: float, drafts: int) -> float:
    return sum(rate**place for place in range(drafts + 1))


@pytest.mark.parametrize("drafts", [1, 3, 7, 15])
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.78])
def test_the_slope_is_that_of_the_accepted_length_by_log_odds(drafts: int, rate: float) -> None:
    odds, step = math.log(rate / (1.0 - rate)), 1e-4
    up, down = (math.log(length(1.0 / (1.0 + math.exp(-at)), drafts)) for at in (odds + step, odds - step))
    assert slope(1.0 / length(rate, drafts), drafts) == pytest.approx((up - down) / (2.0 * step), rel=1e-3)


def test_a_draft_that_is_all_but_always_right_still_tells_of_workloads() -> None:
    assert slope(0.5, 1) == pytest.approx(slope(1.0 / length(0.8, 1), 1))
    assert slope(1.0, 4) > 0.0


def some(rng: random.Random) -> list[Member]:
    return [
        Member(
            rng.choice("abc"),
            rng.uniform(0.1, 0.8),
            {name: (rng.uniform(0.0, 100.0), rng.gauss(0.0, 0.3)) for name in "pqrs" if rng.random() < 0.7},
        )
        for _ in range(7)
    ]


def by_all_terms_at_once(members: list[Member], belief: Belief) -> tuple[list[float], list[dict[str, float]]]:
    """Ridge regression on a column for each level, workload, and workload of a draft."""
    workloads = sorted({name for one in members for name in one.seen})
    drafts = sorted({one.draft for one in members})
    weights = [
        *[belief.level] * len(members),
        *[belief.family] * len(workloads),
        *[belief.draft] * len(workloads) * len(drafts),
    ]
    system, right = np.diag(weights), np.zeros(len(weights))

    def column(member: int, workload: str) -> np.ndarray:
        at = workloads.index(workload)
        found = np.zeros(len(weights))
        found[[member, len(members) + at]] = 1.0
        of_draft = drafts.index(members[member].draft) * len(workloads) + at
        found[len(members) + len(workloads) + of_draft] = 1.0
        return found

    for place, one in enumerate(members):
        for workload, (requests, off) in one.seen.items():
            weight = requests * belief.own / (requests + belief.own)
            system += weight * np.outer(column(place, workload), column(place, workload))
            right += weight * column(place, workload) * off / one.slope
    terms = np.linalg.solve(system, right)
    return (
        [float(one.slope * terms[place]) for place, one in enumerate(members)],
        [
            {name: float(one.slope * (column(place, name) @ terms)) for name in workloads}
            for place, one in enumerate(members)
        ],
    )


@pytest.mark.parametrize("belief", [DRAFTS, LOOKUPS])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_least_squares_on_all_terms_at_once(belief: Belief, seed: int) -> None:
    members = some(random.Random(seed))  # noqa: S311 - no secret
    levels, known = by_all_terms_at_once(members, belief)
    found = relate(members, belief)
    assert_allclose([one.level for one in found], levels, atol=1e-9)
    for one, expected in zip(found, known, strict=True):
        assert one.workloads == pytest.approx(expected, abs=1e-9)


def test_what_is_hard_shows_by_the_slope() -> None:
    seen = {"code": (500.0, -0.4), "chat": (500.0, 0.4)}
    short, _ = relate([Member("a", 0.2, {}), Member("a", 0.4, seen)], DRAFTS)
    assert short.workloads["chat"] - short.workloads["code"] == pytest.approx(0.4, rel=0.1)


def test_siblings_count_for_more_requests_than_other_drafts_and_those_for_more_than_none() -> None:
    seen = {"code": (500.0, -0.4)}
    new, stranger, known = relate(
        [Member("a", 0.4, {}), Member("b", 0.4, {}), Member("a", 0.4, seen)], DRAFTS
    )
    assert DRAFTS.prior < stranger.told["code"] < new.told["code"] < DRAFTS.own
    assert known.told["code"] == pytest.approx(DRAFTS.prior), "its own requests are not told to it"


def test_nothing_is_told_where_nothing_was_seen() -> None:
    (one,) = relate([Member("a", 0.4, {})], DRAFTS)
    assert one == (0.0, {}, {})
