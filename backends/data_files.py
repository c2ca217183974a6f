"""Reads the data files that come with the package: a folder of YAML, one checked object a file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Iterator

Model = TypeVar("Model", bound=BaseModel)


class Data(BaseModel):
    """A mapping in a data file: no unknown keys, nothing changes after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_folder(folder: str, model: type[Model]) -> Iterator[tuple[str, Model]]:
    """Objects of a folder of this package by the names of their files, in alphabetical order.

    Raises:
        pydantic.ValidationError: A file is not as the model says.
    """
    entries = (one for one in files("backends").joinpath(folder).iterdir() if one.name.endswith(".yaml"))
    for entry in sorted(entries, key=lambda one: one.name):
        parsed = YAML(typ="safe", pure=True).load(entry.read_text(encoding="utf-8"))
        yield entry.name.removesuffix(".yaml"), model.model_validate(parsed)
