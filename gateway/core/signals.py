"""The facts of a request as a row of numbers between about 0 and 2, for a trained classifier."""

from __future__ import annotations

from bisect import bisect_left
from math import log1p
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.language import UNKNOWN
from gateway.core.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gateway.core.features import Features
    from gateway.core.marks import Marks

_COUNTS: Final = (
    "fences", "code_syntax", "identifiers", "ticks", "code_names", "code_words", "latex", "latex_text",
    "numbers", "operators", "math_words", "tool_overlap", "tool_name_overlap", "tool_turns", "other_code",
    "other_math",
)  # fmt: skip
_FLAGS: Final = (
    "code_request", "code_in", "code_task", "math_count", "math_task", "math_other", "math_sure", "text_task",
    "creative", "translation", "question", "tool_text", "context", "tool_asked", "tool_action", "plain_order",
    "plain_request", "code_before", "asked_back", "follows_up", "goes_on",
)  # fmt: skip
_BESIDE_TOOLS: Final = (
    "tool_action", "plain_order", "plain_request", "code_request", "code_in", "math_task", "math_sure",
    "text_task", "creative", "translation", "question", "asked_back", "follows_up", "supplied_chars",
    "numbers", "fences", "code_syntax", "tool_overlap", "tool_name_overlap", "code_words", "code_names",
    "math_words",
)  # fmt: skip
_IN_OTHER_LANGUAGES: Final = (
    "math_task", "math_count", "math_other", "numbers", "code_words", "code_request", "translation",
    "text_task", "supplied_chars", "code_names", "code_syntax", "fences", "latex", "operators", "math_words",
    "creative", "question", "context",
)  # fmt: skip
_SUPPLIED: Final = (0, 200, 600)
_LENGTHS: Final = (40, 80, 160, 320, 700, 1500, 4000)
_HIGHEST_COUNT: Final = 60
_LINE: Final = 60

_counts = attrgetter(*_COUNTS)
_flags = attrgetter(*_FLAGS)
_beside_tools = attrgetter(*_BESIDE_TOOLS)
_in_other_languages = attrgetter(*_IN_OTHER_LANGUAGES)

_ENGLISH: Final = frozenset({"en", UNKNOWN})


class _Logs(dict[int, float]):
    """By count, what it says; of those beyond the highest all the same."""

    def __missing__(self, _: int) -> float:
        return self[_HIGHEST_COUNT]


_log: Final = _Logs({count: log1p(count) / 2 for count in range(_HIGHEST_COUNT + 1)}).__getitem__


def _passed(borders: Sequence[int]) -> tuple[tuple[bool, ...], ...]:
    """Which of some borders, that ascend, are passed: by how many are."""
    return tuple(
        tuple(number < passed for number in range(len(borders))) for passed in range(len(borders) + 1)
    )


_SUPPLIED_PASSED: Final = _passed(_SUPPLIED)
_LENGTHS_PASSED: Final = _passed(_LENGTHS)

LANGUAGE: Final = (
    "answer not in English", "answer in an unknown language", "message not in English",
    "message in an unknown language", "answer in another language than the message",
)  # fmt: skip
"""The signals that speak of language alone; they come first."""

_REQUEST: Final = (
    "tools", "one tool", "more than 3 tools", "tool call required", "tools forbidden", "JSON asked for",
    "ends with a tool's result", "ends with an answer", "system prompt", "system prompt over 300 characters",
    "system prompt over 1200 characters", "earlier turns", "more than 4 turns",
)  # fmt: skip

_WITH_TOOLS: Final = (
    "over 1 shared word", "over 3 shared words", "first message", "over 600 characters",
    "under 100 characters", "not in English",
)  # fmt: skip

_LOOP: Final = (
    "over 1 result", "over 2 results", "over 4 results", "result says failed", "result says done",
    "long result", "several steps asked for", "change asked for", "change asked for, not done",
    "several steps, one result", "change asked for, one result, not done", "question",
    "question, no change asked for", "more tools named than results",
)  # fmt: skip

NAMES: Final = (
    *LANGUAGE,
    *_REQUEST,
    *(name.replace("_", " ") for name in _FLAGS),
    *(f"number of {name.replace('_', ' ')}" for name in _COUNTS),
    *(f"any {name.replace('_', ' ')}" for name in _COUNTS),
    *(f"over {chars} characters of supplied text" for chars in _SUPPLIED),
    "length of supplied text",
    *(f"message over {chars} characters" for chars in _LENGTHS),
    "share of words that tools have too",
    *(f"tools and {name.replace('_', ' ')}" for name in _BESIDE_TOOLS),
    *(f"tools and {name}" for name in _WITH_TOOLS),
    *(f"another language and {name.replace('_', ' ')}" for name in _IN_OTHER_LANGUAGES),
    "short message after code",
    *(f"in a loop: {name}" for name in _LOOP),
    *(f"rule {rule.name}" for rule in RULES),
)
"""What each number says, in order."""

_ROW: Final = Struct(f"{len(NAMES)}f")
_NO_TOOLS: Final = (0.0,) * (len(_BESIDE_TOOLS) + len(_WITH_TOOLS))
_NO_LOOP: Final = (0.0,) * len(_LOOP)
_NO_OTHER_LANGUAGE: Final = (0.0,) * len(_IN_OTHER_LANGUAGES)
_BY_RULE: Final = tuple(
    tuple(number == rule for number in range(len(RULES))) for rule in range(len(RULES) + 1)
)

_CONDITIONS: Final = tuple((number, rule.fits) for number, rule in enumerate(RULES))


def first_rule(features: Features) -> int:
    """Number of the first rule that fits, or how many there are where none does."""
    for number, fits in _CONDITIONS:  # next() takes nearly twice as long
        if fits(features):
            return number
    return len(RULES)


def _values(features: Features, rule: int) -> list[float]:
    f, m = features, features.marks
    foreign = f.output_language not in _ENGLISH
    offered = f.tools > 0 and f.tool_choice != "none"
    turns = f.turns - (f.system_chars > 0)
    counts = _counts(m)
    values = [
        foreign,
        f.output_language == UNKNOWN,
        f.language not in _ENGLISH,
        f.language == UNKNOWN,
        f.output_language != f.language,
        offered,
        f.tools == 1,
        f.tools > 3,
        f.tools > 0 and f.tool_choice in {"required", "named"},
        f.tool_choice == "none",
        f.response_format != "text",
        f.last_role == "tool",
        f.last_role == "assistant",
        f.system_chars > 0,
        f.system_chars > 300,
        f.system_chars > 1200,
        turns > 1,
        turns > 4,
        *_flags(m),
        *map(_log, counts),
        *map(bool, counts),
        *_SUPPLIED_PASSED[bisect_left(_SUPPLIED, m.supplied_chars)],
        min(log1p(m.supplied_chars) / 7, 2.0),
        *_LENGTHS_PASSED[bisect_left(_LENGTHS, f.last_chars)],
        m.tool_overlap / (1 + f.last_chars / _LINE),
    ]
    if offered:
        values += map(bool, _beside_tools(m))
        values += (
            m.tool_overlap > 1,
            m.tool_overlap > 3,
            turns == 1,
            f.last_chars > 600,
            f.last_chars < 100,
            foreign,
        )
    else:
        values += _NO_TOOLS
    values += map(bool, _in_other_languages(m)) if foreign else _NO_OTHER_LANGUAGE
    values.append(m.code_before and m.follows_up)
    values += _loop(m) if m.loop.results else _NO_LOOP
    values += _BY_RULE[rule]
    return values


def _loop(m: Marks) -> tuple[float, ...]:
    loop = m.loop
    undone = loop.change and not loop.done
    return (
        loop.results > 1,
        loop.results > 2,
        loop.results > 4,
        loop.failed,
        loop.done,
        loop.long,
        loop.steps,
        loop.change,
        undone,
        loop.steps and loop.results == 1,
        undone and loop.results == 1,
        m.question,
        m.question and not loop.change,
        m.tool_name_overlap > loop.results,
    )


def read(features: Features, rule: int) -> NDArray[np.float32]:
    """Reads the signals of a request.

    Args:
        features: The facts of the request.
        rule: What :func:`first_rule` says of it.

    Returns:
        One number for each of :data:`NAMES`.
    """
    return np.frombuffer(_ROW.pack(*_values(features, rule)), np.float32)
