"""What a classifier or filter may know of a request: counts and flags, never its text.

The edge turns a request body into a :class:`RequestView` (sampled text, still in memory only for the
request), :func:`extract` turns that into :class:`Features`, which are safe to log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

WORKLOADS: Final = ("math", "code", "chat", "tool_use", "multilingual", "grounded")
"""The closed set of built-in labels. A label names the nature of the text that is about to be generated."""

ENDPOINTS: Final = (
    "chat", "completions", "responses", "messages", "embeddings", "tokenize", "detokenize", "rerank", "score",
    "audio", "other",
)  # fmt: skip
"""The closed set of endpoint names used in records and metrics."""

GENERATING: Final = frozenset({"chat", "completions", "responses", "messages"})
"""Endpoints whose answer is generated token by token, so that speculation matters."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool: its name and description, for comparing with what the user asks."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the caller said about the request, from headers, ``metadata`` or the model's suffix."""

    workload: str | None = None
    backend: str | None = None
    session: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class RequestView:
    """The few fields of a request body that are read. Holds text; lives only while the request does.

    Attributes:
        endpoint: One of :data:`ENDPOINTS`.
        parameters: Names of sampling and output parameters present with a non-null value
            (``min_p``, ``logit_bias``, ``logprobs``, ``seed``, …), for capability filters.
        max_tokens: The lower of ``max_tokens`` and ``max_completion_tokens``, if any.
        response_format: ``text``, ``json_object``, ``json_schema`` or another ``type`` that was sent.
        tool_choice: ``auto``, ``none``, ``required``, ``named``, or ``""`` when absent.
    """

    endpoint: str
    model: str
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


@dataclass(frozen=True, slots=True)
class Features:
    """Facts of one request. Every number is a count or a share; no prompt text.

    Attributes:
        prompt_chars: Characters of all turns together.
        last_chars: Characters of the last user message.
        language: ISO 639-1 code of the last user message, ``und`` where unknown.
        output_language: ISO 639-1 code the answer will be in where the request says so
            ("answer in Spanish", a translation), otherwise equal to ``language``.
        marks: Named densities and counts that the rules read, see :mod:`gateway.core.classify`.
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


@dataclass(frozen=True, slots=True)
class Marks:
    """What the text of a request looks like, as counts and shares between 0 and 1."""
