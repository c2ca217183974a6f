import numpy as np
import pytest

from backends.fleetsim import catalogue
from backends.fleetsim import model as models
from backends.fleetsim.faults import Event
from backends.fleetsim.fleet import Setup, Simulation, simulate
from backends.fleetsim.request import BROKEN, DONE, REFUSED, REJECTED
from backends.fleetsim.traffic import CHAT70, Limits, Source, Steps, Traced, constant, steady
from backends.fleetsim.view import HOLD, NOWHERE, Plain
from backends.sim.closed_loop import closed_loop
from backends.sim.engine import Engine, Job
from backends.sim.profiles import configuration, lengths

GEMMA = "google/gemma-4-31B-it"
NONE = catalogue.engine(GEMMA, "none", 0)
MTP = catalogue.engine(GEMMA, "gemma4-mtp", 4)


class Least(Plain):
    def choose(self, request, view, now):
        able = view.capable(request)
        return min(able, key=view.in_flight.__getitem__) if able else NOWHERE


class First(Plain):
    def choose(self, request, view, now):
        return 0


def chat(clients=8, **given):
    return Source(constant({"chat": 1.0}), clients=steady(clients), **given)


def run(models=(MTP,), sources=None, router=None, **given):
    usual = {"warm_up": 20.0, "window": 60.0}
    return simulate(Setup(models, sources or [chat()], **(usual | given)), router or Least())


def test_a_closed_loop_gives_the_tokens_of_the_engine_that_takes_every_step():
    rng = np.random.default_rng(4)

    def jobs():
        number = 0
        while True:
            prompt, output = lengths("chat").sample(rng)
            yield Job(str(number := number + 1), "chat", prompt, output)

    engine = Engine(configuration(GEMMA, "gemma4-mtp", 4), seed=1)
    wanted = closed_loop(engine, jobs(), clients=16, warm_up=30.0, window=200.0)
    log = run(sources=[chat(16)], warm_up=30.0, window=200.0)
    assert log.tokens_per_second() == pytest.approx(wanted.tokens_per_second, rel=0.02)


def test_tokens_of_the_window_are_those_made_in_it():
    log = run([NONE, MTP])
    assert sum(log.by_server) == sum(log.tokens)
    # Answers spread evenly over their decoding say the same, up to those that are not over at the end.
    assert log.rate([log.start, log.end - 20.0])[0] == pytest.approx(log.tokens_per_second(), rel=0.05)
    assert sum(log.shares(2)) == pytest.approx(1.0)
    assert len(log.unfinished) == 8


def test_the_same_seed_gives_the_same_run():
    assert run().rows == run().rows != run(seed=1).rows


def test_an_open_loop_serves_what_arrives():
    log = run(sources=[Source(constant(CHAT70), rate=steady(2.0))], window=300.0, drain=30.0)
    waited = log.completion()
    assert len(waited) == pytest.approx(600, rel=0.1)
    assert (waited > 0).all()


def test_a_slow_server_makes_less_and_recovers():
    sick = run(events=[Event(0.0, 0, "slow", factor=2.0)])
    well = run(events=[Event(0.0, 0, "slow", factor=2.0), Event(10.0, 0, "slow", factor=1.0)])
    assert sick.tokens_per_second() == pytest.approx(0.5 * run().tokens_per_second(), rel=0.03)
    assert well.tokens_per_second() == pytest.approx(run().tokens_per_second(), rel=0.03)


def test_a_server_that_dies_breaks_what_has_begun_and_others_take_the_rest():
    log = run([MTP, MTP], events=[Event(40.0, 0, "down"), Event(60.0, 0, "up")], probe_seconds=1.0)
    broken = [row for row in log.rows if row.ending == BROKEN]
    assert broken
    assert all(row.server == 0 and row.ended == 40.0 for row in broken)
    assert not [row for row in log.rows if row.server == 0 and 40.0 < row.first < 60.0]
    assert [row for row in log.rows if row.server == 0 and row.first > 61.0]


def test_what_was_not_begun_goes_elsewhere():
    trace = [Traced(1.0, "chat", 200_000, 10)]
    log = run(
        [MTP, MTP],
        sources=[chat(0)],
        trace=trace,
        router=Least(),
        events=[Event(2.0, 0, "down")],
        warm_up=0.5,
    )
    (row,) = log.rows
    assert (row.ending, row.server, row.attempts) == (DONE, 1, 2)


def test_with_no_server_left_requests_are_turned_away():
    log = run(events=[Event(5.0, 0, "down")])
    assert {row.ending for row in log.rows if row.ended > 10.0} == {REJECTED}


def test_another_configuration_takes_over_in_the_middle():
    log = run(events=[Event(0.0, 0, "replace", model=NONE)], warm_up=10.0)
    alone = run([NONE], warm_up=10.0)
    assert log.tokens_per_second() == pytest.approx(alone.tokens_per_second(), rel=0.05)
    halfway = run(events=[Event(45.0, 0, "replace", model=NONE)])
    assert alone.tokens_per_second() < halfway.tokens_per_second() < run().tokens_per_second()


def test_drafts_refuse_some_requests_and_a_router_can_tell():
    refused = [chat(refused_share={"chat": 0.2})]
    assert not run([NONE, MTP], refused).refused()
    careless = run([MTP], refused, router=First())
    share = careless.refused() / len(careless.rows)
    assert share == pytest.approx(0.2, abs=0.06)
    assert {row.ending for row in careless.rows} == {DONE, REFUSED}


def test_a_full_cache_preempts_and_costs():
    small = models.of(configuration(GEMMA, "gemma4-mtp", 4))
    small = models.replace(small, kv_tokens=12_000)
    tight = run([small], [chat(32)], kv_limit=True)
    loose = run([small], [chat(32)])
    assert tight.preemptions > 0
    assert loose.preemptions == 0
    assert tight.tokens_per_second() < 0.9 * loose.tokens_per_second()
    assert all(row.ending == DONE for row in tight.rows)


def test_a_prefix_cache_spares_prefill():
    talk = [chat(16, turns=6.0)]
    cold, warm = run(sources=talk, window=200.0), run(sources=talk, window=200.0, cache_tokens=500_000)
    tiny = run(sources=talk, window=200.0, cache_tokens=100)
    assert warm.tokens_per_second() > 1.05 * cold.tokens_per_second()
    assert tiny.tokens_per_second() < 1.02 * cold.tokens_per_second()


def test_adaptive_engines_follow_their_load():
    adaptive = models.adaptive([(8, MTP), (256, NONE)])
    low, high = run([adaptive], [chat(4)]), run([adaptive], [chat(96)])
    assert low.tokens_per_second() == pytest.approx(run([MTP], [chat(4)]).tokens_per_second(), rel=0.01)
    assert high.tokens_per_second() == pytest.approx(run([NONE], [chat(96)]).tokens_per_second(), rel=0.03)


def test_clients_come_and_go():
    source = Source(constant({"chat": 1.0}), clients=Steps(((0.0, 4.0), (40.0, 32.0), (60.0, 4.0))))
    log = run(sources=[source], warm_up=5.0, window=120.0)

    def open_at(now):
        return sum(row.arrived <= now < row.ended for row in log.rows)

    assert [open_at(now) for now in (35.0, 55.0, 100.0)] == [4, 32, 4]


def test_scrapes_are_as_old_as_they_are():
    seen = []

    class Looks(Least):
        def choose(self, request, view, now):
            seen.append(
                (
                    now - view.scraped[0],
                    view.running[0] + view.waiting[0] + view.since_scrape[0],
                    view.in_flight[0],
                )
            )
            return super().choose(request, view, now)

    run(router=Looks(), scrape_seconds=5.0)
    known = [one for one in seen if one[0] <= 5.0]
    assert max(age for age, _, _ in known) > 4.0
    assert all(counted == flight for _, counted, flight in known)


def test_what_is_held_waits_in_the_gateway():
    class Two(Plain):
        """At most two requests on the server."""

        def choose(self, request, view, now):
            return 0 if view.in_flight[0] < 2 else HOLD

    log = run(sources=[chat(6)], router=Two())
    assert log.late == 4
    for row in log.rows:
        assert sum(other.first <= row.first < other.ended for other in log.rows) <= 3
    order = [row.arrived for row in sorted(log.rows, key=lambda row: (row.first, row.arrived))]
    assert order == sorted(order)


class OneEach(Plain):
    """One request at a time on the server of each source."""

    def __init__(self, *servers):
        self.servers = servers

    def choose(self, request, view, now):
        server = self.servers[request.source]
        return HOLD if view.in_flight[server] else server


def test_what_is_held_does_not_hold_up_other_sources():
    log = run([MTP, MTP], sources=[chat(3), chat(3)], router=OneEach(0, 1))
    assert [row.source for row in log.rows if row.arrived == 0.0].count(1) == 3


def test_of_what_is_held_those_with_limits_go_first():
    log = run(sources=[chat(3), chat(3, limits=Limits(ttft=9.0, tpot=9.0))], router=OneEach(0, 0))
    assert [row.source for row in log.rows].count(0) == 1


def test_limits_count_what_was_not_answered_as_missed():
    strict, lax = Limits(ttft=0.001, tpot=0.001), Limits(ttft=100.0, tpot=100.0)
    log = run(sources=[Source(constant({"chat": 1.0}), rate=steady(1.0))], drain=60.0)
    assert log.kept(lax) == 1.0
    assert log.kept(strict) == 0.0
    flooded = run(sources=[Source(constant({"chat": 1.0}), rate=steady(40.0))])
    assert flooded.kept(lax) < 0.8


def test_progress_is_told():
    told = []
    Simulation(Setup([MTP], [chat(64)], warm_up=60.0, window=240.0), Least(), told.append).run()
    assert told
    assert told == sorted(told)
    assert told[-1] <= 1.0


def test_events_are_checked():
    with pytest.raises(ValueError, match="down, up, slow, replace"):
        Event(0.0, 0, "explode")
    with pytest.raises(ValueError, match="has a model"):
        Event(0.0, 0, "replace")
