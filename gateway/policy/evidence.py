"""Files of measurements that a policy rests on: what was measured, on what, and what came out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

BASELINE = "none"


class UnusableEvidenceError(ValueError):
    """A text is no evidence; the message says what is wrong with it."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Range(_Data):
    """An estimate with the bounds of its 95 % interval; bounds are missing where too little was measured."""

    value: float
    low: float | None = None
    high: float | None = None


class Machine(_Data):
    """What the servers ran on.

    Attributes:
        hardware: The accelerator as its vendor's tool calls it, or the processor; empty if unknown.
        accelerators: How many of them the machine has; 0 for a processor alone.
        platform: ``rocm``, ``cuda`` or ``cpu``; empty if unknown.
        platform_version: Of ROCm or CUDA.
        driver: Version of the driver.
        vllm: Version of the engine.
        simulated: Whether nothing of this ran at all: the figures are a simulator's.
    """

    hardware: str = ""
    accelerators: int = 0
    platform: str = ""
    platform_version: str = ""
    driver: str = ""
    vllm: str = ""
    simulated: bool = False


class Measurement(_Data):
    """One configuration under one condition.

    Attributes:
        workload: Whose prompts; empty where that is not known.
        concurrency: Requests open at a time.
        prompt: ``short``, or the length that prompts were filled up to.
        requests: Requests that went well.
        tokens_per_second: Output of all clients together.
        speedup: Over the baseline; None where there is none.
        ttft_p50: Seconds to the first token; likewise ``ttft_p99``.
        tpot: Seconds an output token of one stream after the first.
        output_tokens: Mean length of answers.
        prompt_tokens: Mean length of prompts.
        by_position: Share of steps accepted up to each position.
        steps: Verification steps that acceptance is of.
        cost: Time of a step over that of a baseline step.
        memory: MiB in use on the machine's GPUs.
        compared: Greedy answers that could be compared with the baseline's.
        different: Those that differ.
    """

    method: str
    draft_tokens: int = 0
    workload: str
    concurrency: int
    prompt: str = "short"
    sampling: str = "greedy"
    requests: int
    failures: int = 0
    tokens_per_second: Range
    speedup: Range | None = None
    ttft_p50: float | None = None
    ttft_p99: float | None = None
    tpot: Range | None = None
    output_tokens: float | None = None
    prompt_tokens: float | None = None
    mean_accepted_length: float | None = None
    acceptance_rate: float | None = None
    by_position: tuple[float, ...] = ()
    steps: float = 0
    cost: float | None = None
    memory: float | None = None
    compared: int = 0
    different: int = 0
    surely_different: float = 0.0

    @property
    def label(self) -> str:
        """The configuration's name, such as ``dflash-7``."""
        return f"{self.method}-{self.draft_tokens}" if self.draft_tokens else self.method

    @property
    def is_baseline(self) -> bool:
        """Whether it decodes without speculation."""
        return self.method == BASELINE


class Effort(_Data):
    """What measuring took.

    Attributes:
        grid_rounds: Rounds that measuring everything with the same precision would have taken.
        seconds: From the first round to the last, of all runs.
    """

    requests: int = 0
    rounds: int = 0
    grid_rounds: float = 0.0
    seconds: float = 0.0


class Evidence(_Data):
    """One file.

    Attributes:
        source: What measured it.
        measured: Day of the measurement, such as 2026-11-30.
        precision: Relative half-width of intervals below which differences do not count.
        failures: What could not be measured, and why.
    """

    version: Literal[1]
    source: str
    target: str
    measured: str
    machine: Machine = Field(default_factory=Machine)
    precision: float = 0.03
    effort: Effort = Field(default_factory=Effort)
    failures: dict[str, str] = Field(default_factory=dict)
    measurements: tuple[Measurement, ...]

    def to_json(self) -> str:
        """The text of the file; what is as usual is left out."""
        return self.model_dump_json(indent=1, exclude_defaults=True) + "\n"


def parse(text: str) -> Evidence:
    """Read the text of a file.

    Raises:
        UnusableEvidenceError: It is no evidence.
    """
    try:
        return Evidence.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        where = f"{place}: " if place else ""
        raise UnusableEvidenceError(f"{where}{first['msg']}") from None
