"""Compares versions of vLLM as they are printed: 0.29.0, 0.23.1rc1.dev1120+g0f0f28b53, v0.32.0."""

from __future__ import annotations

import re
from typing import Final

_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def release(version: str) -> tuple[int, int, int] | None:
    """Major, minor and patch; None where the text does not begin with a version."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def at_least(version: str, wanted: str) -> bool:
    """Whether a version has what came with another. One that cannot be read counts as new."""
    have, need = release(version), release(wanted)
    return have is None or need is None or have >= need
