"""From measurements of a sweep to what a learner believes of a fleet before the first request."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.curve import MOST
from gateway.core.predict import GREEDY, SAMPLED, START_STEPS, Cell, ServerModel, prompt_bin
from gateway.core.samples import FAMILIES, MODEL, guess

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.core.fleet import Backend
    from gateway.policy.evidence import Evidence, Measurement

_BEYOND: Final = 0.5
"""Power of the batch with which steps are believed to grow beyond the largest that was measured."""


def priors(evidence: Evidence, backends: Iterable[Backend]) -> Mapping[str, ServerModel]:
    """What was measured of the configurations of a fleet, by backend.

    Backends of other targets, and those whose configuration was not measured, are left out.

    Args:
        evidence: What a sweep measured.
        backends: Those of the fleet.
    """
    found: dict[str, ServerModel] = {}
    for backend in backends:
        measured = [
            one
            for one in evidence.measurements
            if (one.method, one.draft_tokens) == (backend.method, backend.draft_tokens)
        ]
        if backend.target == evidence.target and (model := _model(backend, measured)) is not None:
            found[backend.name] = model
    return found


def _model(backend: Backend, measured: Sequence[Measurement]) -> ServerModel | None:
    steps: dict[int, list[float]] = defaultdict(list)
    rates: dict[Cell, list[float]] = defaultdict(list)
    prompts: list[float] = []
    for one in measured:
        length = 1.0 if backend.is_baseline else one.mean_accepted_length
        if length is None or one.tpot is None:
            continue
        steps[one.concurrency].append(math.log(one.tpot.value * length))
        if one.workload:
            kind = GREEDY if one.sampling == GREEDY else SAMPLED
            rates[Cell(one.workload, prompt_bin(one.prompt_tokens or 0), kind)].append(1.0 / length)
        if one.concurrency == 1 and one.ttft_p50 and one.prompt_tokens:
            left = one.ttft_p50 - START_STEPS * one.tpot.value * length
            prompts.append(max(0.0, left) / one.prompt_tokens)
    if not steps:
        return None
    cells = {cell: fmean(values) for cell, values in rates.items()}
    # Where sampling was not measured, acceptance of greedy answers is the best guess.
    usual = {Cell(cell.workload, cell.bin, SAMPLED): rate for cell, rate in cells.items()}
    unknown = guess(backend.draft_tokens, FAMILIES.get(backend.method, MODEL))
    return ServerModel(
        steps_per_token={**usual, **cells} if backend.draft_tokens else {},
        other_steps_per_token=fmean(cells.values()) if cells else unknown.other_steps_per_token,
        step_seconds=_table({size: math.exp(fmean(values)) for size, values in steps.items()}),
        prefill_seconds=fmean(prompts) if prompts else unknown.prefill_seconds,
        output_tokens=_lengths(measured),
    )


def _table(measured: Mapping[int, float]) -> tuple[float, ...]:
    """Step times by batch: straight between measured ones in log, and growing beyond the last."""
    sizes = sorted(measured)
    last = sizes[-1]
    if last < MOST:
        measured = {**measured, MOST: measured[last] * (MOST / last) ** _BEYOND}
        sizes.append(MOST)
    batches = np.log(np.maximum(1.0, np.arange(MOST + 1)))
    logs = np.interp(batches, np.log(sizes), np.log([measured[size] for size in sizes]))
    return tuple(np.exp(logs).tolist())


def _lengths(measured: Sequence[Measurement]) -> Mapping[str, float]:
    lengths: dict[str, list[float]] = defaultdict(list)
    for one in measured:
        if one.workload and one.output_tokens:
            lengths[one.workload].append(one.output_tokens)
    return {workload: fmean(values) for workload, values in lengths.items()}
