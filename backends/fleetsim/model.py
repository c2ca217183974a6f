"""What a simulated server runs, tabulated: seconds of a step by batch size, and acceptance by workload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backends.sim.configuration import Configuration

MAX_SEQUENCES: Final = 256
"""Sequences that run at once unless a model says otherwise; more wait."""

GRAPH_SIZES: Final = (1, 2, 4, *range(8, 513, 8))
"""Batch sizes in tokens for which vLLM captures graphs by default; a step is padded to the next one."""


@dataclass(frozen=True, slots=True)
class Regime:
    """What an engine does in a range of batch sizes.

    Attributes:
        draft_tokens: N.
        survival: By workload, the probability that the draft at each position is accepted.
    """

    draft_tokens: int
    survival: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Model:
    """One server's engine.

    Attributes:
        name: What to call it; made from method and N by the makers below.
        method: One of :data:`gateway.core.fleet.METHODS`.
        draft_tokens: N as declared, the highest that it uses.
        seconds: Step time by number of sequences that decode, index 0 to the most that run at once. Index 0
            holds a step with prompts only.
        regimes: Most engines have one; one that adapts N to its load has several.
        regime_at: Index into ``regimes`` by number of sequences that decode; empty where there is one.
        prefill_seconds: Price of one prompt token.
        spread: Standard deviation of the factor on acceptance that tells requests apart.
        kv_tokens: Tokens that the KV cache holds.
        calibrated: Sequences at the calibration point, where its published throughput is reproduced.
    """

    name: str
    target: str
    method: str
    draft_tokens: int
    seconds: tuple[float, ...]
    regimes: tuple[Regime, ...]
    regime_at: tuple[int, ...]
    prefill_seconds: float
    spread: float
    kv_tokens: int
    calibrated: int

    @property
    def max_sequences(self) -> int:
        """Sequences that run at once."""
        return len(self.seconds) - 1

    def regime(self, sequences: int) -> Regime:
        """What it does while so many sequences decode."""
        return self.regimes[self.regime_at[sequences] if self.regime_at else 0]

    def survival(self, workload: str, sequences: int = 1) -> tuple[float, ...]:
        """Acceptance by position while so many sequences decode."""
        return self.regime(sequences).survival[workload]


def of(configuration: Configuration, *, name: str = "", max_sequences: int = MAX_SEQUENCES) -> Model:
    """The engine of a configuration."""
    tail = f"-{configuration.draft_tokens}" if configuration.draft_tokens else ""
    return Model(
        name=name or f"{configuration.method}{tail}",
        target=configuration.target,
        method=configuration.method,
        draft_tokens=configuration.draft_tokens,
        seconds=tabulated(configuration.step, max_sequences),
        regimes=(Regime(configuration.draft_tokens, configuration.survival),),
        regime_at=(),
        prefill_seconds=configuration.prefill_seconds,
        spread=configuration.request_spread,
        kv_tokens=configuration.kv_tokens,
        calibrated=configuration.curve.concurrency,
    )


def adaptive(parts: Sequence[tuple[int, Model]], *, name: str = "adaptive") -> Model:
    """An engine that changes N with its load, as ``num_speculative_tokens_per_batch_size`` makes it.

    Args:
        parts: Largest batch and the engine up to it, ascending; the last holds for all above.
        name: What to call it.

    Raises:
        ValueError: The batches do not ascend.
    """
    if [upto for upto, _ in parts] != sorted({upto for upto, _ in parts}):
        raise ValueError(f"batch sizes must ascend: {[upto for upto, _ in parts]}")
    models = [part for _, part in parts]
    most = max(models, key=lambda part: part.draft_tokens)
    sizes = range(most.max_sequences + 1)
    at = tuple(
        next((index for index, (upto, _) in enumerate(parts) if size <= upto), len(parts) - 1)
        for size in sizes
    )
    return replace(
        most,
        name=name,
        seconds=tuple(models[at[size]].seconds[size] for size in sizes),
        regimes=tuple(part.regimes[0] for part in models),
        regime_at=at,
    )


def scaled(model: Model, factor: float, *, name: str = "") -> Model:
    """The same engine on a machine that takes ``factor`` times as long for everything."""
    return replace(
        model,
        name=name or model.name,
        seconds=tuple(seconds * factor for seconds in model.seconds),
        prefill_seconds=model.prefill_seconds * factor,
    )


def with_cliff(model: Model, tokens: int, factor: float) -> Model:
    """Steps over more than ``tokens`` tokens take ``factor`` times as long: no graph is that large."""
    return replace(
        model,
        seconds=tuple(
            seconds * (factor if size * (model.regime(size).draft_tokens + 1) > tokens else 1.0)
            for size, seconds in enumerate(model.seconds)
        ),
    )


def padded(model: Model, seconds: Callable[[float, int], float]) -> Model:
    """Steps take as long as the next captured graph: a staircase instead of a curve.

    Args:
        model: The engine.
        seconds: Step time by (sequences, N), for any positive number of sequences.
    """

    def step(size: int) -> float:
        drafts = model.regime(size).draft_tokens
        tokens = max(1, size) * (drafts + 1)
        graph = next((captured for captured in GRAPH_SIZES if captured >= tokens), tokens)
        return seconds(graph / (drafts + 1), drafts)

    return replace(model, seconds=tuple(step(size) for size in range(len(model.seconds))))


def with_acceptance(model: Model, factors: Mapping[str, float], *, name: str = "") -> Model:
    """The same engine with a draft that accepts more or less on some workloads.

    Args:
        model: The engine.
        factors: By workload, what the expected number of accepted drafts is multiplied by, as far as
            acceptance can rise; workloads left out stay as they are.
        name: What to call it.
    """
    regimes = tuple(
        replace(
            regime,
            survival={
                workload: _rescaled(curve, factors.get(workload, 1.0))
                for workload, curve in regime.survival.items()
            },
        )
        for regime in model.regimes
    )
    return replace(model, name=name or model.name, regimes=regimes)


_HIGHEST: Final = 0.99


def _rescaled(survival: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """Scale conditional acceptance at all positions alike until the sum is ``factor`` times what it was."""
    wanted = factor * sum(survival)
    low, high = 0.0, 8.0
    found = survival
    while factor != 1.0 and high - low > 1e-6:
        middle = (low + high) / 2.0
        found = _conditioned(survival, middle)
        low, high = (middle, high) if sum(found) < wanted else (low, middle)
    return found


def _conditioned(survival: tuple[float, ...], scale: float) -> tuple[float, ...]:
    curve: list[float] = []
    before = product = 1.0
    for value in survival:
        product *= min(_HIGHEST, value / before * scale) if before else 0.0
        before = value
        curve.append(product)
    return tuple(curve)


def tabulated(step: Callable[[float], float], max_sequences: int = MAX_SEQUENCES) -> tuple[float, ...]:
    """Step time by number of sequences; a step with prompts only is as long as one of one sequence."""
    return (step(1), *(step(size) for size in range(1, max_sequences + 1)))
