import pytest

from backends.fleetsim import catalogue, fluid
from backends.fleetsim import model as models
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.traffic import CHAT70, EQUAL, Limits, Source, constant, steady
from backends.fleetsim.view import Plain
from backends.sim import profiles

GEMMA = "google/gemma-4-31B-it"
NONE = catalogue.engine(GEMMA, "none", 0)
MTP = catalogue.engine(GEMMA, "gemma4-mtp", 4)


class Only(Plain):
    def choose(self, request, view, now):
        return 0


@pytest.mark.parametrize("model", [NONE, MTP], ids=["none", "mtp"])
def test_one_server_does_what_the_optimum_says(model):
    of = fluid.problem([model], {"chat": 1.0})
    best = fluid.closed(of, 24)
    log = simulate(Setup([model], [Source(constant({"chat": 1.0}), clients=steady(24))], window=300), Only())
    assert log.tokens_per_second() == pytest.approx(best.tokens_per_second, rel=0.02)
    assert best.occupancy[0] == pytest.approx(24)


def test_equal_servers_share_equally():
    best = fluid.closed(fluid.problem([MTP, MTP], EQUAL), 32)
    alone = fluid.closed(fluid.problem([MTP], EQUAL), 16)
    assert best.tokens_per_second == pytest.approx(2 * alone.tokens_per_second, rel=1e-3)


def test_more_clients_give_more_and_capacity_is_the_end():
    of = fluid.problem([NONE, MTP], CHAT70)
    rates = [fluid.closed(of, clients).tokens_per_second for clients in (2, 8, 32, 128)]
    assert rates == sorted(rates)
    assert fluid.capacity(of).tokens_per_second >= rates[-1]


def test_below_capacity_time_is_what_counts():
    of = fluid.problem([NONE, MTP], CHAT70)
    most = fluid.capacity(of).requests_per_second
    times = [fluid.fastest(of, share * most).seconds for share in (0.1, 0.5, 0.9)]
    assert times == sorted(times)
    assert fluid.fastest(of, 0.5 * most).requests_per_second == pytest.approx(0.5 * most)
    with pytest.raises(fluid.InfeasibleError):
        fluid.fastest(of, 1.1 * most)


def test_what_drafts_refuse_goes_to_those_without():
    of = fluid.problem([NONE, MTP], {"chat": 0.5, "chat!": 0.5})
    flow = fluid.closed(of, 16).flow
    assert flow[1, 1] == 0.0
    assert flow[0, 1] > 0.0
    with pytest.raises(fluid.InfeasibleError):
        fluid.closed(fluid.problem([MTP], {"chat": 0.5, "chat!": 0.5}), 16)


def test_a_server_may_be_barred_from_a_workload():
    of = fluid.problem([MTP, MTP], {"chat": 0.5, "math": 0.5}, refused={0: {"math"}})
    flow = fluid.closed(of, 16).flow
    assert flow[0, 1] == 0.0


def test_a_limit_on_time_per_token_costs_throughput():
    slow, fast = Limits(1.0, 1.0), Limits(1.0, 0.02)
    loose = fluid.within([MTP], {"chat": 1.0}, slow).tokens_per_second
    assert fluid.within([MTP], {"chat": 1.0}, fast).tokens_per_second < 0.9 * loose
    with pytest.raises(fluid.InfeasibleError):
        fluid.within([MTP], {"chat": 1.0}, Limits(1.0, 0.001))


def test_lengths_can_be_given():
    short = {"chat": profiles.Lengths(100, 600, 0.8)}
    usual = fluid.closed(fluid.problem([MTP], {"chat": 1.0}), 8)
    assert fluid.closed(fluid.problem([MTP], {"chat": 1.0}, lengths=short), 8).requests_per_second > (
        2 * usual.requests_per_second
    )


def test_bins_are_as_many_as_fit():
    few = models.of(profiles.configuration(GEMMA, "none", 0), max_sequences=8)
    assert fluid.problem([few], {"chat": 1.0}).sizes.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(fluid.problem([MTP], {"chat": 1.0}).sizes) == fluid.BINS
