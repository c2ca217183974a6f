"""The ordered rules by which a request is labelled without a trained model: the first that fits wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core.language import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.features import Features

_GIVEN_CHARS: Final = 120
_GROUNDED_CHARS: Final = 200
_LONG_CHARS: Final = 400
_VERY_LONG_CHARS: Final = 600
"""Supplied text from which an answer counts as taken from it, the less is said about it the more."""

_SHORT_CHARS: Final = 100
_ORDER_CHARS: Final = 300
"""A message that orders a deed is short: one shared word is enough, or none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A named condition and the label it gives.

    Attributes:
        confidence: Share of labelled requests on which the rule was right, of those it decided.
        because: The condition in words, to follow "because".
        evidence: The marks it reads first, to show beside the reason.
        fits: The condition.
    """

    name: str
    label: str
    confidence: float
    because: str
    evidence: tuple[str, ...]
    fits: Callable[[Features], bool]


def _english(f: Features) -> bool:
    return f.output_language in {"en", UNKNOWN}


def _codes(f: Features) -> bool:
    m = f.marks
    return m.fences > 0 or m.code_syntax >= 4 or m.code_in or m.code_request or m.code_task


def _tools_at_hand(f: Features) -> bool:
    """Tools may be called, and neither the moment nor the words of the message speak against it."""
    m = f.marks
    return (
        f.tools > 0
        and f.tool_choice != "none"
        and f.last_role != "tool"
        and not m.plain_order
        and not m.plain_request
        and m.supplied_chars < (_LONG_CHARS if m.text_task else _VERY_LONG_CHARS)
    )


def _forced_tool(f: Features) -> bool:
    return f.tools > 0 and f.tool_choice in {"required", "named"}


def _agent_loop(f: Features) -> bool:
    return f.last_role == "tool" and f.marks.tool_turns > 3


def _tools_as_text(f: Features) -> bool:
    m = f.marks
    return m.tool_text and f.tools == 0 and f.last_role != "tool" and not m.plain_order


def _tool_asked(f: Features) -> bool:
    return f.marks.tool_asked and _tools_at_hand(f)


def _tool_name(f: Features) -> bool:
    m = f.marks
    enough = m.tool_overlap >= 2 or f.last_chars < _SHORT_CHARS
    return m.tool_name_overlap >= 1 and enough and _tools_at_hand(f) and not _codes(f) and not m.math_sure


def _tool_words(f: Features) -> bool:
    m = f.marks
    return m.tool_overlap >= 1 and m.tool_action and _tools_at_hand(f) and not _codes(f) and not m.math_sure


def _tool_answer(f: Features) -> bool:
    m = f.marks
    return m.follows_up and m.asked_back and _tools_at_hand(f) and not m.code_request and not m.math_task


def _code_block(f: Features) -> bool:
    m = f.marks
    if m.fences > 0:
        return not (m.translation and m.text_task)
    return m.code_syntax >= 4 and m.latex < 2 and not m.math_sure


def _prose_given(f: Features) -> bool:
    m = f.marks
    if not _english(f) or m.code_syntax >= 3 or m.code_in or m.latex >= 2:
        return False
    asked = m.question and m.code_words < 3 and m.supplied_chars >= _VERY_LONG_CHARS
    return m.supplied_chars >= _LONG_CHARS and (m.text_task or asked)


def _code_asked(f: Features) -> bool:
    m = f.marks
    if m.creative and m.code_names == 0:
        return False
    named = m.code_request and m.code_words + m.code_names + m.code_syntax >= 1
    return m.code_in or named or (m.code_names >= 1 and not _english(f))


def _translation(f: Features) -> bool:
    return f.marks.translation


def _code_job(f: Features) -> bool:
    m = f.marks
    if m.creative:
        return False
    many = m.code_names >= 2 or m.code_words >= 5
    return (
        m.code_task
        or many
        or (m.code_names >= 1 and m.code_words >= 1)
        or (m.code_syntax >= 1 and m.code_words >= 2)
    )


def _formula(f: Features) -> bool:
    m = f.marks
    return m.latex - 2 * m.latex_text >= 2 and not m.text_task and not m.creative


def _math_named(f: Features) -> bool:
    return f.marks.math_sure and not f.marks.creative


def _math_asked(f: Features) -> bool:
    m = f.marks
    if m.creative or m.supplied_chars >= _VERY_LONG_CHARS:
        return False
    if m.math_other and not _english(f):
        return m.numbers >= 2 or m.math_words >= 1
    if not _english(f) and m.numbers >= 2 and m.math_words >= 1 and m.question:
        return True
    asked = m.math_task or m.math_count
    return (
        (m.numbers >= 2 and (m.math_count or m.math_words >= 3))
        or (asked and m.math_words >= (1 if m.numbers >= 2 else 3))
        or (m.operators >= 1 and m.math_task)
        or (m.operators >= 2 and m.numbers >= 3 and f.last_chars < _LONG_CHARS)
    )


def _code_goes_on(f: Features) -> bool:
    m = f.marks
    return _english(f) and m.code_before and m.follows_up and m.goes_on


def _tool_order(f: Features) -> bool:
    return f.marks.tool_action and f.last_chars < _ORDER_CHARS and _tools_at_hand(f)


def _other_language(f: Features) -> bool:
    return not _english(f)


def _context_given(f: Features) -> bool:
    return f.marks.context and not f.marks.creative


def _given_text(f: Features) -> bool:
    m = f.marks
    return (
        m.text_task
        and m.supplied_chars >= _GIVEN_CHARS
        and f.last_chars >= _GROUNDED_CHARS
        and not m.creative
    )


def _long_text(f: Features) -> bool:
    return f.marks.supplied_chars >= _VERY_LONG_CHARS and not f.marks.creative


def _anything(f: Features) -> bool:
    return f.last_chars > 0


_TOOL: Final = ("tool_overlap", "tool_name_overlap")
_CODE: Final = ("fences", "code_syntax", "code_names", "code_words")
_MATH: Final = ("latex", "numbers", "operators", "math_words")
_TEXT: Final = ("supplied_chars",)

RULES: Final = (
    Rule("forced_tool", "tool_use", 0.98, "the caller requires a tool call", (), _forced_tool),
    Rule("agent_loop", "tool_use", 0.6, "tools were called several times", ("tool_turns",), _agent_loop),
    Rule("tools_as_text", "tool_use", 0.97, "the system prompt says how to call tools", (), _tools_as_text),
    Rule("tool_asked", "tool_use", 0.95, "the message names a tool or an API to use", _TOOL, _tool_asked),
    Rule("tool_name", "tool_use", 0.87, "the message shares words with a tool's name", _TOOL, _tool_name),
    Rule("tool_words", "tool_use", 0.87, "the message orders what a tool describes", _TOOL, _tool_words),
    Rule("tool_answer", "tool_use", 0.85, "the message gives what the assistant asked for", (), _tool_answer),
    Rule("code_block", "code", 0.98, "the message contains code", _CODE, _code_block),
    Rule("prose_given", "grounded", 0.95, "the message gives a long text and a task", _TEXT, _prose_given),
    Rule("code_asked", "code", 0.93, "the message asks for code", _CODE, _code_asked),
    Rule("translation", "multilingual", 0.97, "the message asks for a translation", (), _translation),
    Rule("code_job", "code", 0.9, "the message is about programs or commands", _CODE, _code_job),
    Rule("formula", "math", 0.98, "the message contains formulas", _MATH, _formula),
    Rule("math_named", "math", 0.95, "the message asks for a calculation or a proof", _MATH, _math_named),
    Rule("math_asked", "math", 0.91, "the message gives numbers and asks for one", _MATH, _math_asked),
    Rule("code_goes_on", "code", 0.8, "the message goes on about given code", (), _code_goes_on),
    Rule("tool_order", "tool_use", 0.75, "the message orders a deed and tools are declared", (), _tool_order),
    Rule("other_language", "multilingual", 0.87, "the answer will not be in English", (), _other_language),
    Rule("context_given", "grounded", 0.95, "the system prompt gives documents", (), _context_given),
    Rule("given_text", "grounded", 0.7, "the message gives a text and a task for it", _TEXT, _given_text),
    Rule("long_text", "grounded", 0.7, "the message is mostly a long text", _TEXT, _long_text),
    Rule("otherwise", "chat", 0.77, "nothing in the message speaks for another workload", (), _anything),
)
"""In order. Tools come first because a call may be about anything; code and mathematics come before language
because they are told apart in every language."""
