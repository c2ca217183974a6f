from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.choice import Draw
from gateway.core.policy import Selector, WeightedScorer
from gateway.core.roster import Roster
from gateway.core.scorers import Costing
from tests.factories import ANY, prefer, route, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.choice import Ordered
    from gateway.core.fleet import BackendState
    from gateway.core.policy import Route
    from gateway.core.roster import Pool
    from gateway.core.sorting import Line

MANY = 70
NAMES = [f"b{at}" for at in range(MANY)]
METHODS = ("none", "mtp", "dflash")
ROUTES = (
    route(prefer=(Selector(method="mtp"), ANY)),
    route(prefer=(Selector(method="mtp", max_in_flight=2), Selector(method="none"))),
    route(prefer=(Selector(method="mtp", max_in_flight=2), ANY), scorers=(WeightedScorer("load", 1.0),)),
    route(prefer=prefer("b1", "b2", "b30", "b31")),
    route(scorers=(WeightedScorer("seconds", 1.0), WeightedScorer("load", 9.0))),
)


def server(at: int, in_flight: int = 0, *, healthy: bool = True) -> BackendState:
    return state(
        NAMES[at], in_flight=in_flight, healthy=healthy, method=METHODS[at % len(METHODS)], max_in_flight=5
    )


def at_this_moment(pool: Pool, by: Route, states: Sequence[BackendState]) -> tuple[Line, Ordered]:
    lineup = pool.lineup(by)
    line = lineup.line(pool.look(states, 0.0, 15.0))
    return line, lineup.order(line, Costing(line.usable.servers, line.usable.ranks), Draw(0.5, 0.7))


def names(line: Line) -> list[str]:
    return [one.name for one in line.usable.servers]


CHANGES = st.lists(
    st.dictionaries(
        st.integers(0, MANY - 1), st.tuples(st.integers(0, 5), st.sampled_from([True, True, True, False])),
        max_size=4,
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(st.lists(st.integers(0, 4), min_size=MANY, max_size=MANY), CHANGES)
@pytest.mark.parametrize("by", ROUTES)
def test_what_is_kept_is_what_would_be_found_anew(
    by: Route, busy: list[int], steps: list[dict[int, tuple[int, bool]]]
) -> None:
    states = [server(at, in_flight) for at, in_flight in enumerate(busy)]
    backends = [one.backend for one in states]
    kept = Roster(backends).pool("")
    for changes in ({}, *steps):
        for at, (in_flight, healthy) in changes.items():
            states[at] = server(at, in_flight, healthy=healthy)
        line, order = at_this_moment(kept, by, (*states,))
        fresh, anew = at_this_moment(Roster(backends).pool(""), by, (*states,))
        assert names(line) == names(fresh)
        assert (*line.ranks,) == (*fresh.ranks,)
        assert [*line.usable.ranks] == [*fresh.usable.ranks]
        assert (line.why, line.free, line.usable.rejected) == (fresh.why, fresh.free, fresh.usable.rejected)
        assert order.candidates == anew.candidates
        assert order.equals == anew.equals


def test_only_what_changed_is_put_in_its_place() -> None:
    by = route(scorers=(WeightedScorer("load", 1.0),))
    states = [server(at, 1) for at in range(MANY)]
    pool = Roster([one.backend for one in states]).pool("")
    _, before = at_this_moment(pool, by, (*states,))
    states[40] = server(40)
    line, after = at_this_moment(pool, by, (*states,))
    assert after.cheapest == ["b40"]
    others = [one for one in range(MANY) if one != 40]
    assert all(after.costs.sums[at] is before.costs.sums[at] for at in others)
    assert before.equals == MANY, "what was found before is not touched"
    assert at_this_moment(pool, by, (*states,))[0] is line


def test_a_server_that_is_out_says_why_and_is_back_when_it_can_be_used() -> None:
    by, states = ROUTES[0], [server(at) for at in range(3)]
    pool = Roster([one.backend for one in states]).pool("")
    whole, _ = at_this_moment(pool, by, (*states,))
    without, _ = at_this_moment(pool, by, (states[0], server(1, 5), states[2]))
    assert (names(whole), whole.usable.rejected) == (["b0", "b1", "b2"], ())
    assert names(without) == ["b0", "b2"]
    assert [(one.backend, one.reason) for one in without.usable.rejected] == [("b1", "full")]
    assert names(at_this_moment(pool, by, (*states,))[0]) == ["b0", "b1", "b2"]
