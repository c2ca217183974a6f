"""What a gateway's learner may begin with: acceptance, step times, price of prompts and lengths."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.sweep.choose import candidate
from backends.sweep.model import GREEDY, SHORT
from gateway.core.predict import SAMPLED, START_STEPS, Cell, ServerModel
from gateway.policy.learned import dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.sweep.model import Candidate
    from gateway.policy.evidence import Evidence, Measurement

FILE: Final = "learned.yaml"

_LEAST_PREFILL: Final = 1e-6


def prior(evidence: Evidence, servers: Mapping[str, Candidate]) -> str | None:
    """The file for a fleet; None where one of its servers was not measured well enough.

    Args:
        evidence: All measurements; the greedy ones of short prompts are used.
        servers: What runs on each backend.
    """
    models = {name: model(evidence, who) for name, who in servers.items()}
    known = {name: one for name, one in models.items() if one is not None}
    return dump(known, FILE) if known and len(known) == len(models) else None


def model(evidence: Evidence, who: Candidate) -> ServerModel | None:
    """What is known of a server with a configuration; None without times of its tokens."""
    cells = [
        one
        for one in evidence.measurements
        if candidate(one) == who and (one.sampling, one.prompt) == (GREEDY, SHORT) and one.tpot is not None
    ]
    if not cells or not all(one.mean_accepted_length or who.is_baseline for one in cells):
        return None
    rates = {
        name: 1.0 / _length([one for one in cells if one.workload == name]) for name in _workloads(cells)
    }
    outputs = {one.workload: one.output_tokens for one in cells if one.output_tokens}
    prompts = {one.workload: one.prompt_tokens for one in cells if one.prompt_tokens}
    table = _steps(cells)
    steps = [outputs[name] * rate for name, rate in rates.items() if name in outputs]
    return ServerModel(
        fingerprint=f"{evidence.target} {who.label}",
        steps_per_token={Cell(name, 0, SAMPLED): rate for name, rate in rates.items()},
        other_steps_per_token=median(rates.values()),
        step_seconds=table,
        prefill_seconds=_prefill(cells, table[1]),
        output_tokens=outputs,
        other_output_tokens=median(outputs.values()) if outputs else 300.0,
        prompt_tokens=prompts,
        mean_steps=max(1.0, sum(steps) / len(steps)) if steps else 150.0,
        evidence={name: float(_requests(cells, name)) for name in rates},
    )


def _workloads(cells: Sequence[Measurement]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.workload for one in cells))


def _requests(cells: Sequence[Measurement], workload: str) -> int:
    return sum(one.requests for one in cells if one.workload == workload)


def _length(cells: Sequence[Measurement]) -> float:
    """Mean accepted length over loads, each as sure as its requests."""
    total = sum(one.requests for one in cells)
    return sum((one.mean_accepted_length or 1.0) * one.requests for one in cells) / total


def _step(one: Measurement) -> float:
    """Seconds of a step: those of a token times the tokens that a step yields."""
    return (one.tpot.value if one.tpot is not None else 0.0) * (one.mean_accepted_length or 1.0)


def _steps(cells: Sequence[Measurement]) -> tuple[float, ...]:
    """Step time by batch, from 0 to the highest load measured, straight between the loads."""
    by_level: dict[int, list[float]] = {}
    for one in cells:
        by_level.setdefault(one.concurrency, []).append(_step(one))
    levels = sorted(by_level)
    seconds = [median(by_level[level]) for level in levels]
    batches = np.arange(max(2, levels[-1] + 1))
    return tuple(float(one) for one in np.interp(batches, levels, seconds))


def _prefill(cells: Sequence[Measurement], step: float) -> float:
    """Seconds a prompt token, by the first tokens at the lowest load: what its steps do not explain."""
    lowest = min(one.concurrency for one in cells)
    prices = [
        (one.ttft_p50 - START_STEPS * step) / one.prompt_tokens
        for one in cells
        if one.concurrency == lowest and one.ttft_p50 is not None and one.prompt_tokens
    ]
    return max(_LEAST_PREFILL, median(prices)) if prices else _LEAST_PREFILL
