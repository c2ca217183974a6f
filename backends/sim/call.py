"""What a chat or text completion request asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared function."""

    name: str
    description: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class Call:
    """The fields of a chat or text completion request that change the answer.

    Attributes:
        chat: Chat completion rather than text completion.
        messages: Role and text of each turn; empty for a text completion.
        media: Whether messages have content that is not text.
        prompts: Prompts of a text completion, as text or token ids.
        max_tokens: As asked for, None for as many as fit.
        logit_bias: Its keys.
        logprobs: Alternatives to list for each token, None for no log probabilities at all.
        tool_choice: ``auto``, ``required``, ``none``, or the name of a function; ``none`` without tools.
        format: ``response_format.type``, ``text`` by default.
        schema: The JSON schema of a ``json_schema`` format.
        aside: ``metadata["x-sim-workload"]`` where it is given.
    """

    chat: bool
    model: str | None
    messages: tuple[tuple[str, str], ...]
    media: bool
    prompts: tuple[str | tuple[int, ...], ...]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    n: int
    max_tokens: int | None
    temperature: float
    top_p: float
    min_p: float
    top_k: int
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    min_tokens: int
    logit_bias: tuple[str, ...]
    seed: int | None
    stop: tuple[str, ...]
    include_stop: bool
    ignore_eos: bool
    echo: bool
    logprobs: int | None
    return_token_ids: bool
    tools: tuple[Tool, ...]
    tool_choice: str
    format: str
    schema: Any
    aside: str | None
