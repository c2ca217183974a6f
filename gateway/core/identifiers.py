"""Which words that others made up may be told: those that look like an identifier, and like no key."""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = re.compile(r"[0-9A-Fa-f-]{1,128}")
"""What most ids are made of, and no key of those below."""

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_MODEL: Final = re.compile(r"[A-Za-z0-9._:/@+-]{1,256}")
_ISSUERS: Final = (
    "sk", "pk", "rk", "gsk", "hf", "ghp", "gho", "ghu", "ghs", "ghr", "pat", "glpat",
    "xoxa", "xoxb", "xoxe", "xoxp", "xoxr", "xoxs",
    "key", "apikey", "token", "bearer", "basic", "secret", "password", "passwd",
)  # fmt: skip
"""First words of keys, and what keys are called."""

_LIKELY_ISSUERS: Final = (
    "nvapi", "xai", "pplx", "r8", "npm", "ya29", "sg", "sess", "hvs", "hvb", "hvr", "dop", "doo", "shpat",
    "shpca", "shppa", "shpss", "whsec", "figd", "tvly", "csk", "pcsk", "fw", "lsv2", "jina", "glsa", "tskey",
    "sntrys", "sntryu", "sbp", "tgp", "rpa",
)  # fmt: skip
"""First words of keys that ids and models have, too, but not before so long a rest."""

_STARTS: Final = ("eyj", "akia", "asia", "aiza", "dapi")
"""How JSON Web Tokens and the keys of some clouds begin."""

_KEY: Final = re.compile(
    r"(?<![^._:/@+-])"  # a word begins
    rf"(?:(?:{'|'.join(_ISSUERS)})[._:/@+-]"
    rf"|(?:{'|'.join(_LIKELY_ISSUERS)})[._-][\w-]{{12}}"
    rf"|(?:{'|'.join(_STARTS)})[^._:/@+-]{{5}})",
    re.IGNORECASE,
)
_RANDOM: Final = re.compile(
    "(?<![A-Za-z0-9])(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{38}"
)
"""What is drawn from capitals, small letters and digits: of ids up to 27 are, of nameless keys 40."""

_NO_SPACE: Final = re.compile(r"[^\s'\"`]+")
_BETWEEN: Final = re.compile(r"[^\w./:@+-]+|[.:]+$")
_SPOKEN_OF: Final = re.compile(
    r"(?:hf|(?:[a-z]+[_-])?(?:key|token))(?:[_-][a-z]{1,12}){1,2}|HF_TOKEN|(?:[A-Z0-9]+_)*(?:KEY|TOKEN)_[A-Z]{1,12}"
)
"""Names of settings and variables that are called after keys."""


def is_id(text: str) -> bool:
    """Whether it may stand as the id of a request or an answer."""
    return bool(_HEX.fullmatch(text)) or (bool(_ID.fullmatch(text)) and not _is_key(text))


def is_model(text: str) -> bool:
    """Whether it may stand as the name of a model."""
    return bool(_MODEL.fullmatch(text)) and not _is_key(text)


def without_keys(text: str) -> str:
    """A text with an ellipsis for each word that has what looks like a key in it."""
    return _NO_SPACE.sub(_told, text)


def _told(word: re.Match[str]) -> str:
    parts = _BETWEEN.split(word[0])
    return "…" if any(_is_key(part) and not _SPOKEN_OF.fullmatch(part) for part in parts) else word[0]


def _is_key(text: str) -> bool:
    return bool(_KEY.search(text) or _RANDOM.search(text))
