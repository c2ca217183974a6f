"""What a text must hold for an expression of the lexicon to match: a look costs a tenth of the expression."""

from __future__ import annotations

import re
from typing import Final

from gateway.core import lexicon, lexicon_tools

_PHRASE: Final = re.compile(r"([a-z]+)[^a-z]+[a-z]")


class Keyed:
    """An expression that is tried only where it can match.

    Attributes:
        pattern: The expression.
        words: Runs of letters, one of which is in every text that it matches, unless one of the pieces is.
        pieces: Parts of words, or several words.
        begun: The pieces of several words, by the first one.
        bits: What :func:`look` gives for one of the words, and for one that pieces begin with.
    """

    __slots__ = ("_parts", "_phrases", "begun", "bits", "pattern", "pieces", "words")

    def __init__(self, pattern: re.Pattern[str], words: str, *pieces: str) -> None:
        """Take words apart by spaces."""
        self.pattern = pattern
        self.words = frozenset(words.split())
        self.pieces = pieces
        self.begun = {piece: phrase[1] for piece in pieces if (phrase := _PHRASE.match(piece))}
        self._phrases = tuple(self.begun)
        self._parts = tuple(piece for piece in pieces if piece not in self.begun)
        self.bits = (0, 0)

    def found(self, text: str, keys: int) -> bool:
        """Whether the expression matches somewhere.

        Args:
            text: Where to look, in lower case.
            keys: What :func:`look` gives for its runs of letters, or for more of them.
        """
        word, begun = self.bits
        if (
            keys & word
            or (keys & begun and _holds(text, self._phrases))
            or (self._parts and _holds(text, self._parts))
        ):
            return self.pattern.search(text) is not None
        return False


def _holds(text: str, pieces: tuple[str, ...]) -> bool:
    for piece in pieces:  # noqa: SIM110 - any() takes twice as long
        if piece in text:
            return True
    return False


CODE_REQUEST: Final = Keyed(
    lexicon.CODE_REQUEST,
    """
    function functions program programs script scripts code snippet query queries regex regexp regular
    class classes liner oneliner api endpoint dockerfile makefile manifest cron cronjob web webpage html
    css sql algorithm unit structure app bot parser compiler method procedure macro formula linked
    binary hash hashmap json cli component decorator middleware terraform
    """,
)
CODE_IN: Final = Keyed(
    lexicon.CODE_IN,
    """
    python javascript typescript c f golang php kotlin haskell clojure erlang elixir fortran cobol
    matlab bash powershell awk sed sql mysql postgres postgresql sqlite html css regex pandas numpy
    pytorch node nodejs django jquery verilog vba ocaml solidity cuda graphql google terraform
    kubernetes tensorflow linux racket prolog objective unix shell java go rust ruby perl scala julia
    lua react vue flask swift assembly excel dart elm oracle scheme r
    """,
)
CODE_TASK: Final = Keyed(
    lexicon.CODE_TASK,
    """
    list lists string strings array arrays dict dicts dictionary dictionarys dataframe dataframes column
    columns index indexs thread threads variable variables class classs regex regexs module modules file
    files command liner path flag flags programming borrow pull stack stacktrace unit loop race leak
    pointer merge recently linked binary hash depth breadth sorting return foreign primary complexity
    simulate constant source scraper api segmentation undefined
    """,
    "director",
    "folder",
    "$",
    '"*',
    "*.",
    "/",
    "symlink",
    "process",
    "permission",
    "stdin",
)
MATH_COUNT: Final = Keyed(
    lexicon.MATH_COUNT,
    "",
    "how many",
    "how much",
    "how far",
    "how long",
    "how old",
    "how tall",
    "how fast",
    "how large",
    "at what",
    "in what",
    "by what",
    "to what",
    "for what",
)
MATH_IN_HOW: Final = Keyed(lexicon.MATH_IN_HOW, "", "in how")
MATH_TASK: Final = Keyed(
    lexicon.MATH_TASK,
    """
    find calculate compute determine evaluate solve simplify factor prove expand differentiate integrate
    derive express which equal
    """,
    "what is ",
    "what was ",
    "what are ",
    "what will be ",
    "what would be ",
    "what were ",
    "what percent",
    "what fraction",
    "show that",
    "put your final answer",
    "explain mathematically",
)
MATH_MORE: Final = Keyed(lexicon.MATH_MORE, "how")
MATH_SURE: Final = Keyed(
    lexicon.MATH_SURE,
    """
    prove proving square derivative integral integrate differentiate probability solve system
    determinant standard odds closed simplest factor factorise factorize geometric arithmetic simple
    compound
    """,
    "show that ",
    "antiderivative",
    "how many ",
    "how much ",
    "how large ",
    "find the limit",
    "eigenvalue",
    "what is the number?",
    "what is the fraction?",
    "counterexample",
    "give a proof",
    "explain mathematically",
    "by what fraction",
    " to the nearest",
    "put your final answer",
    "[asy]",
    "\\boxed",
)
TEXT_TASK: Final = Keyed(
    lexicon.TEXT_TASK,
    """
    correct polish edit fix main shorten extract based according text texts passage passages article
    articles paragraph paragraphs context contexts document documents email mail letter story essay
    report conversation dialog dialogue transcript abstract review study paper sentence sentences
    information background backgrounds plot plots news newss notes excerpt turn gist simpler bullet make
    improve list mentioned headline minutes
    """,
    "summar",
    "tldr",
    "tl;dr",
    "paraphras",
    "rewrit",
    "rephras",
    "reword",
    "proofread",
    "write nicer",
    "key point",
    "key takeaways",
    "key facts",
    "condense",
    "distil",
    "synthesi",
    "the text",
    "the passage",
    "the article",
    "the paragraph",
    "the notes",
    "the transcript",
)
CREATIVE: Final = Keyed(
    lexicon.CREATIVE,
    """
    story stories poem sonnet haiku song lyrics scene chapter novel limerick joke screenplay dialogue
    monologue fairy fairytale rap ballad blog speech script pretend act imagine author words creative
    person
    """,
    "roleplay",
    "role-play",
)
TRANSLATION: Final = Keyed(
    lexicon.TRANSLATION, lexicon.TRANSLATION_TARGETS.replace("|", " ") + " say", "translat"
)
PLAIN_ORDER: Final = Keyed(
    lexicon_tools.PLAIN_ORDER,
    "dont without never just memory own thanks thank cheers great perfect",
    "do not ",
    "don't ",
    "no need to ",
    "what can you do",
)
SWITCH: Final = Keyed(
    lexicon_tools.SWITCH,
    "unrelated else another different topic way switching note forget thanks thank cheers",
)
TOOL_ASKED: Final = Keyed(lexicon_tools.TOOL_ASKED, "api tool tools plugin database")
ASKED_BACK: Final = Keyed(lexicon_tools.ASKED_BACK, "", "please ", "need ", "require ", "?")
TOOL_TEXT: Final = Keyed(
    lexicon_tools.TOOL_TEXT, "", "tool", "action", "function", "apis", '"arguments"', '"parameters"'
)
CONTEXT: Final = Keyed(
    lexicon_tools.CONTEXT,
    "",
    "document",
    "context",
    "passage",
    "source",
    "article",
    "text",
    "information",
    "excerpt",
    "knowledge",
)

ALL: Final = tuple(value for value in globals().copy().values() if isinstance(value, Keyed))


def _numbered() -> dict[str, int]:
    """Gives each expression two bits of its own. Returns those that each key stands for."""
    bits: dict[str, int] = {}
    for number, keyed in enumerate(ALL):
        keyed.bits = word, begun = 1 << 2 * number, 2 << 2 * number
        for keys, bit in ((keyed.words, word), (keyed.begun.values(), begun)):
            for key in keys:
                bits[key] = bits.get(key, 0) | bit
    return bits


_BITS: Final = _numbered()
KEYS: Final = frozenset(_BITS)
"""All keys of all of them: one look at a text serves every expression."""


def look(letters: frozenset[str]) -> int:
    """What a text may hold, for :meth:`Keyed.found`, by its runs of letters."""
    keys = 0
    for word in KEYS & letters:
        keys |= _BITS[word]
    return keys
