"""Where the sample fleets and policies lie: in the wheel, or beside the packages in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def sample(name: str) -> Path:
    """Path of a sample file, such as ``fleet.yaml``."""
    installed = _PACKAGE / "samples" / name
    return installed if installed.exists() else _PACKAGE.parent / "policies" / name
