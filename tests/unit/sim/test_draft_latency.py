"""What drafting takes, estimated from the counters of simulated servers whose true cost is known."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from backends.sim.engine import Engine, Job
from backends.sim.profiles import configuration
from gateway.core.counters import Counters
from gateway.core.draft_latency import StepTimes, estimates, window

if TYPE_CHECKING:
    from backends.sim.configuration import Configuration

TARGET = "google/gemma-4-31B-it"
WINDOW = 10.0
WINDOWS = 12


def observed(server: Configuration, *clients: int) -> StepTimes:
    """A server under so many clients that never think, read every ten seconds as the gateway would."""
    times = StepTimes()
    for number in clients:
        engine, names = Engine(server, seed=number), count()
        last: dict[str, float] = {}

        def job(names: count[int] = names) -> Job:
            return Job(str(next(names)), "chat", prompt_tokens=120, max_tokens=160)

        for _ in range(number):
            engine.submit(job())
        now = steps = seconds = drafted = computed = 0.0
        before = None
        while now < WINDOW * (WINDOWS + 1):
            step = engine.begin()
            assert step is not None
            now += step.duration
            computed += step.prefill_tokens
            for emission in engine.finish(step):
                if emission.job_id in last:
                    steps += 1
                    seconds += now - last[emission.job_id]
                    drafted += emission.drafted
                last[emission.job_id] = now
                if emission.finished:
                    del last[emission.job_id]
                    engine.submit(job())
            if before is None or now - before.at >= WINDOW:
                drafts = engine.counters.drafts if server.draft_tokens else None
                after = Counters(
                    now, drafts, drafted if server.draft_tokens else None, steps=steps, step_seconds=seconds,
                    iterations=engine.counters.steps, computed=computed,
                )  # fmt: skip
                if before is not None and (found := window(before, after)) is not None:
                    times.add(found)
                before = after
    return times


@pytest.mark.parametrize(("method", "draft_tokens"), [("dflash", 7), ("gemma4-mtp", 4)])
def test_the_estimate_finds_what_the_simulated_draft_takes(method: str, draft_tokens: int) -> None:
    server = configuration(TARGET, method, draft_tokens)
    assert server.verify_scale == 1.0
    base = observed(configuration(TARGET, "none", 0), 1, 4, 8, 16, 24, 32)
    found = estimates(observed(server, 1, 4), [base])
    assert len(found) >= 2
    for one in found:
        true = server.draft_time(one.batch)
        assert one.seconds == pytest.approx(true, rel=0.1)
        assert one.most is not None
        assert one.most > true
