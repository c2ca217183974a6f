"""What the product says of a fleet, against what simulations of the other fleets then show."""

from itertools import combinations

from backends.fleetsim.beliefs import believed
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.traffic import MIXES, Source, constant, steady
from gateway.core.plan import Kind, Limits, Wanted
from gateway.runtime.advice import advise, compose
from tests.bench.routing import fleets, jobs
from tests.bench.routing.conversations import talk
from tests.bench.routing.learned import learned
from tests.bench.routing.peers import LeastRequests
from tests.bench.routing.references import Oracle
from tests.bench.routing.replaying import replayed

PAIRS = 4
"""Blends of two that are simulated: those that the program thinks best."""


def run(job):
    """Figures of any job of the bench."""
    return KINDS.get(job["kind"], jobs.run)(job)


def tokens(models, job, router):
    source = Source(constant(MIXES[job["mix"]]), clients=steady(job["load"] * len(models)))
    setup = Setup(models, [source], window=jobs.window(job), seed=job["seed"])
    return simulate(setup, router).tokens_per_second()


def advice(job):
    """Gain of one configuration on all servers: as said at the end of the run, and as simulated."""
    models = fleets.build(job["fleet"])
    router = learned(models, job["seed"])
    own = tokens(models, job, router)
    now = 60.0 + jobs.window(job)
    known = router.learner.publish(now)
    wanted = router._demand.wanted({"default": Limits()}, now)
    kinds = {}
    for name, model in known.items():
        kinds.setdefault(model.fingerprint, []).append(name)
    said = advise([Kind(tuple(names), known[names[0]]) for names in kinds.values()], wanted)
    of = {known[name].fingerprint: model for name, model in zip(router._names, models, strict=True)}
    seen = {
        fingerprint: tokens([model] * len(models), job, LeastRequests(job["seed"]))
        for fingerprint, model in of.items()
    }
    best = said.options[0]
    chosen = seen[next(iter(best.servers))]
    return {
        "routing": said.routing,
        "said": best.gain,
        "seen": chosen / own - 1.0,
        "off": abs(best.gain - (chosen / own - 1.0)),
        "of_best": chosen / max(seen.values()),
        "most": max(seen.values()) / own - 1.0,
        "named": float(said.consolidate is not None),
    }


def composed(job):
    """A fleet of eight of all published configurations: what is composed, against what simulates best."""
    models = fleets.published(jobs.target_of(job["fleet"]))
    by_name = {model.name: model for model in models}
    wanted = [Wanted("all", Limits(), dict(MIXES[job["mix"]]), 8.0 * job["load"])]
    chosen = compose([believed(model) for model in models], 8, wanted)

    def simulated(servers):
        fleet = [by_name[name] for name, count in servers.items() for _ in range(count)]
        return tokens(fleet, job, Oracle(fleet, MIXES[job["mix"]]))

    single = sorted(
        (compose([believed(model)], 8, wanted) for model in models), key=lambda one: -one.tokens_per_second
    )
    # A pair that promises less than the best one configuration comes back as one configuration.
    pairs = sorted(
        (compose([believed(one), believed(other)], 8, wanted) for one, other in combinations(models, 2)),
        key=lambda one: -one.tokens_per_second,
    )
    blends = [one for one in pairs if len(one.servers) > 1][:PAIRS]
    own = simulated(chosen.servers)
    alone = max(simulated(one.servers) for one in single[:PAIRS])
    best = max([own, alone, *(simulated(one.servers) for one in blends)])
    return {"of_best": own / best, "of_alone": own / alone, "kinds": len(chosen.servers)}


KINDS = {"advice": advice, "compose": composed, "replay": replayed, "talk": talk}
