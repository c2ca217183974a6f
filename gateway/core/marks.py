"""What the text of a request looks like: counts and flags read with the lexicon, in a bounded time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.core import foreign, lexicon, lexicon_keys, lexicon_tools, signs
from gateway.core.language import ENGLISH
from gateway.core.loops import NOTHING, Loop
from gateway.core.memo import remembered
from gateway.core.reading import HEAD_CHARS, TAIL_CHARS, ends
from gateway.core.signs import any_of
from gateway.core.values import value
from gateway.core.words import letters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.features import Tool, Turn
    from gateway.core.reading import Reading

_STEM_CHARS: Final = 4
_TOOL_CHARS: Final = 4000
_OFFERS: Final = 64
_ANSWER_CHARS: Final = 200
_FOLLOW_UP_CHARS: Final = 120
_CONTEXT_CHARS: Final = 300
_SUPPLIED_LINE: Final = 120
_OTHER_QUOTES: Final = "\u201c\u201d\u00ab\u00bb\u300c\u300d"
# A look for the signs without which an expression cannot match costs a tenth of the expression.
_OPERATOR_SIGNS: Final = "=<>\u2264\u2265^+*/\u00d7\u00f7%"
_QUESTION_MARKS: Final = "?\uff1f\u061f"
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_COMMON_WORDS: Final = """
get the and for you are can our not any all how who why
about after which where there their these those would could should please tell give with from that
this have what when your into them then than they some such also does want need help know make like
using used user name names list input output query value values string number data information based
type given other each retrieve provide returns return specific request response following
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())
_NO_KEYS: Final = 0
_SIGNED: Final = tuple(name for name in lexicon.CODE_NAMES if not name.isalpha())
_LISTED: Final = (
    lexicon_keys.KEYS | lexicon.CODE_NAMES | lexicon.CODE_WORDS | lexicon.MATH_WORDS | lexicon.NUMBER_WORDS
)
"""Few words of a text are any of these, so that all that is looked up is looked up in those few."""


@value(frozen=True, slots=True)
class Marks:
    """What the text of a request looks like, as counts, shares between 0 and 1, and flags.

    Of the last user message, unless said otherwise.

    Attributes:
        fences: Code fences, pairs counted once.
        code_syntax: Spots that only code or markup has: calls, braces at line ends, statements, tags.
        identifiers: Spots of names as programs have them: camel case, snake case.
        ticks: Pieces between single backticks.
        code_names: Distinct names of programming languages, formats and systems.
        code_words: Distinct words of programming.
        other_code: Of those in other languages than English, the ones that mean nothing else.
        code_request: Asks for something that is code, or in a programming language.
        code_task: Speaks of a job that is done with code or a command line.
        latex: Formulas and LaTeX commands.
        latex_text: LaTeX commands of documents rather than formulas.
        numbers: Numbers in digits, and distinct ones in words.
        operators: Arithmetic and relations between terms.
        math_words: Distinct words of mathematics and measures.
        other_math: Of them, those in other languages than English.
        math_task: Asks for a value, a solution or a proof.
        math_sure: Asks for it in words that only mathematics uses.
        text_task: Asks to condense, reword or search a text.
        creative: Asks for a story, a poem or a part to be played.
        translation: Asks for a translation.
        supplied_chars: Characters of text that was given to work on, apart from the request itself;
            in a system prompt too.
        question: Ends with a question mark.
        tool_overlap: Distinct words that the message and the tools' names and descriptions share.
        tool_name_overlap: The same with the names alone.
        tool_text: The system prompt writes tools out as text.
        context: The system prompt supplies documents to answer from.
        tool_action: Orders a deed.
        plain_order: Says that none of the tools that are there is to be used, or only thanks.
        plain_request: Begins with a request for text.
        loop: Where a loop of calls and results stands.
        code_before: The last answer held code.
        follows_up: A short message after an answer.
    """

    fences: int = 0
    code_syntax: int = 0
    identifiers: int = 0
    ticks: int = 0
    code_names: int = 0
    code_words: int = 0
    other_code: int = 0
    code_request: bool = False
    code_in: bool = False
    code_task: bool = False
    latex: int = 0
    latex_text: int = 0
    numbers: int = 0
    operators: int = 0
    math_words: int = 0
    other_math: int = 0
    math_count: bool = False
    math_task: bool = False
    math_other: bool = False
    math_sure: bool = False
    text_task: bool = False
    creative: bool = False
    translation: bool = False
    supplied_chars: int = 0
    question: bool = False
    tool_overlap: int = 0
    tool_name_overlap: int = 0
    tool_text: bool = False
    context: bool = False
    tool_asked: bool = False
    tool_action: bool = False
    plain_order: bool = False
    plain_request: bool = False
    loop: Loop = NOTHING
    code_before: bool = False
    asked_back: bool = False
    follows_up: bool = False
    goes_on: bool = False

    @property
    def tool_turns(self) -> int:
        """Tool calls and results in the conversation."""
        return self.loop.turns


def _content(said: frozenset[str]) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset({word[:_STEM_CHARS] for word in said - _COMMON if len(word) > 2})


def _plain_quotes(text: str) -> str:
    if not text.isascii():
        for sign in _OTHER_QUOTES:
            text = text.replace(sign, '"')
    return text


def _supplied(text: str, chars: int) -> int:
    """Characters of what looks given: long lines beside others, a quotation, the rest after a colon."""
    lines = [len(line) for line in text.splitlines() if line.strip()]
    given = sum(length for length in lines if length > _SUPPLIED_LINE) if len(lines) > 1 else 0
    quoted = max(map(len, _plain_quotes(text).split('"')[1:-1:2]), default=0)
    before, colon, after = text.partition(":")
    behind = len(after) if colon and len(before) <= _SUPPLIED_LINE else 0
    given = max(given, quoted if quoted > _SUPPLIED_LINE else 0, behind)
    return given + max(chars - len(text), 0) if given else 0


def _of_names(names: str) -> frozenset[str]:
    return _content(letters(names if names.islower() else _CAMEL.sub(" ", names).lower()))


def _of_descriptions(descriptions: str) -> frozenset[str]:
    return _content(letters(descriptions.lower()))


_named: Final = remembered(_of_names, _OFFERS)
_described: Final = remembered(_of_descriptions, _OFFERS)


@value(frozen=True, slots=True)
class _Offer:
    overlap: int = 0
    name_overlap: int = 0
    asked: bool = False
    action: bool = False


_NO_OFFER: Final = _Offer()


def _offer(
    ask: str, asked: frozenset[str], keys: int, tools: Sequence[Tool], *, foreign_action: bool
) -> _Offer:
    """What the message has to do with the tools that may be called."""
    if not tools:
        return _NO_OFFER
    said = _content(asked)
    named = said & _named(" ".join([tool.name for tool in tools])[:_TOOL_CHARS])
    described = said & _described(" ".join([tool.description for tool in tools])[:_TOOL_CHARS])
    return _Offer(
        overlap=len(named | described),
        name_overlap=len(named),
        asked=lexicon_keys.TOOL_ASKED.found(ask, keys),
        action=foreign_action or lexicon_keys.TOOL_ACTION.found(ask, keys),
    )


@value(frozen=True, slots=True)
class _System:
    tools: bool = False
    context: bool = False


_NO_SYSTEM: Final = _System()


@remembered
def _system(text: str) -> _System:
    """What the system prompt brings along besides manners."""
    text = text.lower()
    return _System(
        tools=lexicon_keys.TOOL_TEXT.found(text, _NO_KEYS),
        context=len(text) >= _CONTEXT_CHARS and lexicon_keys.CONTEXT.found(text, _NO_KEYS),
    )


def read(
    last: Turn,
    reading: Reading,
    *,
    language: str,
    system: str,
    answer: str,
    tools: Sequence[Tool],
    loop: Loop,
) -> Marks:
    """Reads the marks of a conversation.

    Args:
        last: The last user message.
        reading: Its :func:`reading`.
        language: The language it is in, as far as is known.
        system: The system prompt, or its head and tail.
        answer: The last assistant message before it, empty where there is none.
        tools: The tools that may be called.
        loop: Where a loop of calls and results stands.
    """
    text, ask, asked = reading.seen.text, reading.ask, reading.asked
    listed = _LISTED & reading.said
    keys = lexicon_keys.look(listed & asked)
    other = foreign.NOTHING if language in ENGLISH else foreign.read(ask, asked, reading.seen.highest)
    before = _system(ends(system, HEAD_CHARS, TAIL_CHARS)) if system else _NO_SYSTEM
    offer = _offer(ask, asked, keys, tools, foreign_action=other.tool_action)
    fences = last.text.count("```")
    return Marks(
        fences=(fences + 1) // 2,
        code_syntax=signs.code(text),
        identifiers=signs.identifiers(last.text[:HEAD_CHARS]),
        ticks=max(last.text.count("`") - 3 * fences, 0) // 2,
        code_names=len(listed & lexicon.CODE_NAMES) + sum([name in text for name in _SIGNED]),
        code_words=len(listed & lexicon.CODE_WORDS) + other.code,
        other_code=other.code_sure,
        code_request=other.code_request or lexicon_keys.CODE_REQUEST.found(ask, keys),
        code_in=lexicon_keys.CODE_IN.found(ask, keys),
        code_task=lexicon_keys.CODE_TASK.found(ask, keys) or lexicon_keys.CODE_ORDER.found(ask, keys),
        latex=signs.formulas(text),
        latex_text=len(lexicon.LATEX_TEXT.findall(text)) if "\\" in text else 0,
        numbers=reading.seen.numbers + len(listed & lexicon.NUMBER_WORDS),
        operators=len(lexicon.OPERATOR.findall(text)) if any_of(_OPERATOR_SIGNS, text) else 0,
        math_words=len(listed & lexicon.MATH_WORDS) + other.math_terms,
        math_count=lexicon_keys.MATH_COUNT.found(ask, keys)
        or ("what" in asked and any_of(lexicon.MATH_AT_WHAT, f" {ask}"))
        or lexicon_keys.MATH_IN_HOW.found(ask, keys),
        math_task=lexicon_keys.MATH_TASK.found(ask, keys) or lexicon_keys.MATH_MORE.found(ask, keys),
        math_other=other.math,
        math_sure=lexicon_keys.MATH_SURE.found(ask, keys),
        text_task=lexicon_keys.TEXT_TASK.found(ask, keys),
        other_math=other.math_terms,
        creative=other.creative or lexicon_keys.CREATIVE.found(ask, keys),
        translation=other.translation or lexicon_keys.TRANSLATION.found(ask, keys),
        supplied_chars=_supplied(last.text, last.chars),
        question=any_of(_QUESTION_MARKS, ask),
        tool_overlap=offer.overlap,
        tool_name_overlap=offer.name_overlap,
        tool_text=before.tools,
        context=before.context,
        tool_asked=offer.asked,
        tool_action=offer.action,
        plain_order=lexicon_tools.THANKS.match(ask) is not None
        or (bool(tools or before.tools) and _declined(ask, keys)),
        plain_request=lexicon_tools.PLAIN_REQUEST.search(ask) is not None,
        loop=loop,
        code_before="```" in answer,
        asked_back=bool(answer) and _asked_back(answer[-_ANSWER_CHARS:].lower()),
        follows_up=bool(answer) and last.chars < _FOLLOW_UP_CHARS,
        goes_on=bool(answer)
        and not asked.isdisjoint(lexicon_tools.FOLLOWS)
        and not lexicon_keys.SWITCH.found(ask, keys),
    )


def _declined(ask: str, keys: int) -> bool:
    return lexicon_keys.PLAIN_ORDER.found(ask, keys) or lexicon_keys.DECLINED.found(ask, _NO_KEYS)


def _asked_back(end: str) -> bool:
    return end.rstrip().endswith("?") or lexicon_keys.ASKED_BACK.found(end, _NO_KEYS)
