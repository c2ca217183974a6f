"""Published targets: what to run for each method, on which hardware, and where each value comes from."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import Field

from backends.data_files import Data, read_folder
from backends.methods import Scalar  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Mapping


class Hardware(Data):
    """What the figures were measured on.

    Attributes:
        gpu: Its name in words.
        arch: Its architecture as ROCm or CUDA call it.
    """

    gpu: str
    arch: str


class Variant(Data):
    """How one method is run for the target; what is left out is as for the others.

    Attributes:
        block_size: Of the draft, where it is known without its checkpoint.
    """

    draft: str | None = None
    draft_tokens: int = 0
    block_size: int | None = None
    env: dict[str, str] = Field(default_factory=dict)
    args: dict[str, Scalar] = Field(default_factory=dict)
    speculative: dict[str, Scalar] = Field(default_factory=dict)


class Recipe(Data):
    """One target.

    Attributes:
        source: Where the values come from, as a whole.
        origins: The same for each kind of value, in words.
    """

    name: str
    target: str
    served_model: str
    source: str
    hardware: Hardware
    tensor_parallel: int
    max_model_len: int | None = None
    env: dict[str, str] = Field(default_factory=dict)
    args: dict[str, Scalar] = Field(default_factory=dict)
    methods: dict[str, Variant]
    origins: dict[str, str]


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes by name."""
    return MappingProxyType(dict(read_folder("recipes", Recipe)))
