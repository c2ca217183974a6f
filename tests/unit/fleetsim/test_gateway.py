"""The gateway's core in event time."""

from dataclasses import replace

import pytest

from backends.fleetsim import catalogue, compare, fluid
from backends.fleetsim.beliefs import ENDLESS, believed, policy
from backends.fleetsim.beliefs import backends as undeclared
from backends.fleetsim.faults import Event
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.traffic import EQUAL, Limits, Source, constant, steady
from gateway.core.classes import ServiceClass
from gateway.core.plan import Limits as ClassLimits
from gateway.core.plan import Plan
from gateway.core.policy import FROZEN, Learning, Selector, Waiting, WeightedScorer

GEMMA = "google/gemma-4-31B-it"
NONE, MTP, DFLASH = (
    catalogue.engine(GEMMA, *which) for which in (("none", 0), ("gemma4-mtp", 4), ("dflash", 7))
)
FLEET = [NONE, MTP, DFLASH]
BY_PLACE = (WeightedScorer("preference", 1.0),)


def setup(clients=12, models=FLEET, **given):
    source = Source(constant(EQUAL), clients=steady(clients), **given.pop("source", {}))
    return Setup(models, [source], **({"warm_up": 40.0, "window": 90.0} | given))


def learned(models=FLEET, **given):
    return GatewayRouter(models, policy(target=GEMMA), **given)


def test_what_it_learns_beats_least_requests_and_comes_near_the_optimum():
    best = fluid.closed(fluid.problem(FLEET, EQUAL), 12).tokens_per_second
    ours = simulate(setup(), learned()).tokens_per_second()
    assert ours > 0.88 * best
    assert ours > 1.05 * simulate(setup(), compare.least_requests(FLEET, 1)).tokens_per_second()


def test_a_sweep_makes_the_beginning_good():
    early = setup(warm_up=0.0, window=30.0)
    cold = simulate(early, learned()).tokens_per_second()
    swept = simulate(early, learned(priors=[believed(model) for model in FLEET])).tokens_per_second()
    assert swept > cold


def test_frozen_it_keeps_to_what_it_was_given():
    known = {f"{at}-{model.name}": believed(model) for at, model in enumerate(FLEET)}
    router = GatewayRouter(FLEET, policy(target=GEMMA, learning=Learning(FROZEN, 1.0, known=known)))
    log = simulate(setup(window=240.0), router)
    assert router.tick_seconds == 0.0
    assert log.tokens_per_second() > 0.94 * fluid.closed(fluid.problem(FLEET, EQUAL), 12).tokens_per_second


def test_the_same_seed_gives_the_same_decisions():
    rows = [simulate(setup(window=30.0), learned(seed=3)).rows for _ in range(2)]
    assert rows[0] == rows[1]


def test_what_drafts_refuse_goes_to_the_server_without():
    log = simulate(setup(source={"refused_share": {"chat": 0.5}}), learned())
    assert log.refused() == 0


def test_a_dead_server_gets_nothing_and_comes_back():
    happens = [Event(50.0, 2, "down"), Event(80.0, 2, "up")]
    log = simulate(setup(events=happens, scrape_seconds=1.0), learned())
    on_it = [row for row in log.rows if row.server == 2]
    assert not [row for row in on_it if 50.0 < row.first < 80.0]
    assert [row for row in on_it if row.first > 86.0]


def test_another_configuration_is_learnt_anew():
    log = simulate(
        setup(events=[Event(45.0, 0, "replace", model=DFLASH)], warm_up=90.0, window=240.0), learned()
    )
    assert log.shares(3)[0] == pytest.approx(log.shares(3)[2], abs=0.08)


def declared(**given):
    return [replace(one, **given) for one in undeclared(("plain", "mtp4", "dflash7"), FLEET, GEMMA)]


def preferring(*selectors, **given):
    usual = policy(target=GEMMA, learning=Learning())
    (route,) = usual.routes
    return replace(usual, routes=(replace(route, prefer=selectors, scorers=BY_PLACE),), **given)


class Watched(GatewayRouter):
    """Keeps the most that was open on each server."""

    most = (0, 0, 0)

    def sent(self, request, view, now):
        self.most = tuple(map(max, self.most, view.in_flight))
        super().sent(request, view, now)


def test_what_a_server_may_hold_is_kept_and_the_next_choice_takes_over():
    prefer = (Selector(method="gemma4-mtp"), Selector())
    router = Watched(FLEET, preferring(*prefer), backends=declared(max_in_flight=16))
    log = simulate(setup(36, window=30.0), router)
    assert router.most[1] == 16
    assert max(router.most) == 16
    assert log.shares(3)[1] < 0.6


def test_labels_of_the_fleet_count():
    fleet = declared()
    fleet[2] = replace(fleet[2], labels={"zone": "b"})
    router = GatewayRouter(FLEET, preferring(Selector(labels={"zone": "b"})), backends=fleet)
    log = simulate(setup(window=20.0), router)
    assert log.shares(3) == [0.0, 0.0, 1.0]


def test_what_is_declared_holds_after_a_server_has_changed():
    happens = [Event(5.0, 1, "replace", model=DFLASH)]
    router = Watched(FLEET, preferring(Selector(method="dflash")), backends=declared(max_in_flight=4))
    log = simulate(setup(events=happens, warm_up=20.0, window=20.0), router)
    assert log.shares(3) == [0.0, pytest.approx(0.5, abs=0.1), pytest.approx(0.5, abs=0.1)]
    assert router.most == (0, 4, 4)


@pytest.mark.parametrize(
    ("queue", "waiting", "fails"),
    [(ENDLESS, 8, False), (Waiting(wait=0.5), 8, True), (Waiting(length=3), 3, True)],
    ids=["endless", "for a time", "in a short line"],
)
def test_whoever_finds_no_room_waits_as_the_policy_says(queue, waiting, fails):
    router = GatewayRouter(FLEET, preferring(Selector(), queue=queue), backends=declared(max_in_flight=4))
    log = simulate(setup(20, warm_up=2.0, window=20.0), router)
    assert log.late <= waiting
    assert (log.answered() < len(log.rows)) is fails


def test_decisions_are_told():
    told = []
    simulate(setup(window=10.0), learned(on_choice=told.append))
    assert {one.decision.route for one in told} == {"all"}
    assert all(one.request.server >= 0 for one in told)


class _KeptApart:
    """Chat on the first server, bulk on the others."""

    def __init__(self):
        self.asked = []

    def plan(self, kinds, wanted, now):
        self.asked.append({one.service: one.in_flight for one in wanted})
        names = [name for kind in kinds for name in kind.backends]
        return Plan(roles={"chat": frozenset(names[:1]), "bulk": frozenset(names[1:])}, caps={names[0]: 6})


def test_classes_keep_to_their_roles_and_wait_for_them():
    limits = Limits(ttft=5.0, tpot=1.0)
    sources = [
        Source(constant({"chat": 1.0}), clients=steady(4), name="chat", limits=limits),
        Source(constant(EQUAL), clients=steady(40), name="bulk"),
    ]
    planner = _KeptApart()
    services = [ServiceClass("chat", limits=ClassLimits(5.0, 1.0)), ServiceClass("bulk")]
    router = learned(services=services, planner=planner)
    log = simulate(Setup(FLEET, sources, warm_up=60.0, window=30.0, drain=90.0), router)
    late = [row for row in log.rows if row.arrived > 10.0]
    assert {row.server for row in late if row.source == 0} == {0}
    assert {row.server for row in late if row.source == 1} == {1, 2}
    assert planner.asked[-1] == {"chat": 4.0, "bulk": 40.0}
    assert log.kept(limits, 0) == 1.0


@pytest.mark.parametrize(
    ("ttft", "clients", "servers", "longest"),
    [(8.0, 7, {0}, 4.0), (4.0, 40, {0, 1, 2}, 2.0), (None, 8, {0, 1, 2}, 0.0)],
    ids=["it has a place in time", "it has not", "nothing tells how long it may wait"],
)
def test_a_class_waits_for_its_server_for_half_of_the_time_to_its_first_token(
    ttft, clients, servers, longest
):
    waits = []

    class Timed(GatewayRouter):
        def sent(self, request, view, now):
            waits.append(now - request.arrived)
            super().sent(request, view, now)

    services = [ServiceClass("chat", limits=ClassLimits(ttft, 1.0))]
    router = Timed(FLEET, policy(target=GEMMA), services=services, planner=_KeptApart())
    source = Source(constant({"chat": 1.0}), clients=steady(clients), name="chat")
    log = simulate(Setup(FLEET, [source], warm_up=30.0, window=60.0), router)
    assert {row.server for row in log.rows if row.arrived > 20.0} == servers
    assert max(waits) <= longest + router.tick_seconds
    assert (max(waits) > 0.0) is (longest > 0.0)


def test_results_say_what_was_seen():
    ran = compare.run("ours", setup(), learned())
    assert ran.share == pytest.approx(0.95, abs=0.06)
    assert sum(ran.shares) == pytest.approx(1.0)
    assert ran.answered > 0 == ran.failed
    assert ran.mean > ran.first > 0.0
    (none,) = compare.alternatives(setup(), NONE, drafts=False)
    assert none[0] == "3 x none"
    assert len(compare.alternatives(setup(), NONE, drafts=True)) == 3


def test_other_fleets_have_the_same_faults():
    slow = Event(50.0, 0, "slow", factor=2.0)
    happens = [slow, Event(60.0, 1, "replace", model=DFLASH)]
    ((_, other),) = compare.alternatives(setup(events=happens), NONE, drafts=False)
    assert other.events == [slow]
    assert other.models == [NONE] * 3


def test_answers_are_those_of_the_window():
    rate = Source(constant(EQUAL), rate=steady(2.0))
    ran = compare.run("", Setup(FLEET, [rate], warm_up=40.0, window=20.0, drain=60.0), learned())
    assert ran.answered == pytest.approx(40, abs=20)


def test_the_optimum_is_told_where_there_is_one():
    refusing = setup(source={"refused_share": {"chat": 0.1}})
    assert compare.run("ours", refusing, learned()).share > 0.9
    alone = replace(refusing, models=[MTP])
    assert compare.run("ours", alone, learned([MTP])).share is None  # nobody takes what is refused
    events = setup(events=[Event(50.0, 0, "slow", factor=2.0)])
    assert compare.run("ours", events, learned()).share is None
    limits = Limits(ttft=9.0, tpot=9.0)
    rate = Setup(FLEET, [Source(constant(EQUAL), rate=steady(2.0), limits=limits)], warm_up=9.0, window=30.0)
    ran = compare.run("ours", rate, learned())
    assert ran.share is None
    assert [one.name for one in ran.kept] == ["default"]
