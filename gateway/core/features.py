"""What a classifier or filter may know of a request: counts and flags, never its text.

The edge turns a request body into a :class:`RequestView` (sampled text, still in memory only for the
request), :func:`extract` turns that into :class:`Features`, which are safe to log.
"""

from __future__ import annotations

from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Final

from gateway.core import language, loops, marks
from gateway.core.memo import remembered
from gateway.core.reading import reading
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.core.marks import Marks
    from gateway.core.reading import Reading

WORKLOADS: Final = ("math", "code", "chat", "tool_use", "multilingual", "grounded")
"""The closed set of built-in labels. A label names the nature of the text that is about to be generated."""

ENDPOINTS: Final = (
    "chat", "completions", "responses", "messages", "embeddings", "tokenize", "detokenize", "rerank", "score",
    "audio", "other",
)  # fmt: skip
"""The closed set of endpoint names used in records and metrics."""

PARAMETERS: Final = (
    "allowed_token_ids", "bad_words", "best_of", "chat_template", "echo", "frequency_penalty",
    "guided_choice", "guided_grammar", "guided_json", "guided_regex", "ignore_eos", "logit_bias",
    "logits_processors", "logprobs", "min_p", "min_tokens", "n", "presence_penalty", "prompt_embeds",
    "prompt_logprobs", "repetition_penalty", "response_format", "seed", "stop", "stop_token_ids",
    "structured_outputs", "tool_choice", "tools", "top_logprobs", "use_beam_search",
)  # fmt: skip
"""The closed set of request parameters that a server may be said to refuse."""

GENERATING: Final = frozenset({"chat", "completions", "responses", "messages"})
"""Endpoints whose answer is generated token by token, so that speculation matters."""

STEPWISE: Final = frozenset({"chat", "completions"})
"""Those whose streams have an event for each step; others leave out those without text, and merge some."""

_SYSTEM_TURNS: Final = 4

_ASKING_CHARS: Final = 200
"""Where in a system prompt the language of the answer is asked for: within so many first characters."""


@value(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: ``system``, ``user``, ``assistant`` or ``tool`` (``developer`` counts as ``system``).
        text: The text, or its head and tail where it is long.
        chars: Length of the whole text in characters.
        calls_tool: An assistant turn that called a tool.
    """

    role: str
    text: str
    chars: int
    calls_tool: bool = False


_NO_TURN: Final = Turn("user", "", 0)


@value(frozen=True, slots=True)
class Tool:
    """A declared tool: its name and description, for comparing with what the user asks."""

    name: str
    description: str = ""


@value(frozen=True, slots=True)
class Hints:
    """What the caller said about the request, from headers, ``metadata`` or the model's suffix.

    Attributes:
        backend: The only one that the request may go to.
        previous: Id of the response that the request goes on from, or is about.
        held: The backend is not the caller's choice: it holds that response, and no other has it.
        stays: No hosted model may have the request.
    """

    workload: str | None = None
    backend: str | None = None
    session: str | None = None
    tenant: str | None = None
    previous: str | None = None
    held: bool = False
    stays: bool = False


@value(frozen=True, slots=True)
class RequestView:
    """The few fields of a request body that are read. Holds text; lives only while the request does.

    Attributes:
        endpoint: One of :data:`ENDPOINTS`.
        path: As the client sent it, without the query; ``""`` where there was none.
        n: Choices of the answer: what ``n`` says, for each prompt of a completion.
        parameters: Those of :data:`PARAMETERS` that say something, for capability filters.
        max_tokens: The lower of ``max_tokens`` and ``max_completion_tokens``, if any.
        response_format: ``text``, ``json_object``, ``json_schema`` or another ``type`` that was sent.
        tool_choice: ``auto``, ``none``, ``required``, ``named``, or ``""`` when absent.
        metadata: Of the body's ``metadata``, the values that are text.
        headers: Of the request, by lower-cased name. They hold keys, so they are never shown.
        kept: The server is asked to keep its response, which then outlives the connection.
    """

    endpoint: str
    model: str
    path: str = ""
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    max_tokens: int | None = None
    temperature: float | None = None
    parameters: frozenset[str] = frozenset()
    response_format: str = "text"
    tool_choice: str = ""
    tools: tuple[Tool, ...] = ()
    turns: tuple[Turn, ...] = ()
    hints: Hints = field(default_factory=Hints)
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    headers: Mapping[bytes, bytes] = field(default_factory=dict, hash=False, repr=False)
    kept: bool = False


@value(frozen=True, slots=True)
class Features:
    """Facts of one request. Every number is a count or a share; no prompt text.

    Attributes:
        prompt_chars: Characters of all turns together.
        last_chars: Characters of the last user message.
        language: ISO 639-1 code of the last user message, ``und`` where unknown.
        output_language: ISO 639-1 code the answer will be in where the request says so
            ("answer in Spanish", a translation), otherwise equal to ``language``.
        marks: Named densities and counts that the rules read, see :mod:`gateway.core.marks`.
    """

    endpoint: str
    model: str
    stream: bool
    n: int
    max_tokens: int | None
    temperature: float | None
    parameters: frozenset[str]
    response_format: str
    tool_choice: str
    tools: int
    turns: int
    last_role: str
    system_chars: int
    prompt_chars: int
    last_chars: int
    language: str
    output_language: str
    marks: Marks
    hints: Hints


_requested_by_rules: Final = remembered(language.requested)


def system_prompts(turns: Sequence[Turn]) -> list[str]:
    """The first system prompts of a conversation; of more than these none is read."""
    return list(islice((turn.text for turn in turns if turn.role == "system"), _SYSTEM_TURNS))


def _answer_language(read: Reading, system: Sequence[str], own: str) -> str:
    """What the message asks for, then what the system prompt asks for, then the message's own language."""
    asked = language.asked(read.ask, read.asked, read.seen.highest)
    if asked is None:
        for text in system:
            asked = _requested_by_rules(text[:_ASKING_CHARS]) or asked
    return asked or own


def _answer(turns: Sequence[Turn], before: int) -> str:
    """The last answer before a turn."""
    for at in range(before - 1, -1, -1):
        if turns[at].role == "assistant":
            return turns[at].text
    return ""


def extract(view: RequestView) -> Features:
    """Reads the facts of a request: what it asks for, and what its text looks like.

    The time is bounded: of a long text only the beginning and the end are read.
    """
    turns = view.turns
    last, since, answer = _NO_TURN, turns, ""
    for at in range(len(turns) - 1, -1, -1):
        if turns[at].role == "user":
            last, since = turns[at], turns[at + 1 :]
            answer = _answer(turns, at)
            break
    system = system_prompts(turns)
    system_chars = chars = 0
    for turn in turns:
        chars += turn.chars
        if turn.role == "system":
            system_chars += turn.chars
    read = reading(last.text)
    own = language.of(read.seen, read.first_chars, read.first)
    return Features(
        endpoint=view.endpoint,
        model=view.model,
        stream=view.stream,
        n=view.n,
        max_tokens=view.max_tokens,
        temperature=view.temperature,
        parameters=view.parameters,
        response_format=view.response_format,
        tool_choice=view.tool_choice,
        tools=len(view.tools),
        turns=len(turns),
        last_role=turns[-1].role if turns else "",
        system_chars=system_chars,
        prompt_chars=chars,
        last_chars=last.chars,
        language=own,
        output_language=_answer_language(read, system, own),
        marks=marks.read(
            last,
            read,
            language=own,
            system="\n".join(system),
            answer=answer,
            tools=() if view.tool_choice == "none" else view.tools,
            loop=loops.read(turns, since, read.seen.text),
        ),
        hints=view.hints,
    )
