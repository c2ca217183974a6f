"""What one simulated server runs: its step-time functions and its acceptance by workload."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_SETS: Final = {"gsm8k": "math", "math500": "math", "humaneval": "code", "mbpp": "code"}
"""The data sets of the published cells and the workload each belongs to."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of one pass of the target model by the number of tokens in it.

    ``seconds * [(1 - linear_share) * (t / concurrency) ** growth + linear_share * t / concurrency]``: a
    memory-bound part, flat (dense) or slowly rising (mixture of experts), and a compute-bound one.

    Attributes:
        seconds: Time of a pass over ``concurrency`` tokens.
        concurrency: Tokens in a pass at the calibration point.
        growth: Exponent of the memory-bound part.
        linear_share: Share of the compute-bound part at the calibration point.
    """

    seconds: float
    concurrency: int
    growth: float
    linear_share: float

    def __call__(self, tokens: float) -> float:
        """Seconds of a pass over ``tokens`` tokens (more than 0)."""
        load = tokens / self.concurrency
        return self.seconds * (
            (1.0 - self.linear_share) * math.pow(load, self.growth) + self.linear_share * load
        )

    @property
    def marginal(self) -> float:
        """Seconds that one more token costs in the compute-bound part."""
        return self.linear_share * self.seconds / self.concurrency


@dataclass(frozen=True, slots=True)
class Lengths:
    """Length of requests of one workload, in tokens; both are lognormal.

    Attributes:
        output: Mean of the answers.
        prompt: Mean of the prompts.
        variation: Standard deviation over mean, of both.
    """

    output: float
    prompt: float
    variation: float

    def sample(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draw (prompt tokens, output tokens), each at least 1."""
        variance = math.log(1.0 + self.variation**2)
        prompt, output = np.exp(rng.normal(-variance / 2.0, math.sqrt(variance), 2)).tolist()
        return max(1, round(self.prompt * prompt)), max(1, round(self.output * output))


@dataclass(frozen=True, slots=True)
class Cell:
    """One published measurement and what the simulator needs to reproduce it.

    Attributes:
        tokens_per_second: Aggregate output tokens/s as published.
        speedup: Over the baseline of the same data set, as published; 1 for the baseline.
        mean_accepted_length: Tokens a step, bonus token included, as published; 1 for the baseline.
        step_scale: Step time on this data set over that of the configuration; absorbs what differs
            between the runs of one configuration and is not published.
    """

    tokens_per_second: float
    speedup: float
    mean_accepted_length: float
    step_scale: float


@dataclass(frozen=True, slots=True)
class Configuration:
    """One target model with one speculative method and draft length on one machine.

    Attributes:
        target: Hugging Face id of the target model.
        method: One of :data:`gateway.core.fleet.METHODS`.
        draft_tokens: N; 0 for ``none``.
        draft: Draft checkpoint, None where the method has none.
        hardware: Accelerator and tensor parallelism, such as ``MI300X TP2``.
        curve: Pass of the target without speculation.
        verify_scale: Factor on the pass that verifies; below 1 only where the published step is
            cheaper than the curve says.
        draft_cost: Time to draft for ``curve.concurrency`` sequences, in units of ``curve.seconds``.
        draft_floor: Share of the draft time that does not depend on the number of sequences.
        prefill_seconds: Price of one prompt token.
        request_spread: Standard deviation of the factor on acceptance that tells requests of one
            workload apart.
        kv_tokens: Tokens that the KV cache holds.
        survival: By workload or data set, the probability that the draft at each position is accepted
            (N values, never increasing), as the server's counters would show it.
        cells: Published measurements by data set; empty where acceptance is assumed.
        origins: Where each of these comes from, by field name.
    """

    target: str
    method: str
    draft_tokens: int
    draft: str | None
    hardware: str
    curve: Curve
    verify_scale: float
    draft_cost: float
    draft_floor: float
    prefill_seconds: float
    request_spread: float
    kv_tokens: int
    survival: Mapping[str, tuple[float, ...]]
    cells: Mapping[str, Cell] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def baseline(self, sequences: float) -> float:
        """Seconds of a step that decodes ``sequences`` sequences without speculation."""
        return self.curve(sequences)

    def verify(self, tokens: float) -> float:
        """Seconds to verify ``tokens`` tokens (drafts and one more a sequence)."""
        return self.verify_scale * self.curve(tokens)

    def draft_time(self, sequences: float) -> float:
        """Seconds to draft N tokens for each of ``sequences`` sequences."""
        load = sequences / self.curve.concurrency
        return self.draft_cost * self.curve.seconds * (self.draft_floor + (1.0 - self.draft_floor) * load)

    def step(self, sequences: float) -> float:
        """Seconds of a step that decodes ``sequences`` sequences, prefill not included."""
        return self.verify((self.draft_tokens + 1) * sequences) + self.draft_time(sequences)

    def step_scale(self, workload: str) -> float:
        """Factor on the step time: 1 for a workload, the cell's residual for a published data set."""
        cell = self.cells.get(workload)
        return 1.0 if cell is None else cell.step_scale

    def mean_accepted_length(self, workload: str) -> float:
        """Expected tokens a step, bonus token included."""
        return 1.0 + sum(self.survival[workload])
