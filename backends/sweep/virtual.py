"""Measures simulated servers in virtual time: the calibrated engine without a clock, an answer in no time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from backends.sim import profiles
from backends.sim.engine import Engine, Job
from backends.sweep.model import Round, Sample
from backends.sweep.prompts import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sim.engine import Emission
    from backends.sweep.model import Candidate, Cell, Condition

PROMPTS: Final = 64
"""Different prompts of a workload; every candidate gets the same ones in the same order."""


@dataclass(slots=True)
class _Open:
    """A request on its way."""

    sample_of: str
    job: Job
    started: float
    measured: bool
    first: float | None = None


class VirtualServers:
    """Servers of one target that answer in virtual time."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        """Take the profiles of a target.

        Args:
            target: Hugging Face id with a profile.
            seed: Of lengths and acceptance.
        """
        self._target = target
        self._seed = seed

    def has(self, candidate: Candidate) -> bool:
        """Whether there is a profile of a candidate."""
        known = profiles.configurations(self._target)
        return any((one.method, one.draft_tokens) == tuple(candidate) for one in known)

    def measure(self, cell: Cell, number: int, requests: int) -> tuple[Round, list[Sample]]:
        """Make one round of a cell: requests that start in a loop of clients in full swing.

        Args:
            cell: What is measured; its workload may be a data set of the profile.
            number: Which round, from 0.
            requests: How many requests count.

        Raises:
            backends.sim.profiles.UnknownConfigurationError: There is no profile of the candidate.
        """
        candidate, condition = cell
        found = profiles.configuration(self._target, candidate.method, candidate.draft_tokens)
        seeds = [self._seed, crc32(candidate.label.encode()), crc32(condition.label.encode()), number]
        engine = Engine(found, seed=crc32(repr(seeds).encode()))
        rng = np.random.default_rng(seeds)
        jobs = self._jobs(condition, number)
        seconds, samples = _loop(engine, cell, number, jobs, requests, rng)
        return Round(cell, number, seconds), samples

    def _jobs(self, condition: Condition, number: int) -> Iterator[tuple[str, int, int]]:
        """Prompts with their lengths: (id, prompt tokens, output tokens), round after round the next ones."""
        workload, filling = condition.workload, tokens_of(condition.prompt)
        expected = profiles.lengths(workload)
        for place in count(number * PROMPTS // 2):
            prompt = place % PROMPTS
            rng = np.random.default_rng([self._seed, crc32(workload.encode()), prompt])
            prompt_tokens, output = expected.sample(rng)
            yield f"{workload}-{prompt:02}", prompt_tokens + filling, output


def _loop(
    engine: Engine,
    cell: Cell,
    number: int,
    jobs: Iterator[tuple[str, int, int]],
    requests: int,
    rng: np.random.Generator,
) -> tuple[float, list[Sample]]:
    names = count()
    running: dict[str, _Open] = {}
    now, begun = 0.0, 0

    def submit(share: float = 1.0, *, measured: bool) -> None:
        prompt, prompt_tokens, output = next(jobs)
        job = Job(str(next(names)), cell.condition.workload, prompt_tokens, max(1, round(output * share)))
        running[job.id] = _Open(prompt, job, now, measured)
        engine.submit(job)

    # Clients begin somewhere within a request, as if they had always been there.
    for share in rng.random(cell.condition.concurrency).tolist():
        submit(share, measured=False)
    samples: list[Sample] = []
    left = requests
    while left and (step := engine.begin()) is not None:
        now += step.duration
        for emission in engine.finish(step):
            one = running[emission.job_id]
            one.first = now if one.first is None else one.first
            if emission.finished:
                del running[emission.job_id]
                left -= one.measured
                samples.append(_sample(cell, number, one, emission, now))
                submit(measured=begun < requests)
                begun += 1
    return now, samples


def _sample(cell: Cell, number: int, one: _Open, emission: Emission, now: float) -> Sample:
    first = now if one.first is None else one.first
    told = emission.acceptance if cell.candidate.draft_tokens else None
    return Sample(
        cell=cell,
        round=number,
        prompt_id=one.sample_of,
        measured=one.measured,
        seconds=now - one.started,
        ttft=first - one.started,
        prompt_tokens=one.job.prompt_tokens,
        output_tokens=one.job.max_tokens,
        decode_tokens=one.job.max_tokens - 1,
        decode_seconds=now - first,
        steps=told.steps if told else None,
        drafted=told.drafted if told else None,
        accepted=told.accepted if told else None,
        histogram=told.histogram if told else (),
        digest=one.sample_of,
        finish="length",
    )
