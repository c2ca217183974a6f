"""How fast a server works, fitted to measurements of it: seconds of a step by load, and of a prompt token.

With n of c clients' requests decoding, a token of workload w takes k·s(n) + n·p·X/L·(c-1)/c seconds: its k
steps, and the prompts X of as many requests of the other clients as end meanwhile, each with an answer of L
tokens. How many decode is throughput times seconds a token. All workloads share s and p, so these come from
all cells together by least squares, each one weighted by how exact it is; a cell that was left out follows
from the others.
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

_FIRST_TOKEN_ERROR: Final = 0.2
"""Of what the time to the first token says of prompts: there is more in it, but nobody else in the queue."""


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
    told = _told_steps(measured)
    steps = told or _relative_steps(measured)
    # Chance that spared a cell steps spared it their time too, so a step is told by the cell's own number.
    own = [_own_steps(one) if told else None for one in measured]
    decoding = [_decoding(one, own[place] or steps[one.workload]) for place, one in enumerate(measured)]
    rows = [*decoding, *_first_tokens(measured)]
    if not measured:
        return None
    levels = sorted({one.concurrency for one in measured})
    table = np.array([[*_weights(row.running, levels) * row.steps, row.prompt] for row in rows])
    exactness = np.array([1.0 / (row.seconds * row.error) for row in rows])
    seconds = np.array([row.seconds for row in rows])
    found, _, rank, _ = np.linalg.lstsq(table * exactness[:, None], seconds * exactness, rcond=None)
    if rank < len(levels) + 1 or (found <= 0.0).any():
        found = _without_prompts(decoding, levels)
    return Pace(dict(zip(levels, found[:-1].tolist(), strict=True)), float(found[-1]), steps)


def _decoding(one: Measurement, steps: float) -> _Row:
    """What a cell says of a token after the first."""
    rate = one.tokens_per_second.value
    tpot = one.concurrency / rate if one.tpot is None else one.tpot.value
    running = min(float(one.concurrency), max(1.0, rate * tpot))
    prompt = (one.prompt_tokens or 0.0) / one.output_tokens if one.output_tokens else 0.0
    others = (one.concurrency - 1) / one.concurrency
    # Where many wait for their first token they come and go in bunches, and a mean number says little.
    error = math.hypot(_error(one.tokens_per_second), 1.0 - running / one.concurrency)
    return _Row(running, steps, running * prompt * others, tpot, error)


def _own_steps(one: Measurement) -> float | None:
    """Steps a token took in a cell; None where the server did not tell."""
    if one.is_baseline:
        return 1.0
    return 1.0 / one.mean_accepted_length if one.mean_accepted_length else None


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


def _told_steps(measured: Sequence[Measurement]) -> dict[str, float]:
    """Steps a token by workload, as acceptance does not depend on load; empty unless told for each."""
    tokens: dict[str, float] = defaultdict(float)
    steps: dict[str, float] = defaultdict(float)
    for one in measured:
        own = _own_steps(one)
        if own:
            weight = one.steps or one.requests or 1.0
            steps[one.workload] += weight
            tokens[one.workload] += weight / own
    if not {one.workload for one in measured} <= steps.keys():
        return {}
    return {workload: taken / tokens[workload] for workload, taken in steps.items()}


def _relative_steps(measured: Sequence[Measurement]) -> dict[str, float]:
    """What a token takes under the lowest load, as a multiple of the shortest: it stands for steps."""
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
