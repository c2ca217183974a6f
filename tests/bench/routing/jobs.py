"""What is run for a cell: one policy, one seed, and the figures that come out. Everything is plain JSON."""

import math
from functools import lru_cache

import numpy as np

from backends.fleetsim import fluid
from backends.fleetsim.faults import Event
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.traffic import MIXES, Limits, Mix, Source, constant, ramp, steady
from tests.bench.routing import fleets
from tests.bench.routing.learned import learned
from tests.bench.routing.peers import LeastRequests, peer
from tests.bench.routing.references import Oracle

SLOW = {"K25": 4.0}
"""Kimi completes few requests a second, so its windows are four times as long, as the yardstick has them."""

LIMIT_OF_TTFT = {"K25": 2.0}
KEPT = 0.90


def target_of(spec):
    return next(part for part in spec if part in fleets.TARGETS)


def router(policy, models, mix, seed, **given):
    if policy == "learned":
        return learned(models, seed, **given)
    if policy == "oracle":
        return Oracle(models, mix)
    return peer(policy, models, mix, seed)


def run(job):
    """Figures of one job: {"kind", "fleet", "policy", "seed", ...}."""
    return {
        "closed": closed, "open": open_loop, "slo": slo, "classes": classes, "drift": drift, "ramp": ramps,
        "sickening": sickening, "refused": refused,
    }[job["kind"]](job)  # fmt: skip


def freeze(spec):
    return tuple(freeze(part) if isinstance(part, list | tuple) else part for part in spec)


@lru_cache(maxsize=64)
def tabulated(spec, mix):
    return fluid.problem(fleets.build(spec), dict(mix))


def problem(spec, mix):
    return tabulated(freeze(spec), tuple(mix.items()))


@lru_cache(maxsize=512)
def optimum(spec, mix, clients):
    return fluid.closed(tabulated(spec, mix), clients)


def best(spec, mix, clients):
    """The fluid optimum of a closed loop, tokens a second."""
    return optimum(freeze(spec), tuple(mix.items()), clients).tokens_per_second


def window(job, seconds=180.0):
    """Virtual seconds to measure."""
    return seconds * SLOW.get(target_of(job["fleet"]), 1.0) * job.get("stretch", 1.0)


def closed(job):
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    clients = job["load"] * len(models)
    source = Source(constant(mix), clients=steady(clients), label_errors=job.get("label_errors", 0.0))
    setup = Setup(models, [source], window=window(job), seed=job["seed"])
    log = simulate(setup, router(job["policy"], models, mix, job["seed"]))
    rate = log.tokens_per_second()
    return {"tokens": rate, "share": rate / best(job["fleet"], mix, clients)}


def open_loop(job):
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    of = problem(job["fleet"], mix)
    rate = job["load"] * fluid.capacity(of).requests_per_second
    fewest = 1500 / rate
    seconds = max(window(job), min(fewest, 1200.0))
    setup = Setup(
        models, [Source(constant(mix), rate=steady(rate))], window=seconds, drain=120.0, seed=job["seed"]
    )
    log = simulate(setup, router(job["policy"], models, mix, job["seed"]))
    waited = log.completion()
    least = fluid.fastest(of, rate).seconds
    late = len(log.unfinished)
    return {
        "mean": float(waited.mean()) / least,
        "p99": float(np.percentile(waited, 99)) / least,
        "late": late,
    }


def limits_of(target):
    """The yardstick's limits: one step of the baseline at the calibration point for each token."""
    none = fleets.engine(target, "none", 0)
    return Limits(ttft=LIMIT_OF_TTFT.get(target, 1.0), tpot=none.seconds[none.calibrated])


def slo(job):
    """Highest Poisson rate at which nine of ten requests keep both limits."""
    spec, mix = job["fleet"], MIXES[job["mix"]]
    models, target = fleets.build(spec), target_of(spec)
    limits = limits_of(target)
    low, high = 0.0, 1.2 * fluid.capacity(problem(spec, mix)).requests_per_second
    for _ in range(job.get("halvings", 8)):
        rate = (low + high) / 2.0
        source = Source(constant(mix), rate=steady(rate), limits=limits)
        setup = Setup(models, [source], warm_up=40.0, window=window(job, 90.0), drain=20.0, seed=job["seed"])
        given = {"sources": [source]} if job["policy"] == "learned" else {}
        kept = simulate(setup, router(job["policy"], models, mix, job["seed"], **given)).kept(limits)
        low, high = (rate, high) if kept >= KEPT else (low, rate)
    return {"rate": low}


def drift(job):
    """The mix changes to another one and back, 60 seconds each."""
    models = fleets.build(job["fleet"])
    pair = [MIXES[name] for name in job["mixes"]]
    clients = job["load"] * len(models)
    source = Source(Mix(tuple((60.0, mix) for mix in pair)), clients=steady(clients))
    setup = Setup(models, [source], window=window(job, 240.0), seed=job["seed"])
    log = simulate(setup, router(job["policy"], models, pair[0], job["seed"]))
    ideal = float(np.mean([best(job["fleet"], mix, clients) for mix in pair]))
    return {"tokens": log.tokens_per_second(), "share": log.tokens_per_second() / ideal}


def ramps(job):
    """Load from low to high and back, over and over."""
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    low, high = (load * len(models) for load in job["loads"])
    clients = ramp(low, high, rise=120.0, steps=22)
    setup = Setup(
        models, [Source(constant(mix), clients=clients)], warm_up=240.0, window=480.0, seed=job["seed"]
    )
    log = simulate(setup, router(job["policy"], models, mix, job["seed"]))
    ideal = float(np.mean([best(job["fleet"], mix, int(value)) for _, value in clients.values]))
    return {"tokens": log.tokens_per_second(), "share": log.tokens_per_second() / ideal}


def sickening(job):
    """One server falls to 0.4 of its speed after 120 s; what counts begins 30 s later."""
    target = target_of(job["fleet"])
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    clients = job["load"] * len(models)
    setup = Setup(
        models,
        [Source(constant(mix), clients=steady(clients))],
        warm_up=150.0,
        window=60.0,
        seed=job["seed"],
        events=[Event(120.0, 0, "slow", factor=2.5)],
    )
    log = simulate(setup, router(job["policy"], models, mix, job["seed"]))
    ideal = best(("sick", target), mix, clients)
    return {"tokens": log.tokens_per_second(), "share": log.tokens_per_second() / ideal}


def refused(job):
    """A share of chat carries a parameter that servers with a draft refuse."""
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    part = job["refused"]
    split = {**mix, "chat": mix["chat"] * (1 - part), "chat!": mix["chat"] * part}
    clients = job["load"] * len(models)
    source = Source(constant(mix), clients=steady(clients), refused_share={"chat": part})
    setup = Setup(models, [source], window=window(job), seed=job["seed"])
    log = simulate(setup, router(job["policy"], models, mix, job["seed"]))
    rate = log.tokens_per_second()
    return {"tokens": rate, "share": rate / best(job["fleet"], split, clients), "refused": log.refused()}


CHAT = {"chat": 1.0}
BULK = {"math": 0.2, "code": 0.3, "grounded": 0.2, "multilingual": 0.15, "tool_use": 0.15}


def chat_limit(models):
    """2.2 times the fastest possible time per token."""
    each = [model.seconds[1] / (1.0 + sum(model.survival("chat", 1))) for model in models]
    return 2.2 * min(each)


def classes(job):
    """Chat at a fixed rate under a limit; bulk fills the rest: most bulk tokens a second at which chat keeps it.

    The number of bulk clients is searched for: more of them give more tokens until chat misses its limit.
    """
    models = fleets.build(job["fleet"])
    limits = Limits(ttft=5.0, tpot=chat_limit(models))
    rate = job["chat_rate"]
    found = 0.0
    low, high = 0.0, math.log2(128.0 * len(models))
    for _ in range(job.get("halvings", 7)):
        middle = (low + high) / 2.0
        kept, tokens = both(job, models, limits, rate, int(2.0**middle))
        if kept >= KEPT:
            low, found = middle, max(found, tokens)
        else:
            high = middle
    return {"bulk": found, "clients": int(2.0**low)}


def both(job, models, limits, rate, clients):
    """(share of chat that kept its limit, bulk tokens a second) with so many bulk clients."""
    sources = [
        Source(constant(CHAT), rate=steady(rate), name="interactive", limits=limits),
        Source(constant(BULK), clients=steady(clients), name="bulk"),
    ]
    setup = Setup(
        models, sources, warm_up=job.get("warm_up", 60.0), window=window(job, 120.0), seed=job["seed"]
    )
    mix = {**BULK, **CHAT}
    policy = job["policy"]
    if policy.startswith("split "):
        chosen = Split(int(policy.removeprefix("split ")), models)
    elif policy == "learned":
        chosen = learned(models, job["seed"], sources=sources)
    else:
        chosen = router(policy, models, mix, job["seed"])
    log = simulate(setup, chosen)
    return log.kept(limits, 0), log.tokens_per_second(1)


class Split(LeastRequests):
    """Pools made by hand: so many servers for chat, those that are fastest for it; fewest requests in each."""

    def __init__(self, count, models):
        super().__init__()

        def alone(index):
            model = models[index]
            return model.seconds[1] / (1.0 + sum(model.survival("chat", 1)))

        order = sorted(range(len(models)), key=alone)
        self.pools = order[:count], order[count:]

    def choose(self, request, view, now):
        lot = self.random.random
        return min(self.pools[request.source], key=lambda index: (view.in_flight[index], lot()))
