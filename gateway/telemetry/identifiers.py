"""Which words that others made up may be recorded: those that look like an identifier, and like no key."""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = re.compile(r"[0-9A-Fa-f-]{1,128}")
"""What most ids are made of, and no key of those below."""

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_MODEL: Final = re.compile(r"[A-Za-z0-9._:/@+-]{1,256}")
_BETWEEN: Final = re.compile(r"[._:/@+-]")

_ISSUERS: Final = frozenset({
    "sk", "pk", "rk", "gsk", "hf", "ghp", "gho", "ghu", "ghs", "ghr", "pat", "glpat",
    "xoxa", "xoxb", "xoxe", "xoxp", "xoxr", "xoxs",
    "key", "apikey", "token", "bearer", "basic", "secret", "password", "passwd",
})  # fmt: skip
"""First words of keys, and what keys are called."""

_STARTS: Final = ("eyj", "akia", "asia", "aiza")
"""How JSON Web Tokens and the keys of two clouds begin."""

_LEAST: Final = 9
"""Characters of the shortest of these."""


def is_id(text: str) -> bool:
    """Whether it may stand as the id of a request or an answer."""
    return bool(_HEX.fullmatch(text)) or (bool(_ID.fullmatch(text)) and not _is_key(text))


def is_model(text: str) -> bool:
    """Whether it may stand as the name of a model."""
    return bool(_MODEL.fullmatch(text)) and not _is_key(text)


def _is_key(text: str) -> bool:
    lower = text.lower()
    words = _BETWEEN.split(lower)
    if not _ISSUERS.isdisjoint(words[:-1]):
        return True
    found = [start for start in _STARTS if start in lower]
    return any(word.startswith(start) and len(word) >= _LEAST for start in found for word in words)
