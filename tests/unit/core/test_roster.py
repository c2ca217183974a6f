from __future__ import annotations

from gateway.core.policy import Selector
from gateway.core.roster import Roster
from gateway.core.selectors import Ranking, rank
from tests.factories import ANY, TARGET, backend

BACKENDS = (
    backend("a"),
    backend("x", target="org/Other", method="eagle3"),
    backend("b", method="mtp"),
)
PREFER = (Selector(method="eagle3"), Selector(method="mtp"), ANY)


def test_a_pool_holds_the_places_of_the_backends_of_a_target() -> None:
    roster = Roster(BACKENDS)
    assert roster.pool(TARGET).positions == (0, 2)
    assert roster.pool("org/Other").positions == (1,)


def test_no_target_stands_for_all_backends() -> None:
    assert Roster(BACKENDS).pool("").positions == (0, 1, 2)


def test_a_target_that_nobody_serves_is_an_empty_pool() -> None:
    assert Roster(BACKENDS).pool("org/Unknown").positions == ()
    assert Roster(()).pool("").positions == ()


def test_ranks_are_those_within_the_pool() -> None:
    roster = Roster(BACKENDS)
    assert roster.pool(TARGET).ranking(PREFER) == Ranking((1, 0), unnamed=2)
    assert roster.pool("").ranking(PREFER) == rank(PREFER, BACKENDS)


def test_ranks_are_worked_out_once() -> None:
    pool = Roster(BACKENDS).pool(TARGET)
    assert pool.ranking(PREFER) is pool.ranking((*PREFER,))
    assert pool.ranking(PREFER[1:]) is not pool.ranking(PREFER)
    labelled = (Selector(labels={"zone": "b"}), ANY)
    assert pool.ranking((Selector(), ANY)) == Ranking((0, 0), unnamed=1)
    assert pool.ranking(labelled) == Ranking((0, 0), unnamed=1)
    assert pool.ranking(labelled) is not pool.ranking((Selector(), ANY))
