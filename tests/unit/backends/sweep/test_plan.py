from __future__ import annotations

import pytest

from backends.methods import methods
from backends.sim import profiles
from backends.sweep.model import BASELINE, Candidate, Cell, Condition
from backends.sweep.plan import Family, Plan, Settings, families
from backends.sweep.results import Results
from backends.sweep.virtual import VirtualServers
from tests.unit.backends.sweep.making import CODE, measured_round, results

CHAT = Condition("chat", 8)
FAMILY = Family("mtp", 3, (1, 2, 3, 4, 5))


def plan(found: Results, *, conditions: tuple[Condition, ...] = (CODE,), **more) -> Plan:
    return Plan(conditions, (FAMILY,), found, **more)


def test_a_method_climbs_from_its_start_and_looks_below_it_last() -> None:
    assert [one.draft_tokens for one in FAMILY.climb()] == [3, 4, 5, 2, 1]
    assert [one.label for one in plan(Results()).candidates()][:3] == ["none", "mtp-3", "mtp-4"]


def test_families_take_the_nearest_length_where_the_start_is_not_among_them() -> None:
    (family,) = families({"dflash": 8}, {"dflash": [15, 3, 7]}, {"dflash": range(1, 16)})
    assert family.start == 7
    assert family.lengths == (3, 7, 15)
    assert family.between == (4, 5, 6, 8, 9, 10, 11, 12, 13, 14)


def test_the_baseline_comes_first_and_until_it_is_exact() -> None:
    empty = plan(Results())
    assert empty.visit() == BASELINE
    assert empty.next_round(BASELINE) == CODE
    rough = plan(results(measured_round(spread=0.3)))
    assert rough.visit() != BASELINE
    assert rough.next_round(BASELINE) == CODE
    once = plan(results(measured_round(spread=0.001)))
    assert once.next_round(BASELINE) == CODE  # one round alone does not tell how rounds differ
    exact = plan(results(measured_round(spread=0.001), measured_round(spread=0.001, number=1)))
    assert exact.next_round(BASELINE) is None
    assert exact.visit() == Candidate("mtp", 3)


def test_conditions_are_measured_one_after_the_other_on_one_server() -> None:
    found = results(measured_round(spread=0.001), measured_round(spread=0.001, number=1))
    two = plan(found, conditions=(CODE, CHAT))
    assert two.next_round(BASELINE) == CHAT
    found.add(*measured_round(condition=CHAT, spread=0.001))
    found.add(*measured_round(condition=CHAT, spread=0.001, number=1))
    assert two.next_round(BASELINE) is None


def test_a_baseline_that_was_interrupted_comes_before_candidates_that_are_new() -> None:
    half = plan(results(measured_round(spread=0.001)), conditions=(CODE, CHAT))
    assert half.visit() == BASELINE
    rough = plan(results(measured_round(spread=0.3), measured_round(condition=CHAT)), conditions=(CODE, CHAT))
    assert rough.visit() == Candidate("mtp", 3)


def test_climbing_stops_where_late_positions_bring_nothing() -> None:
    found = results(
        measured_round(spread=0.001),
        measured_round(Candidate("mtp", 3), rate=75.0, spread=0.001, accepted=(20, 40, 30, 10)),
        measured_round(Candidate("mtp", 4), rate=60.0, spread=0.001, accepted=(20, 40, 30, 9, 1)),
    )
    stopped = plan(found)
    assert stopped.hopeless(Cell(Candidate("mtp", 5), CODE))
    assert stopped.next_round(Candidate("mtp", 5)) is None
    assert not stopped.hopeless(Cell(Candidate("mtp", 2), CODE))


def test_a_clear_loser_gets_one_round_and_a_close_one_more() -> None:
    found = results(
        measured_round(spread=0.001),
        measured_round(Candidate("mtp", 3), rate=100.0, spread=0.1, accepted=(1, 1, 1, 9)),
        measured_round(Candidate("mtp", 4), rate=60.0, spread=0.1, accepted=(1, 1, 1, 1, 8)),
        measured_round(Candidate("mtp", 5), rate=101.0, spread=0.1, accepted=(1, 1, 1, 1, 1, 8)),
    )
    close = plan(found)
    assert not close.wanted(Cell(Candidate("mtp", 4), CODE))
    assert close.wanted(Cell(Candidate("mtp", 3), CODE))
    assert close.wanted(Cell(Candidate("mtp", 5), CODE))
    limited = plan(found, settings=Settings(rounds=1))
    assert not limited.wanted(Cell(Candidate("mtp", 3), CODE))


def test_what_failed_is_not_asked_for_again() -> None:
    cell = Cell(Candidate("mtp", 3), CODE)
    found = results(measured_round(spread=0.001))
    assert plan(found).wanted(cell)
    assert not plan(found, failed={cell}).wanted(cell)
    assert not plan(found, failed={cell.candidate}).wanted(cell)
    assert plan(found, failed={cell.candidate}).next_round(cell.candidate) is None


def test_a_condition_that_no_server_takes_is_left() -> None:
    refused = measured_round(error="status 400: too long")
    assert plan(results(refused)).visit() is None


def test_a_condition_whose_baseline_was_given_up_is_left() -> None:
    found = results(measured_round(spread=0.001))
    left = plan(found, conditions=(CODE, CHAT), failed={Cell(BASELINE, CHAT)})
    assert left.next_round(Candidate("mtp", 3)) == CODE
    assert not left.wanted(Cell(Candidate("mtp", 3), CHAT))


def test_a_length_between_is_tried_where_it_promises_more_than_noise() -> None:
    survival = (30, 5, 5, 5, 5, 5, 5, 40)
    found = results(
        measured_round(spread=0.001),
        measured_round(Candidate("dflash", 3), rate=70.0, spread=0.001, accepted=(5, 5, 5, 85)),
        measured_round(
            Candidate("dflash", 11), rate=70.0, spread=0.001, accepted=(*survival[:3], 65, *[0] * 8)
        ),
    )
    family = Family("dflash", 3, (3, 11), tuple(range(4, 11)))
    tried = Plan((CODE,), (family,), found).candidates()
    assert tried[:3] == [BASELINE, Candidate("dflash", 3), Candidate("dflash", 11)]
    better = results(
        measured_round(spread=0.001),
        measured_round(Candidate("dflash", 3), rate=90.0, spread=0.001, accepted=(5, 5, 5, 85)),
        measured_round(
            Candidate("dflash", 15), rate=90.0, spread=0.001, accepted=(5, 5, 5, 5, 5, 5, 5, 65, *[0] * 8)
        ),
    )
    family = Family("dflash", 3, (3, 15), tuple(range(4, 15)))
    assert Candidate("dflash", 7) in Plan((CODE,), (family,), better).candidates()


def test_the_exhaustive_plan_measures_everything() -> None:
    found = results(measured_round(spread=0.001), measured_round(Candidate("mtp", 3), rate=10.0, spread=0.3))
    assert not plan(found).wanted(Cell(Candidate("mtp", 3), CODE))
    assert plan(found, exhaustive=True).wanted(Cell(Candidate("mtp", 3), CODE))


def sweep(target: str, *, exhaustive: bool = False, seed: int = 1) -> Plan:
    """A sweep over the published configurations and data sets, begun where each method's own default says."""
    lengths: dict[str, list[int]] = {}
    published = [one for one in profiles.configurations(target) if one.cells]
    for one in published:
        if one.draft_tokens:
            lengths.setdefault(one.method, []).append(one.draft_tokens)
    conditions = [Condition(name, published[0].curve.concurrency) for name in published[0].cells]
    starts = {name: methods()[name].draft_tokens.default for name in lengths}
    made = Plan(conditions, families(starts, lengths, {}), Results(), exhaustive=exhaustive)
    servers = VirtualServers(target, seed=seed)
    while (candidate := made.visit()) is not None:
        while (condition := made.next_round(candidate)) is not None:
            cell = Cell(candidate, condition)
            number = made.results.rounds(cell)
            made.results.add(*servers.measure(cell, number, made.settings.of_round(condition)))
    return made


@pytest.mark.timeout(900)
def test_the_articles_best_cells_are_found_with_a_part_of_the_grids_measurements(record_property) -> None:
    hits = cells = 0
    rounds = grid = 0.0
    for target in profiles.targets():
        made = sweep(target)
        rounds += made.results.total_rounds
        grid += made.grid_rounds()
        for condition in made.conditions:
            best = made.best(condition)
            assert best is not None
            published = {
                Candidate(one.method, one.draft_tokens): one.cells[condition.workload].speedup
                for one in profiles.configurations(target)
                if one.cells
            }
            cells += 1
            hits += published[best[0]] >= max(published.values()) / 1.1
    record_property("hits", hits)
    record_property("share of the grid", rounds / grid)
    assert cells == 36
    assert hits >= 34
    assert rounds <= 0.6 * grid


@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", ["MiniMaxAI/MiniMax-M3-MXFP8", "Qwen/Qwen3.6-27B"])
def test_what_the_grid_would_take_is_told_without_measuring_it(target: str) -> None:
    told, taken = sweep(target).grid_rounds(), sweep(target, exhaustive=True).results.total_rounds
    # What is claimed to be saved is rather too little: the grid learns more of how rounds differ, and repeats more.
    assert 0.5 * taken <= told <= 1.2 * taken
