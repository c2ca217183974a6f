"""The file of what was learnt: written by a gateway, read by people, and by gateways that begin with it."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gateway.core.curve import MOST, crowding
from gateway.core.predict import PROMPT_BINS, SAMPLED, STRATA, Cell, ServerModel, prompt_bin
from gateway.policy.source import yaml_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHER: Final = "other"
"""Stands for workloads that are not named."""

_BATCHES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Batches whose step times are written at least; between those that are they are drawn straight."""

_SAME: Final = 0.01
"""Relative difference from the usual cell of a workload below which a cell is not written."""

_HEAD: Final = """\
# What a gateway has learnt of its servers. `learning: {{file: {name}}}` in a policy begins with it, and with
# `mode: frozen` goes by it alone. Keys of steps_per_token are workloads, or WORKLOAD/FROM/SAMPLING, where
# FROM is the prompt length in tokens from which it holds.
"""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Rate = Annotated[float, Field(gt=0, le=1)]


class UnusableLearnedError(ValueError):
    """A text is no such file; the message says what is wrong with it."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSection(_Part):
    """One server, see :class:`gateway.core.predict.ServerModel`."""

    fingerprint: str
    steps_per_token: dict[str, _Rate]
    step_seconds: dict[int, _Positive] = Field(min_length=1)
    prefill_seconds: _NotNegative
    start_steps: _Positive = 1.5
    stretch: _Positive = 1.0
    output_tokens: dict[str, _Positive] = Field(default_factory=dict)
    prompt_tokens: dict[str, _Positive] = Field(default_factory=dict)
    mean_steps: _Positive = 150.0
    chars_per_token: _Positive = 4.0
    max_running: Annotated[int, Field(ge=1)] = 256
    requests: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    spread: dict[str, _NotNegative] = Field(default_factory=dict)
    request_spread: _NotNegative = 0.0
    measured: _NotNegative = 0.0


class LearnedFile(_Part):
    """What was learnt of every server."""

    version: Literal[1]
    servers: dict[str, ServerSection]


def parse(text: str) -> Mapping[str, ServerModel]:
    """What the file knows, by backend.

    Raises:
        UnusableLearnedError: It is not such a file.
    """
    try:
        data = yaml_parser().load(text)
        file = LearnedFile.model_validate(data)
    except YAMLError as error:
        raise UnusableLearnedError(f"it is no YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UnusableLearnedError(f"{place}: {first['msg']}") from error
    return {name: _model(name, section) for name, section in file.servers.items()}


def _model(name: str, section: ServerSection) -> ServerModel:
    cells = {}
    for key, value in section.steps_per_token.items():
        workload, *rest = key.split("/")
        if workload == OTHER:
            continue
        if len(rest) not in {0, 2} or (rest and (not rest[0].isdecimal() or rest[1] not in STRATA)):
            raise UnusableLearnedError(
                f"servers.{name}.steps_per_token: {key!r} is no WORKLOAD/FROM/SAMPLING"
            )
        cells[Cell(workload, prompt_bin(int(rest[0])) if rest else 0, rest[1] if rest else SAMPLED)] = value
    # What is not written is like the workload's usual cell.
    for usual in [cell for cell in cells if _is_usual(cell)]:
        for bin_ in range(len(PROMPT_BINS) + 1):
            for how in STRATA:
                cells.setdefault(Cell(usual.workload, bin_, how), cells[usual])
    batches = sorted(section.step_seconds)
    table = np.interp(np.arange(MOST + 1), batches, [section.step_seconds[batch] for batch in batches])
    steps = tuple(table.tolist())
    lengths, spread = dict(section.output_tokens), dict(section.spread)
    return ServerModel(
        fingerprint=section.fingerprint,
        steps_per_token=cells,
        other_steps_per_token=section.steps_per_token.get(OTHER, 1.0),
        step_seconds=steps,
        crowding=crowding(steps),
        prefill_seconds=section.prefill_seconds,
        start_steps=section.start_steps,
        stretch=section.stretch,
        other_output_tokens=lengths.pop(OTHER, 300.0),
        output_tokens=lengths,
        prompt_tokens=section.prompt_tokens,
        mean_steps=section.mean_steps,
        max_running=section.max_running,
        chars_per_token=section.chars_per_token,
        evidence=section.requests,
        other_spread=spread.pop(OTHER, 0.0),
        spread=spread,
        request_spread=section.request_spread,
        measured=section.measured,
    )


def dump(models: Mapping[str, ServerModel], name: str = "learned.yaml") -> str:
    """The file for what is known.

    Args:
        models: By backend.
        name: What the file will be called.
    """
    servers = {backend: _written(model) for backend, model in sorted(models.items())}
    yaml = YAML()
    yaml.default_flow_style = None
    yaml.width = 110
    text = StringIO()
    yaml.dump({"version": 1, "servers": servers}, text)
    return _HEAD.format(name=name) + text.getvalue()


def _written(model: ServerModel) -> dict[str, Any]:
    rates: dict[str, float] = {}
    usual = {cell.workload: value for cell, value in model.steps_per_token.items() if _is_usual(cell)}
    for cell, value in sorted(model.steps_per_token.items()):
        if _is_usual(cell):
            rates[cell.workload] = _round(value)
        elif abs(value / usual.get(cell.workload, value) - 1.0) > _SAME:
            edge = PROMPT_BINS[cell.bin - 1] if cell.bin else 0
            rates[f"{cell.workload}/{edge}/{cell.stratum}"] = _round(value)
    written: dict[str, Any] = {
        "fingerprint": model.fingerprint,
        "steps_per_token": {**rates, OTHER: _round(model.other_steps_per_token)},
        "step_seconds": _steps(model),
        "prefill_seconds": _round(model.prefill_seconds),
        "start_steps": _round(model.start_steps),
        "stretch": _round(model.stretch),
        "output_tokens": {
            **{workload: _round(tokens) for workload, tokens in sorted(model.output_tokens.items())},
            OTHER: _round(model.other_output_tokens),
        },
        "prompt_tokens": {
            workload: _round(one) for workload, one in sorted(model.prompt_tokens.items()) if one
        },
        "mean_steps": _round(model.mean_steps),
        "chars_per_token": _round(model.chars_per_token),
        "max_running": model.max_running,
        "requests": {workload: _round(one) for workload, one in sorted(model.evidence.items())},
        "spread": {
            **{workload: _round(one) for workload, one in sorted(model.spread.items())},
            OTHER: _round(model.other_spread),
        },
        "request_spread": _round(model.request_spread),
        "measured": _round(model.measured),
    }
    return written


def _steps(model: ServerModel) -> dict[int, float]:
    """Step times by batch: as many as it takes for none between them to be off, so that a cliff stays one."""
    every = np.arange(1, MOST + 1)
    seconds = np.array([model.step(float(batch)) for batch in every])
    kept = list(_BATCHES)
    while True:
        off = np.abs(np.interp(every, kept, seconds[np.array(kept) - 1]) / seconds - 1.0)
        worst = int(off.argmax())
        if off[worst] <= _SAME:
            return {batch: _round(float(seconds[batch - 1])) for batch in kept}
        kept = sorted({*kept, int(every[worst])})


def _is_usual(cell: Cell) -> bool:
    return cell.bin == 0 and cell.stratum == SAMPLED


def _round(value: float) -> float:
    return float(f"{value:.4g}")
