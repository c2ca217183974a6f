"""The estimate from a log against what the other policy then does in the simulator."""

from dataclasses import replace

import numpy as np

from backends.fleetsim import beliefs, fluid
from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.request import DONE
from backends.fleetsim.traffic import MIXES, Source, constant, steady
from gateway.core.policy import Learning, Match, Selector, WeightedScorer
from gateway.core.replay import Logged, estimate
from tests.bench.routing import fleets, jobs

WARM_UP = 30.0
LOAD = (WeightedScorer("load", 1.0),)
PREFERENCE = (WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0))
ANY = Selector()


def logging_policy(target, by):
    """Least requests, with three of ten requests to the baseline whatever its load; or what was
    learnt, with three of a hundred that explore."""
    if by == "learned":
        return beliefs.policy(target=target)
    usual = beliefs.policy(target=target, learning=Learning())
    (route,) = usual.routes
    return replace(usual, routes=(replace(route, scorers=LOAD, baseline_share=0.3),))


def other_policy(target, name):
    """Another one: by workload, or by what was learnt."""
    if name == "learned":
        return beliefs.policy(target=target)
    usual = beliefs.policy(target=target, learning=Learning())
    (route,) = usual.routes
    if name == "least requests":
        return replace(usual, routes=(replace(route, scorers=LOAD),))
    drafts = (Selector(method="dflash"), Selector(method="gemma4-mtp"), ANY)
    return replace(
        usual,
        routes=(
            replace(
                route, name="worked", match=Match(workloads=frozenset({"math", "code"})), prefer=drafts, scorers=PREFERENCE,
            ),
            replace(route, scorers=LOAD),
        ),
    )  # fmt: skip


def replayed(job):
    """Estimated and simulated mean seconds a request, and whether the interval holds the truth."""
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    target = models[0].target
    rate = job["load"] * fluid.capacity(jobs.problem(job["fleet"], mix)).requests_per_second
    source = Source(constant(mix), rate=steady(rate))
    setup = Setup(
        models, [source], warm_up=WARM_UP, window=job.get("window", 150.0), drain=90.0, seed=job["seed"]
    )
    chosen = {}
    router = GatewayRouter(
        models,
        logging_policy(target, job.get("by", "least requests")),
        seed=job["seed"],
        on_choice=lambda one: chosen.update({one.request.serial: one}),
    )
    log = simulate(setup, router)
    logged = []
    for row in sorted(log.rows, key=lambda row: row.arrived):
        one = chosen.get(row.serial)
        if one is None or row.ending != DONE or not log.start <= row.arrived < log.end:
            continue
        logged.append(
            Logged(
                features=one.features,
                classification=one.classification,
                snapshot=one.snapshot,
                now=row.arrived,
                backend=one.decision.candidates[0].backend,
                propensity=one.decision.propensity,
                seconds=row.ended - row.arrived,
                output_tokens=row.output_tokens,
                prompt_tokens=row.prompt_tokens,
            )
        )
    known = router.learner.publish(log.end)
    policy = other_policy(target, job["other"])
    said = estimate(logged, policy, known)
    truth = simulate(setup, GatewayRouter(models, policy, priors=list(known.values()), seed=job["seed"]))
    seen = float(truth.completion().mean())
    return {
        "said": said.seconds.value,
        "error": said.seconds.error,
        "seen": seen,
        "was": said.logged.value,
        "inside": float(abs(said.seconds.value - seen) <= said.seconds.error),
        "difference_inside": float(
            abs(said.difference.value - (seen - said.logged.value)) <= said.difference.error
        ),
        "evidence": said.evidence,
        "untold": said.untold / said.requests,
        "requests": len(logged),
        "off": abs(float(np.log(said.seconds.value / seen))),
    }
