"""The engine in event time against the one that takes every step."""

from dataclasses import replace

import numpy as np
import pytest

from backends.fleetsim import model as models
from backends.fleetsim.draws import Draws
from backends.fleetsim.request import Request
from backends.fleetsim.server import NEVER, Server
from backends.sim.engine import Engine, Job
from backends.sim.profiles import configuration

GEMMA = "google/gemma-4-31B-it"
NONE = configuration(GEMMA, "none", 0)
MTP = configuration(GEMMA, "gemma4-mtp", 4)
# Acceptance without chance: the first two drafts always, the others never.
CERTAIN = replace(MTP, survival={"chat": (1.0, 1.0, 0.0, 0.0)}, request_spread=0.0)


def jobs(seed, count, *, longest=3000):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(0.3, count))
    return [(float(times[i]), int(rng.integers(1, longest)), int(rng.integers(1, 400))) for i in range(count)]


def stepwise(configuration, arrivals, **limits):
    """(first, end) of each job by the engine that takes every step."""
    engine, now, at, firsts, ends = Engine(configuration, seed=1, **limits), 0.0, 0, {}, {}
    while len(ends) < len(arrivals):
        while at < len(arrivals) and arrivals[at][0] <= now:
            engine.submit(Job(str(at), "chat", arrivals[at][1], arrivals[at][2]))
            at += 1
        step = engine.begin()
        if step is None:
            now = arrivals[at][0]
            continue
        now += step.duration
        for emission in engine.finish(step):
            firsts.setdefault(int(emission.job_id), now)
            if emission.finished:
                ends[int(emission.job_id)] = now
    return [(firsts[i], ends[i]) for i in range(len(arrivals))]


def drive(server, arrivals, workload="chat", draws=None):
    requests = []
    for number, (at, prompt, output) in enumerate(arrivals):
        request = Request(number, 0, workload, prompt, output, at)
        if draws is not None:
            request.place, request.level = draws[number]
        requests.append(request)
    at = 0
    while True:
        now = requests[at].arrived if at < len(requests) else NEVER
        if server.wake <= now:
            if (now := server.wake) == NEVER:
                return requests
            for request in server.settle(now):
                request.ended = now
            while at < len(requests) and requests[at].arrived <= now:
                server.submit(requests[at], now)
                at += 1
            server.plan(now)
        else:
            server.submit(requests[at], now)
            at += 1


@pytest.mark.parametrize("which", [NONE, CERTAIN], ids=["none", "certain"])
@pytest.mark.parametrize("limits", [{}, {"max_num_seqs": 3}, {"max_batched_tokens": 500}], ids=str)
def test_times_are_those_of_the_engine_that_takes_every_step(which, limits):
    arrivals = jobs(3, 200)
    sequences = limits.get("max_num_seqs", 256)
    server = Server(
        models.of(which, max_sequences=sequences),
        Draws(1),
        max_batched_tokens=limits.get("max_batched_tokens", 2048),
    )
    got = drive(server, arrivals)
    wanted = stepwise(which, arrivals, **limits)
    assert [(one.first, one.ended) for one in got] == [pytest.approx(pair, abs=1e-9) for pair in wanted]


def test_mean_acceptance_is_the_curves():
    draws = Draws(5)
    rng = np.random.default_rng(0)
    server = Server(models.of(MTP), draws)
    arrivals = [(one[0] * 2, 100, 400) for one in jobs(7, 600)]
    places = [(int(rng.integers(draws.size)), int(rng.integers(draws.levels))) for _ in arrivals]
    got = drive(server, arrivals, draws=places)
    length = 1 + sum(one.accepted for one in got) / sum(one.steps for one in got)
    assert length == pytest.approx(MTP.mean_accepted_length("chat"), rel=0.02)
    assert all(one.drafted == 4 * one.steps for one in got)
