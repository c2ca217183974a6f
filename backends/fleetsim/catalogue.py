"""Engines by name: the calibrated targets, DeepSeek-V4-Pro as fitted, and the same as measured."""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from backends.fleetsim import model as models
from backends.sim import profiles
from backends.sim.configuration import Configuration, Curve
from backends.sim.profile_files import CurveParameters

if TYPE_CHECKING:
    from backends.fleetsim.model import Model

DEEPSEEK: Final = "deepseek-ai/DeepSeek-V4-Pro-0813"


class Grid(BaseModel):
    """``deepseek_v4.json``: tokens/s by draft length and concurrency, and what was fitted to them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str
    hardware: str
    origins: dict[str, str]
    curve: CurveParameters
    draft_cost: dict[int, float]
    survival: dict[str, tuple[float, ...]]
    mixed_survival: tuple[float, ...]
    tokens_per_second: dict[int, dict[int, float]]


@lru_cache(maxsize=1)
def grid() -> Grid:
    """The published measurements of DeepSeek-V4-Pro with DSpark."""
    return Grid.model_validate_json((files("backends.fleetsim") / "deepseek_v4.json").read_bytes())


def targets() -> tuple[str, ...]:
    """Hugging Face ids of the target models that can be simulated."""
    return (*profiles.targets(), DEEPSEEK)


def configurations(target: str) -> tuple[Configuration, ...]:
    """All configurations of a target, the baseline first.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: There is no such target.
    """
    return _deepseek() if target == DEEPSEEK else profiles.configurations(target)


def engine(target: str, method: str, draft_tokens: int, *, name: str = "") -> Model:
    """The engine of a target with a method and N.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: The target, or this method and N, is not known.
    """
    if target != DEEPSEEK:
        return models.of(profiles.configuration(target, method, draft_tokens), name=name)
    for one in _deepseek():
        if (one.method, one.draft_tokens) == (method, draft_tokens):
            return models.of(one, name=name)
    listed = ", ".join(f"{one.method} {one.draft_tokens}" for one in _deepseek())
    raise profiles.UnknownConfigurationError(
        f"nothing was measured for {target} with method {method!r} and N = {draft_tokens}; there is {listed}"
    )


def as_measured(draft_tokens: int, *, name: str = "") -> Model:
    """DeepSeek-V4-Pro by the measured table: between two cells the step grows as they say, not as a fit does.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: This N was not measured.
    """
    found = engine(DEEPSEEK, "dspark" if draft_tokens else "none", draft_tokens, name=name)
    length = 1.0 + sum(grid().mixed_survival[:draft_tokens])
    cells = sorted(grid().tokens_per_second[draft_tokens].items())
    points = [(clients, length * clients / rate) for clients, rate in cells]

    def step(sequences: float) -> float:
        above = next((at for at, (size, _) in enumerate(points) if size >= sequences), len(points) - 1)
        (low, short), (high, long) = points[max(0, above - 1)], points[max(1, above)]
        part = math.log(sequences / low) / math.log(high / low)
        return short * math.exp(part * math.log(long / short))

    return models.padded(found, lambda sequences, _: step(max(1.0, sequences)))


@lru_cache(maxsize=1)
def _deepseek() -> tuple[Configuration, ...]:
    found = grid()
    assumed = profiles.assumptions()
    curve = Curve(**found.curve.model_dump())
    price = curve.marginal * assumed.prefill_price.value
    made = []
    for drafts, cost in {0: 0.0, **found.draft_cost}.items():
        surcharge = assumed.prefill_surcharge.value if drafts else 0.0
        made.append(
            Configuration(
                target=found.target,
                method="dspark" if drafts else "none",
                draft_tokens=drafts,
                draft=None,
                hardware=found.hardware,
                curve=curve,
                verify_scale=1.0,
                draft_cost=cost,
                draft_floor=assumed.draft_floor.value,
                prefill_seconds=price * (1.0 + surcharge),
                request_spread=assumed.request_spread.value,
                kv_tokens=int(assumed.kv_tokens.value),
                survival={workload: values[:drafts] for workload, values in found.survival.items()},
                origins=found.origins,
            )
        )
    return tuple(made)
