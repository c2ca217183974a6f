"""How variables are told of that should hold a key: a file may have the key in place of the name."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""Names of environment variables that every shell takes."""

_USUAL: Final = re.compile(r"[A-Z][A-Z0-9]{0,15}(?:_[A-Z0-9]{1,15})*", re.ASCII)
"""Names as people choose them, which no key is like."""


def named(variable: str) -> str:
    """An environment variable, with its name where that cannot be the key itself."""
    return f"variable {variable if _USUAL.fullmatch(variable) else 'that it names'}"
