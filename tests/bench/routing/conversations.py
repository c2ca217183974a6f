"""Conversations whose beginning a server may still have: against rules that were made for prefix caches."""

from backends.fleetsim.fleet import Setup, simulate
from backends.fleetsim.traffic import MIXES, Source, constant, steady
from tests.bench.routing import fleets, jobs

TURNS = 6.0
CACHE_TOKENS = 400_000
RULES = ("least requests", "prefix aware", "infera blocks")


def talk(job):
    """Tokens a second of a closed loop of conversations, on servers with a prefix cache."""
    models, mix = fleets.build(job["fleet"]), MIXES[job["mix"]]
    source = Source(constant(mix), clients=steady(job["load"] * len(models)), turns=TURNS)
    setup = Setup(
        models,
        [source],
        window=jobs.window(job),
        seed=job["seed"],
        cache_tokens=CACHE_TOKENS,
        scrape_seconds=1.0,
    )
    log = simulate(setup, jobs.router(job["policy"], models, mix, job["seed"]))
    return {"tokens": log.tokens_per_second()}
