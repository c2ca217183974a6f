"""The flags of ``vllm serve``: which there are, and by which of their spellings vLLM reads them."""

from __future__ import annotations

import csv
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backends.methods import Scalar

LISTED_OF: Final = "0.32.0"
"""The version of vLLM whose flags ``flags.tsv`` lists."""


class Kind(StrEnum):
    """What follows a flag."""

    VALUE = "value"
    OPTIONAL = "optional"
    """A value or nothing."""
    SWITCH = "switch"
    """Nothing; ``--no-NAME`` turns it off."""
    BARE = "bare"
    """Nothing, and it cannot be turned off."""


@cache
def _rows() -> tuple[tuple[str, str, str], ...]:
    text = files("backends").joinpath("flags.tsv").read_text(encoding="utf-8")
    return tuple((row[0], row[1], row[2]) for row in csv.reader(text.splitlines()[1:], delimiter="\t"))


@cache
def listed() -> Mapping[str, Kind]:
    """Flags of :data:`LISTED_OF` by name, without dashes in front."""
    return MappingProxyType({name: Kind(kind) for name, kind, _ in _rows()})


@cache
def shorts() -> Mapping[str, str]:
    """Names of flags by their short forms, both without dashes in front."""
    return MappingProxyType({short: name for name, _, short in _rows() if short})


def name(written: str) -> str:
    """The name by which vLLM reads a flag, without dashes in front.

    vLLM takes ``_`` for ``-`` up to the first dot, a short form, and the beginning of a name that no other
    flag begins with; what follows a dot is a key of the flag's JSON value, what follows ``=`` its value.
    """
    head, dot, path = written.lstrip("-").partition("=")[0].partition(".")
    head = head.replace("_", "-")
    if head not in listed():
        meant = [one for one in listed() if one.startswith(head)] if head else []
        head = shorts().get(head) or (meant[0] if len(meant) == 1 else head)
    return head + dot + path


def settings(args: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Flags by the names by which vLLM reads them."""
    return {name(written): value for written, value in args.items()}
