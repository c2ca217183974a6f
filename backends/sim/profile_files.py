"""Shape of the profile files: what is read from JSON, checked, and nothing else."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Sourced(_File):
    """A number and where it comes from."""

    value: float
    origin: str


class Concurrency(_File):
    """Concurrency of the calibration point, by target where it differs."""

    value: int
    exceptions: dict[str, int]
    origin: str


class MeanLengths(_File):
    """Mean lengths of one workload, tokens."""

    output: float
    prompt: float


class LengthTable(_File):
    """Lengths of requests by workload."""

    variation: float
    workloads: dict[str, MeanLengths]
    origin: str


class Lookup(_File):
    """Methods that draft by looking text up, for which nothing was measured."""

    methods: tuple[str, ...]
    draft_tokens: int
    mean_accepted_length: dict[str, float]
    origin: str


class Assumptions(_File):
    """``assumptions.json``."""

    request_spread: Sourced
    draft_floor: Sourced
    prefill_price: Sourced
    prefill_surcharge: Sourced
    kv_tokens: Sourced
    concurrency: Concurrency
    lengths: LengthTable
    lookup: Lookup


class Family(_File):
    """How acceptance on math and code carries over to the other workloads, for some methods.

    Attributes:
        factors: By workload, the factor on conditional acceptance at each position.
        origins: By workload.
    """

    methods: tuple[str, ...]
    factors: dict[str, tuple[float, ...]]
    origins: dict[str, str]


class Transfer(_File):
    """``transfer.json``."""

    families: tuple[Family, ...]
    lookup: dict[str, tuple[float, ...]]


class CurveParameters(_File):
    """Parameters of :class:`backends.sim.configuration.Curve`."""

    seconds: float
    concurrency: int
    growth: float
    linear_share: float


class PublishedCell(_File):
    """One row of the article and its residual."""

    tokens_per_second: float
    speedup: float
    mean_accepted_length: float
    step_scale: float
    accepted_by_position: tuple[float, ...]


class Entry(_File):
    """One method and N of a target."""

    method: str
    draft_tokens: int
    draft: str | None
    verify_scale: float
    draft_cost: float
    cells: dict[str, PublishedCell]


class Profile(_File):
    """One file a target."""

    target: str
    hardware: str
    origins: dict[str, str]
    curve: CurveParameters
    configurations: tuple[Entry, ...]
