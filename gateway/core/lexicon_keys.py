"""What a text must hold for an expression of the lexicon to match."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Final

from gateway.core import lexicon, lexicon_tools
from gateway.core.keyed import Keyed

CODE_REQUEST: Final = Keyed(
    lexicon.CODE_REQUEST,
    """
    write create make implement give show build generate develop design code need want provide fix debug
    refactor optimise optimize complete convert translate port rewrite explain review improve simplify add
    define construct solve document
    & function functions program programs script scripts code snippet query queries regex regexp regular
    class classes liner oneliner api endpoint dockerfile makefile manifest cron cronjob web webpage html
    css sql algorithm unit structure app bot parser compiler method procedure macro formula linked
    binary hash hashmap json cli component decorator middleware terraform
    """,
)
CODE_IN: Final = Keyed(
    lexicon.CODE_IN,
    """
    python javascript typescript golang php kotlin haskell clojure erlang elixir fortran cobol
    matlab bash powershell awk sed sql mysql postgres postgresql sqlite html css regex pandas numpy
    pytorch node nodejs django jquery verilog vba ocaml solidity cuda graphql google terraform
    kubernetes tensorflow linux racket prolog objective unix shell
    """,
    """
    in using with into use write solve implement program code
    & java go rust ruby perl scala julia lua react vue flask swift assembly excel dart elm oracle scheme
    """,
    "use write solve implement program code & c r",
    parts=("c++", "c#", "f#"),
)
CODE_TASK: Final = Keyed(
    lexicon.CODE_TASK,
    """
    how & list lists string strings array arrays dict dicts dictionary dictionarys dataframe dataframes
    column columns index indexs thread threads variable variables class classs regex regexs module modules
    file files
    """,
    "shell terminal bash linux this & command",
    "one & liner",
    "path & to",
    "command & line",
    "flag flags & do for of",
    "programming & exercise",
    "borrow & checker",
    "pull & request",
    "stacktrace",
    "stack & trace",
    "unit & test tests",
    "event & loop",
    "race & condition",
    "memory & leak",
    "null & pointer",
    "merge & conflict",
    "recently & used",
    "linked & list",
    "binary & tree",
    "hash & map table",
    "depth breadth & first",
    "sorting & algorithm",
    "return & type",
    "foreign primary & key",
    "time & complexity",
    "simulate & plot print",
    "constant & time",
    "source & code",
    "web & scraper",
    "rest & api",
    "segmentation & fault",
    "undefined & is",
)
CODE_ORDER: Final = Keyed(
    lexicon.CODE_ORDER,
    """
    find list print display search remove delete count copy rename archive compress show replace get
    recursively append create kill mount set sort check extract
    """,
)
MATH_COUNT: Final = Keyed(lexicon.MATH_COUNT, "how & many much far long old tall fast large")
MATH_IN_HOW: Final = Keyed(lexicon.MATH_IN_HOW, "in & how")
MATH_TASK: Final = Keyed(
    lexicon.MATH_TASK,
    """
    find calculate compute determine evaluate solve simplify factor prove expand differentiate integrate
    derive express
    """,
    "which & equation equations number numbers expression expressions function functions fraction fractions",
    "what & is was are were will would percent percentage fraction fractions",
    "is & equal",
    "show & that",
    "put & final",
    "explain & mathematically",
)
MATH_MORE: Final = Keyed(lexicon.MATH_MORE, "how & more less fewer")
MATH_SURE: Final = Keyed(
    lexicon.MATH_SURE,
    "prove proving & that the there using by it",
    "show & that",
    "square & root roots",
    "integrate differentiate antiderivative antiderivatives simplest factor factorise factorize",
    "derivative integral determinant odds & of",
    "how & many much large",
    "probability & of that",
    "find & limit limits",
    "solve & for the",
    "system & of",
    "what & number fraction",
    "standard & deviation deviations",
    "give & proof proofs",
    "explain & mathematically",
    "by & what",
    "to & nearest",
    "closed & form",
    "put & final",
    "geometric arithmetic & sequence sequences series progression progressions",
    "simple compound & interest",
    parts=("eigenvalue", "counterexample", "[asy]", "\\boxed"),
)
TEXT_TASK: Final = Keyed(
    lexicon.TEXT_TASK,
    "polish shorten extract mentioned headline gist simpler",
    "edit & the this my",
    "fix & grammar spelling blog text texts email emails article articles punctuation typos",
    "key & point points takeaways facts",
    "main & point points idea ideas argument arguments",
    "list & names people dates places",
    "write & nicer",
    "correct & the this my any all",
    "based & on",
    "according & to",
    """
    given following above below this these supplied provided using
    & text passage article articles paragraph context document documents email mail letter story essay
    report conversation dialog dialogue transcript abstract review study paper sentence sentences
    information background plot notes excerpt
    """,
    "turn & into",
    "bullet & from",
    "make & this it following",
    "improve & the this my",
    "one & sentence",
    "minutes & of",
    """
    from in & text texts passage passages article articles paragraph paragraphs notes transcript transcripts
    """,
    """
    article articles passage passages context contexts paragraph paragraphs document documents text texts
    background backgrounds plot plots news newss
    """,
    parts=(
        "summar", "tldr", "tl;dr", "paraphras", "rewrit", "rephras", "reword", "proofread", "condense",
        "distil", "synthesi",
    ),
)  # fmt: skip
CREATIVE: Final = Keyed(
    lexicon.CREATIVE,
    """
    write tell compose create make invent craft draft continue
    & story stories poem sonnet haiku song lyrics scene chapter novel limerick joke screenplay dialogue
    monologue fairy fairytale rap ballad blog speech script
    """,
    "pretend imagine author words creative",
    "act & as",
    "first & person",
    parts=("roleplay", "role-play"),
)
TRANSLATION: Final = Keyed(
    lexicon.TRANSLATION,
    lexicon.TRANSLATION_TARGETS.replace("|", " "),
    "how & say",
    parts=("translat",),
)
PLAIN_ORDER: Final = Keyed(
    lexicon_tools.PLAIN_ORDER,
    "just & show tell explain answer guess",
    "what & can",
    "from & memory",
    "own & words",
)
DECLINED: Final = Keyed(
    lexicon_tools.DECLINED, parts=("do not ", "don't ", "dont ", "without ", "no need to ", "never ")
)
SWITCH: Final = Keyed(
    lexicon_tools.SWITCH,
    "unrelated switching thanks cheers",
    "something & else",
    "another different & question topic thing",
    "change & of",
    "by & way",
    "new & topic",
    "different & note",
    "forget & the that",
    "thank & you",
)
TOOL_ASKED: Final = Keyed(
    lexicon_tools.TOOL_ASKED, "use using with via through call & api tool tools plugin database"
)
TOOL_ACTION: Final = Keyed(
    lexicon_tools.TOOL_ACTION,
    "look & up",
    "give help & me",
    "looking & for",
    "want & to",
    "can could & you",
    "use using & the",
    "am & i",
    sure=lexicon_tools.DEEDS,
)
ASKED_BACK: Final = Keyed(lexicon_tools.ASKED_BACK, parts=("please ", "need ", "require "))
TOOL_TEXT: Final = Keyed(
    lexicon_tools.TOOL_TEXT,
    parts=("tool", "action", "function", "apis", '"arguments"', '"parameters"'),
)
CONTEXT: Final = Keyed(
    lexicon_tools.CONTEXT,
    parts=(
        "document", "context", "passage", "source", "article", "text", "information", "excerpt", "knowledge",
    ),
)  # fmt: skip

ALL: Final = tuple(value for value in globals().copy().values() if isinstance(value, Keyed))


def _numbered() -> tuple[dict[str, int], dict[str, int]]:
    """Gives each clause a bit. Returns those that each word stands for on the first and on the last side."""
    firsts: dict[str, int] = defaultdict(int)
    lasts: dict[str, int] = defaultdict(int)
    bits = (1 << place for place in count())
    for keyed in ALL:
        clauses = {next(bits): sides for sides in ((keyed.sure,), *keyed.clauses)}
        for bit, sides in clauses.items():
            for word in sides[0]:
                firsts[word] |= bit
            for word in sides[-1]:
                lasts[word] |= bit
        keyed.number(*clauses)
    return dict(firsts), dict(lasts)


_FIRSTS, _LASTS = _numbered()
KEYS: Final = frozenset(_FIRSTS.keys() | _LASTS.keys())
"""All words of all of them: one look at a text serves every expression."""


def look(letters: frozenset[str]) -> int:
    """What a text may hold, for :meth:`gateway.core.keyed.Keyed.found`, by its runs of letters."""
    first = last = 0
    for word in KEYS & letters:
        first |= _FIRSTS.get(word, 0)
        last |= _LASTS.get(word, 0)
    return first & last
