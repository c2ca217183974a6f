"""What was run on real engines, as backends/evidence keeps it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TypeVar

from pydantic import Field

from backends.data_files import Data

Model = TypeVar("Model", bound=Data)


class GpuRun(Data):
    """What one method did on the GPU."""

    draft_tokens: int
    requests: int
    steps: int
    drafted: int
    accepted: int
    equal: bool


class Evidence(Data):
    """What was run on one kind of engine.

    Attributes:
        methods: Methods whose counts in the gateway equalled those of the server, by position.
        parameters: What became of each request parameter, by method.
        runs: Counts, where they are worth keeping.
        failures: Methods that did not start or serve, and why.
        note: What is different there, in a sentence.
    """

    engine: str
    command: str
    date: str = ""
    methods: tuple[str, ...]
    parameters: dict[str, dict[str, str]] = Field(default_factory=dict)
    runs: dict[str, GpuRun] = Field(default_factory=dict)
    failures: dict[str, str] = Field(default_factory=dict)
    note: str = ""


class RealText(Data):
    """Acceptance of prompt lookup on real text.

    Attributes:
        prompts: Of each workload.
        tokens: Of each answer at most.
        differing: Answers that were not those of the server without speculation.
        note: What else was seen.
        mean_accepted_length: Tokens of a step that had a draft, by method and workload.
        tokens_per_step: The same over all steps, those without a proposal included.
    """

    model: str
    prompts: int
    tokens: int
    differing: int
    answers: int
    mean_accepted_length: dict[str, dict[str, float]]
    tokens_per_step: dict[str, dict[str, float]]
    note: str


def _read(name: str, model: type[Model]) -> Model | None:
    entry = files("backends").joinpath("evidence", name)
    return model.model_validate(json.loads(entry.read_bytes())) if entry.is_file() else None


def evidence() -> list[Evidence]:
    """What was run on each kind of engine."""
    found = (_read(name, Evidence) for name in ("cpu.json", "gpu.json"))
    return [one for one in found if one is not None]


def real_text() -> RealText | None:
    """What was measured on real text, if it was."""
    return _read("real-text.json", RealText)
