"""How fast a server works, fitted to measurements of it: seconds of a step by load, and of a prompt token.

With n requests decoding, a token of workload w takes k·s(n) + n·p·X/L seconds: its k steps, and the prompts X
of as many requests as end meanwhile, each with an answer of L tokens. How many decode is throughput times
seconds a token. All workloads share s and p, so these come from all cells together by least squares, each one
weighted by how exact it is; a cell that was left out follows from the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.policy.evidence import Measurement, Range

_LEAST_ERROR: Final = 0.02
"""Relative error of the exactest cell: the formula itself is no better."""

_USUAL_ERROR: Final = 0.3
"""Of a cell without an interval."""

_FIRST_TOKEN_ERROR: Final = 1.0
"""Of what the time to the first token says of prompts: it decides where throughput tells nothing."""


class _Row(NamedTuple):
    """One measured cell: seconds = steps · s(running) + prompt · p, give or take a relative error."""

    running: float
    steps: float
    prompt: float
    seconds: float
    error: float


@dataclass(frozen=True, slots=True)
class Pace:
    """One configuration on one kind of machine.

    Attributes:
        step: Seconds of a step by measured load, ascending.
        prefill: Seconds a prompt token.
        steps: Steps an output token takes, by workload; where acceptance is not known, a step is what a token
            of the fastest workload takes.
    """

    step: Mapping[int, float]
    prefill: float
    steps: Mapping[str, float]

    def seconds(self, batches: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of a step with so many requests: straight between measured loads on a logarithmic scale.

        Beyond the highest, the rate is taken not to grow; below the lowest, a step not to get shorter.
        """
        levels, steps = np.array(list(self.step)), np.array(list(self.step.values()))
        beyond = np.maximum(1.0, batches / levels[-1])
        inside = np.interp(np.log(batches), np.log(levels), np.log(steps))
        return np.asarray(np.exp(inside) * beyond)


def fit(measured: Sequence[Measurement]) -> Pace | None:
    """Fit measurements of one configuration; None of none.

    Args:
        measured: Of one sampling; of any workloads, loads and prompt lengths.
    """
    steps = _steps(measured)
    rows = [*(_decoding(one, steps[one.workload]) for one in measured), *_first_tokens(measured)]
    if not measured:
        return None
    levels = sorted({one.concurrency for one in measured})
    table = np.array([[*_weights(row.running, levels) * row.steps, row.prompt] for row in rows])
    exactness = np.array([1.0 / (row.seconds * row.error) for row in rows])
    seconds = np.array([row.seconds for row in rows])
    found, _, rank, _ = np.linalg.lstsq(table * exactness[:, None], seconds * exactness, rcond=None)
    if rank < len(levels) + 1 or (found <= 0.0).any():
        found = _without_prompts([_decoding(one, steps[one.workload]) for one in measured], levels)
    return Pace(dict(zip(levels, found[:-1].tolist(), strict=True)), float(found[-1]), steps)


def _decoding(one: Measurement, steps: float) -> _Row:
    """What a cell says of a token after the first."""
    rate = one.tokens_per_second.value
    tpot = one.concurrency / rate if one.tpot is None else one.tpot.value
    running = min(float(one.concurrency), max(1.0, rate * tpot))
    prompt = (one.prompt_tokens or 0.0) / one.output_tokens if one.output_tokens else 0.0
    return _Row(running, steps, running * prompt, tpot, _error(one.tokens_per_second))


def _error(found: Range) -> float:
    """Relative half-width of an interval."""
    if not found.low or found.high is None:
        return _USUAL_ERROR
    return max(_LEAST_ERROR, math.log(found.high / found.low) / 2.0)


def _first_tokens(measured: Sequence[Measurement]) -> list[_Row]:
    """What times to the first token alone on the server say: a step and the prompt."""
    return [
        _Row(1.0, 1.0, one.prompt_tokens, one.ttft_p50, _FIRST_TOKEN_ERROR)
        for one in measured
        if one.concurrency == 1 and one.ttft_p50 and one.prompt_tokens
    ]


def _weights(running: float, levels: Sequence[int]) -> NDArray[np.float64]:
    """How much the step at each measured load counts for one with so many requests: straight between them."""
    return np.array([np.interp(running, levels, row) for row in np.eye(len(levels))])


def _steps(measured: Sequence[Measurement]) -> dict[str, float]:
    """Steps a token by workload: acceptance does not depend on load.

    Where servers do not tell it for each workload, what a token takes under the lowest load stands for it, as
    a multiple of the shortest.
    """
    tokens: dict[str, float] = defaultdict(float)
    steps: dict[str, float] = defaultdict(float)
    for one in measured:
        length = 1.0 if one.is_baseline else one.mean_accepted_length
        if length:
            weight = one.steps or one.requests or 1.0
            steps[one.workload] += weight
            tokens[one.workload] += weight * length
    if {one.workload for one in measured} <= steps.keys():
        return {workload: taken / tokens[workload] for workload, taken in steps.items()}
    falling = sorted(measured, key=lambda one: -one.concurrency)
    seconds = {one.workload: one.concurrency / one.tokens_per_second.value for one in falling}
    least = min(seconds.values(), default=1.0)
    return {workload: each / least for workload, each in seconds.items()}


def _without_prompts(rows: Sequence[_Row], levels: Sequence[int]) -> NDArray[np.float64]:
    """Steps alone, where prompts seem to cost nothing: noise, or too few kinds of work."""
    steps = []
    for level in levels:
        nearest = min(abs(row.running - level) for row in rows)
        near = [row for row in rows if abs(row.running - level) <= nearest + 0.5]
        steps.append(math.exp(fmean(math.log(row.seconds / row.steps) for row in near)))
    return np.array([*steps, 0.0])
