from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.breaker import Breaker
from gateway.core.policy import Selector
from gateway.core.roster import Roster
from gateway.core.selectors import Ranking, rank
from gateway.core.standing import Standing
from tests.factories import ANY, TARGET, backend, load, route, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

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


def test_a_server_is_looked_at_again_only_where_its_state_is_another() -> None:
    pool = Roster(BACKENDS).pool(TARGET)
    states = [state("a"), state("x"), state("b")]
    before = pool.look(states, 1.0, 15.0).standings
    assert [one.name for one in before] == ["a", "b"]
    after = pool.look([states[0], states[1], state("b", in_flight=3)], 2.0, 15.0).standings
    assert after[0] is before[0]
    assert (before[1].queue, after[1].queue) == (0.0, 3.0)
    assert pool.look(states, 2.0, 1.0).standings[0] is not before[0], "another age at which load is ignored"


def test_load_that_goes_stale_is_no_longer_believed_though_no_state_changed() -> None:
    pool = Roster(BACKENDS[:1]).pool(TARGET)
    states = (state("a", in_flight=1, load=load(running=9, at=10.0)),)
    queues = [pool.look(states, now, 15.0).standings[0].queue for now in (10.0, 25.0, 25.1, 60.0, 20.0)]
    assert queues == [9.0, 9.0, 1.0, 1.0, 9.0]


TIMES = st.floats(0.0, 60.0)
STATES = st.builds(
    lambda in_flight, scraped, until, warm_at, retry_at, healthy: state(
        "a",
        in_flight=in_flight,
        max_in_flight=4,
        load=None if scraped is None else load(running=7, at=scraped),
        breaker=Breaker(reason="failure_share" if until else "", until=until, warm_at=warm_at),
        retry_at=retry_at,
        healthy=healthy,
    ),
    st.integers(0, 5),
    st.none() | TIMES,
    st.just(0.0) | TIMES,
    st.just(0.0) | TIMES,
    st.just(0.0) | TIMES,
    st.booleans(),
)


@given(st.lists(st.tuples(TIMES, st.integers(0, 2)), max_size=8), st.lists(STATES, min_size=3, max_size=3))
def test_what_is_remembered_is_what_a_new_look_would_find(
    looks: list[tuple[float, int]], states: list[BackendState]
) -> None:
    pool = Roster(BACKENDS[:1]).pool(TARGET)
    for now, which in looks:
        look = pool.look(states[which : which + 1], now, 15.0)
        (found,) = look.standings
        fresh = Standing(states[which], now, 15.0)
        assert (found.queue, found.out, found.load) == (fresh.queue, fresh.out, fresh.load)
        assert (look.out, look.wary) == (fresh.out is not None, fresh.wary)


def test_lists_of_policies_that_are_gone_are_not_kept_for_ever() -> None:
    pool = Roster(BACKENDS).pool(TARGET)
    kept = [(*PREFER,) for _ in range(5000)]
    assert all(pool.ranking(prefer) == pool.ranking(PREFER) for prefer in kept)
    assert len(pool._rankings) <= 1024


def test_routes_of_policies_that_are_gone_are_not_kept_for_ever() -> None:
    pool = Roster(BACKENDS).pool(TARGET)
    kept = [route(prefer=PREFER) for _ in range(300)]
    assert all(pool.lineup(by).route is by for by in kept)
    assert len(pool._lineups) <= 64
    assert pool.lineup(kept[-1]) is pool.lineup(kept[-1])


def test_baselines_have_their_names() -> None:
    pool = Roster((*BACKENDS, backend("c"))).pool(TARGET)
    assert pool.baselines == (0, 2)
    assert pool.named(pool.baselines) == {"a", "c"}
    assert pool.named([2]) == {"c"}
