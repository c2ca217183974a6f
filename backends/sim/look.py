"""What kind of answer a request asks for, by a simple look: label and language of the text to send back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

ASIDE: Final = "x-sim-workload"
"""Request header (and key of ``metadata``) that settles the kind."""

_SCRIPTS: Final = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("vi", re.compile("[\u1ea0-\u1ef9\u01a1\u01b0\u0111]")),
)
_OTHER: Final = "es"
"""Language answered in where the one asked in has no texts."""
_OTHER_SCRIPT: Final = re.compile("[\u0370-\u05ff\u0900-\u1cff\uac00-\ud7af]")
_NAMES: Final = {
    "german": "de", "deutsch": "de", "french": "fr", "français": "fr", "spanish": "es", "español": "es",
    "vietnamese": "vi", "chinese": "zh", "mandarin": "zh", "japanese": "ja", "arabic": "ar",
}  # fmt: skip
_IN_LANGUAGE: Final = re.compile(rf"\b(?:in|into|to)\s+({'|'.join(_NAMES)})\b", re.IGNORECASE)
_TRANSLATE: Final = re.compile(r"\btranslat(?:e|ion)\b", re.IGNORECASE)
_COMMON: Final = {
    language: frozenset(words.split())
    for language, words in (
        ("de", "der die das und ist nicht ein eine ich wie mit für auf den warum wir kann bitte"),
        ("fr", "le la les des est une pas que pour dans avec je vous qui comment pourquoi sur au"),
        ("es", "el los las es una por para con qué cómo que del un mi se puedo cuál está"),
        ("en", "the a of to and is in for with how what why that my are can please it on be i you"),
    )
}
_CODE: Final = re.compile(
    r"```|\bdef \w+\(|\bclass \w+[:({]|#include|\w\(\)"
    r"|\b(?:python|java|javascript|typescript|rust|golang|kotlin|c\+\+|c#|php|ruby|bash|sql|html|css|regex"
    r"|linux|docker\w*|git|api|json|yaml|traceback|unit tests?|functions? (?:that|which|to)|compile[rs]?"
    r"|algorithm|refactor|stack trace|code|program|script|bug)(?!\w)",
    re.IGNORECASE,
)
_MATH: Final = re.compile(
    r"\\(?:frac|int|sum|sqrt|begin|le|ge|cdot|mathbb)|\$[^$]+\$|\b(?:prove|integral|derivative|equation"
    r"|probability|theorem|polynomial|matrix|modulo|solve for|how (?:many|much)|triangle|percent|compute"
    r"|calculate|integers?|perimeter|velocity)\b|\d\s*[-+*/^=]\s*\d",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)?")
_GROUNDED: Final = re.compile(
    r"\b(?:summari[sz]e|summary|based on the|according to the|(?:following|this) (?:text|passage|article)"
    r"|proofread|rewrite|extract|paraphrase|passage|context:)",
    re.IGNORECASE,
)
_SUPPLIED: Final = 300  # characters: less is a question about a text, not a text to condense
_LONG: Final = 1500  # characters of supplied text that make an English answer a condensation of it


@dataclass(frozen=True, slots=True)
class Kind:
    """What to answer with: one of :data:`gateway.core.features.WORKLOADS`, and a language."""

    workload: str
    language: str = "en"


def look(text: str, aside: str | None = None) -> Kind:
    """Tell the kind of answer from the text of the last user turn.

    Args:
        text: What the user asks.
        aside: A label given beside the request, which wins if it is known.
    """
    language = _language(text)
    if aside in WORKLOADS:
        return (
            Kind(aside, language if language != "en" else _OTHER) if aside == "multilingual" else Kind(aside)
        )
    if language == "en" and len(text) > _SUPPLIED and _GROUNDED.search(text):
        return Kind("grounded")
    if _CODE.search(text):
        return Kind("code")
    if _MATH.search(text) or (len(text) < _LONG and len(_NUMBER.findall(text)) > 2):
        return Kind("math")
    if language != "en":
        return Kind("multilingual", language)
    return Kind("grounded" if len(text) > _LONG or _GROUNDED.search(text) else "chat")


def calls_tool(text: str, tools: Sequence[tuple[str, str]]) -> int | None:
    """Index of the declared tool that a user turn is about, None if it is about none.

    Args:
        text: What the user asks.
        tools: Name and description of each declared tool.
    """
    asked = _stems(text)
    overlaps = [len(asked & _stems(f"{name} {description}".replace("_", " "))) for name, description in tools]
    best = max(overlaps, default=0)
    return overlaps.index(best) if best else None


def _stems(text: str) -> set[str]:
    return {word[:6] for word in re.findall(r"[^\W\d_]{4,}", text.lower())}


def _language(text: str) -> str:
    """Language to answer in: one that has texts."""
    if wanted := _IN_LANGUAGE.search(text):
        return _NAMES[wanted[1].lower()]
    for language, script in _SCRIPTS:
        if len(script.findall(text)) > 2:
            return language
    words = re.findall(r"[^\W\d_]+", text[:4000].lower())
    scores = {language: sum(word in common for word in words) for language, common in _COMMON.items()}
    best = max(scores, key=scores.__getitem__)
    if scores[best] > scores["en"]:
        return best
    foreign = len(words) > 8 and not scores["en"] and not text.isascii()
    return _OTHER if foreign or _TRANSLATE.search(text) or _OTHER_SCRIPT.search(text) else "en"
