"""Continuous batching with speculation as a state machine that owns no clock."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backends.sim.counters import Counters
from backends.sim.spread import LEAST, thresholds

if TYPE_CHECKING:
    from backends.sim.configuration import Configuration


@dataclass(frozen=True, slots=True)
class Job:
    """A request as the engine sees it.

    Attributes:
        workload: A workload or data set that the configuration has a survival curve for.
        prompt_tokens: Tokens of the prompt, at least 1.
        max_tokens: Tokens that will be generated, at least 1.
        cached_tokens: Prompt tokens found in the prefix cache; the last prompt token is always computed.
    """

    id: str
    workload: str
    prompt_tokens: int
    max_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Speculation numbers of one finished job.

    Attributes:
        steps: Steps with drafts.
        drafted: Draft tokens proposed.
        accepted: Draft tokens accepted.
        histogram: Steps by number of accepted drafts, index 0 to N.
    """

    steps: int
    drafted: int
    accepted: int
    histogram: tuple[int, ...]


class Emission(NamedTuple):  # one a sequence and step: a frozen dataclass costs three times as much to make
    """What one step gave one job.

    Attributes:
        tokens: New output tokens, at least 1.
        drafted: Draft tokens proposed for it; 0 where the token comes from prefill.
        accepted: Draft tokens accepted. ``tokens`` is ``accepted + 1`` except in a last step that
            ``max_tokens`` cuts: vLLM counts what was verified, not what was sent.
        finished: Whether the job is done.
        acceptance: Totals of the job, once it is finished.
    """

    job_id: str
    tokens: int
    drafted: int
    accepted: int
    finished: bool
    acceptance: Acceptance | None = None


class _Sequence:
    """A job with its progress."""

    __slots__ = ("factor", "gone", "histogram", "job", "limits", "scale", "to_generate", "to_prefill")

    def __init__(self, job: Job, limits: tuple[float, ...], factor: float, scale: float) -> None:
        self.job = job
        self.limits = limits
        self.factor = factor
        self.scale = scale
        self.to_prefill = job.prompt_tokens - min(job.cached_tokens, job.prompt_tokens - 1)
        self.to_generate = job.max_tokens
        self.histogram = [0] * (len(limits) + 1)
        self.gone = False

    @property
    def kv_tokens(self) -> int:
        """Tokens it holds in the KV cache."""
        return self.job.prompt_tokens - self.to_prefill + self.job.max_tokens - self.to_generate

    def acceptance(self) -> Acceptance:
        """Its totals so far."""
        steps = sum(self.histogram)
        accepted = sum(count * value for value, count in enumerate(self.histogram))
        return Acceptance(steps, steps * len(self.limits), accepted, tuple(self.histogram))


@dataclass(frozen=True, slots=True)
class Step:
    """One planned step.

    Attributes:
        duration: Seconds it takes.
        decoding: Sequences that decode in it.
        prefill_tokens: Prompt tokens computed in it.
    """

    duration: float
    decoding: int
    prefill_tokens: int


class Engine:
    """Batches jobs as vLLM does: first come, first served, chunked prefill beside decoding.

    The caller owns time: it calls :meth:`begin`, lets ``Step.duration`` pass on whatever clock it has,
    and calls :meth:`finish`. The same seed and the same calls give the same result.

    Args:
        configuration: What the server runs.
        seed: Of all acceptance draws.
        max_num_seqs: Jobs that run at once; more wait.
        max_batched_tokens: Prompt tokens computed in one step at most.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        seed: int,
        max_num_seqs: int = 256,
        max_batched_tokens: int = 2048,
    ) -> None:
        self.configuration = configuration
        self.counters = Counters(histogram=[0] * (configuration.draft_tokens + 1))
        self._max_num_seqs = max_num_seqs
        self._max_batched_tokens = max_batched_tokens
        self._rng = np.random.default_rng(seed)
        self._waiting: dict[str, _Sequence] = {}
        self._running: dict[str, _Sequence] = {}
        self._step: Step | None = None
        self._decodes: list[_Sequence] = []
        self._chunks: list[tuple[_Sequence, int]] = []
        self._seconds: dict[int, float] = {}
        self._limits: dict[str, tuple[float, ...]] = {}

    @property
    def running(self) -> int:
        """Jobs in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache that running jobs hold, at most 1; an estimate that limits nothing."""
        held = sum(sequence.kv_tokens for sequence in self._running.values())
        return min(1.0, held / self.configuration.kv_tokens)

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            ValueError: Its id is in use, a length is below 1, or no acceptance is known for its workload.
        """
        if job.id in self._waiting or job.id in self._running:
            raise ValueError(f"job {job.id!r} is already here")
        if job.prompt_tokens < 1 or job.max_tokens < 1 or job.cached_tokens < 0:
            raise ValueError(f"job {job.id!r} needs at least one prompt token and one output token: {job}")
        factor = max(LEAST, self._rng.normal(1.0, self.configuration.request_spread))
        scale = self.configuration.step_scale(job.workload)
        self._waiting[job.id] = _Sequence(job, self._limits_of(job.workload), factor, scale)

    def cancel(self, job_id: str) -> bool:
        """Drop a job and free its slot at once; a step under way gives it nothing.

        Returns:
            Whether the job was there.
        """
        sequence = self._waiting.pop(job_id, None) or self._running.pop(job_id, None)
        if sequence is None:
            return False
        sequence.gone = True
        return True

    def begin(self) -> Step | None:
        """Admit waiting jobs and plan one step; None if there is nothing to do.

        Raises:
            RuntimeError: The step before has not been finished.
        """
        if self._step is not None:
            raise RuntimeError("finish the step under way before the next one begins")
        decodes = [sequence for sequence in self._running.values() if not sequence.to_prefill]
        budget = self._max_batched_tokens
        chunks = []
        for sequence in self._running.values():
            if sequence.to_prefill and budget:
                chunks.append((sequence, min(budget, sequence.to_prefill)))
                budget -= chunks[-1][1]
        while budget and self._waiting and len(self._running) < self._max_num_seqs:
            job_id = next(iter(self._waiting))
            sequence = self._running[job_id] = self._waiting.pop(job_id)
            chunks.append((sequence, min(budget, sequence.to_prefill)))
            budget -= chunks[-1][1]
        if not decodes and not chunks:
            return None
        prompt_tokens = self._max_batched_tokens - budget
        duration = self._decode_seconds(decodes) + prompt_tokens * self.configuration.prefill_seconds
        self._decodes, self._chunks = decodes, chunks
        self._step = Step(duration, len(decodes), prompt_tokens)
        return self._step

    def finish(self, step: Step) -> list[Emission]:
        """Apply a step whose time has passed.

        Returns:
            One emission for every job that got tokens, in the order they were admitted.

        Raises:
            ValueError: It is not the step that :meth:`begin` planned last.
        """
        if step is not self._step:
            raise ValueError("this is not the step under way")
        self._step = None
        self.counters.steps += 1
        emissions = [
            self._verify(sequence, draw)
            for sequence, draw in zip(self._decodes, self._rng.random(step.decoding).tolist(), strict=True)
            if not sequence.gone
        ]
        for sequence, tokens in self._chunks:
            if sequence.gone:
                continue
            sequence.to_prefill -= tokens
            if not sequence.to_prefill:
                self.counters.prompt_tokens += sequence.job.prompt_tokens
                self.counters.cached_tokens += min(sequence.job.cached_tokens, sequence.job.prompt_tokens - 1)
                emissions.append(self._emit(sequence, 1, 0, 0))
        return emissions

    def _limits_of(self, workload: str) -> tuple[float, ...]:
        """Negated thresholds by position, ascending as bisection wants them."""
        limits = self._limits.get(workload)
        if limits is None:
            survival = self.configuration.survival.get(workload)
            if survival is None:
                known = ", ".join(self.configuration.survival)
                raise ValueError(f"no acceptance is known for workload {workload!r}; there is {known}")
            limits = tuple(-limit for limit in thresholds(survival, self.configuration.request_spread))
            self._limits[workload] = limits
        return limits

    def _decode_seconds(self, decodes: list[_Sequence]) -> float:
        """Step time without prefill; a step with prompts only is as long as one that decodes one sequence."""
        number = max(1, len(decodes))
        seconds = self._seconds.get(number)
        if seconds is None:
            seconds = self._seconds[number] = self.configuration.step(number)
        if not decodes:
            return seconds
        return seconds * sum([sequence.scale for sequence in decodes]) / number

    def _verify(self, sequence: _Sequence, draw: float) -> Emission:
        """Accept the leading drafts whose threshold, times the request's factor, exceeds ``draw``."""
        drafted = len(sequence.limits)
        if not drafted:
            return self._emit(sequence, 1, 0, 0)
        accepted = bisect_left(sequence.limits, -draw / sequence.factor)
        sequence.histogram[accepted] += 1
        self.counters.histogram[accepted] += 1
        return self._emit(sequence, accepted + 1, drafted, accepted)

    def _emit(self, sequence: _Sequence, tokens: int, drafted: int, accepted: int) -> Emission:
        """Hand out tokens, and take the job off the batch when it has all of them."""
        job_id = sequence.job.id
        left = sequence.to_generate
        if tokens < left:
            sequence.to_generate = left - tokens
            self.counters.generation_tokens += tokens
            return Emission(job_id, tokens, drafted, accepted, False)  # noqa: FBT003 - by name it costs twice as much
        sequence.to_generate = 0
        self.counters.generation_tokens += left
        del self._running[job_id]
        return Emission(job_id, left, drafted, accepted, finished=True, acceptance=sequence.acceptance())
