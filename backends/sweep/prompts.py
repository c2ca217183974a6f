"""Prompts to measure with: those that come with the package, the user's own, and longer ones of both."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

from backends import prompts as shipped
from backends.sweep.model import SHORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CHARS_PER_TOKEN: Final = 4
"""Of English prose, roughly; the server's own count is what is reported."""

_OPENING: Final = "Background, which the question at the end may or may not need:\n\n"
_CLOSING: Final = "\n\nEnd of the background.\n\n"


KEPT: Final = (
    "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "stop",
    "chat_template_kwargs", "reasoning_effort", "max_tokens",
)  # fmt: skip
"""Keys of a request that shape its answer; the sweep has its own sampling, streaming and model."""


class PromptError(ValueError):
    """A line is no prompt; the text says which and what would be one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to be made.

    Attributes:
        id: Unique among the prompts of its workload.
        body: Of a chat completion, without model, sampling and streaming.
    """

    id: str
    body: Mapping[str, Any]


def usual(workloads: Iterable[str]) -> dict[str, tuple[Prompt, ...]]:
    """The prompts that come with the package.

    Raises:
        ValueError: No workload has this name.
    """
    return {name: tuple(Prompt(one.id, one.request) for one in shipped.load(name)) for name in workloads}


def parse(text: str, file: str) -> dict[str, tuple[Prompt, ...]]:
    """Prompts of one's own by workload, from JSON lines.

    A line holds ``messages`` or ``prompt``, or a whole body as ``request``, of which what shapes the answer
    is kept (:data:`KEPT`); ``workload`` (or ``label``, as logs have it) says what it is, ``chat`` if it is
    left out.

    Raises:
        PromptError: A line is something else.
    """
    found: dict[str, list[Prompt]] = {}
    ids: set[tuple[str, str]] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except ValueError:
            raise PromptError(f"{file}:{number}: this is not JSON; write one object a line") from None
        body = _body(content)
        if body is None:
            raise PromptError(
                f'{file}:{number}: this has no messages; write {{"workload": "code", "messages": '
                '[{"role": "user", "content": "..."}]}'
            )
        workload = str(content.get("workload") or content.get("label") or "chat")
        if not workload.isprintable():
            raise PromptError(f"{file}:{number}: {workload!r} cannot be a workload's name")
        own = str(content.get("id", number))
        name = f"{own}, line {number}" if (workload, own) in ids else own
        ids.add((workload, own))
        found.setdefault(workload, []).append(Prompt(name, body))
    if not found:
        raise PromptError(f"{file}: there is no prompt in it")
    return {workload: tuple(prompts) for workload, prompts in found.items()}


def _body(content: object) -> dict[str, Any] | None:
    if not isinstance(content, dict):
        return None
    asked = content.get("request", content)
    if not isinstance(asked, dict):
        return None
    keep = {key: asked[key] for key in KEPT if key in asked}
    if "max_completion_tokens" in asked:
        keep.setdefault("max_tokens", asked["max_completion_tokens"])
    if isinstance(asked.get("prompt"), str) and "messages" not in keep:
        keep["messages"] = [{"role": "user", "content": asked["prompt"]}]
    messages = keep.get("messages")
    usable = isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages)
    return keep if usable else None


def digest(prompts: Sequence[Prompt]) -> str:
    """What tells these prompts, in this order, from others."""
    written = json.dumps([[one.id, one.body] for one in prompts], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:16]


def tokens_of(length: str) -> int:
    """Tokens that a prompt length stands for; 0 for prompts as they are.

    Raises:
        ValueError: It is none.
    """
    if length == SHORT:
        return 0
    number = length.removesuffix("k")
    if number == length or not number.isdecimal() or not int(number):
        raise ValueError(f"{length!r} is no prompt length; write short, 8k or 32k")
    return int(number) * 1024


def filled(prompts: Sequence[Prompt], length: str) -> tuple[Prompt, ...]:
    """The same prompts with as much text before the last user message as the length says."""
    tokens = tokens_of(length)
    if not tokens:
        return tuple(prompts)
    passages = [text for one in shipped.load("grounded") if (text := _said(one.request))]
    return tuple(_with(one, place, tokens, passages) for place, one in enumerate(prompts))


def _with(prompt: Prompt, place: int, tokens: int, passages: Sequence[str]) -> Prompt:
    parts: list[str] = []
    wanted = tokens * CHARS_PER_TOKEN
    # Each prompt begins elsewhere, so that the prefix cache does not hold the text already.
    for number, passage in enumerate(islice(cycle(passages), place, None)):
        parts.append(f"Item {place}.{number}. {passage}")
        wanted -= len(parts[-1])
        if wanted <= 0:
            break
    body = copy.deepcopy(dict(prompt.body))
    last = next(
        (one for one in reversed(body["messages"]) if one.get("role") == "user"), body["messages"][-1]
    )
    background = "\n\n".join(parts)[: tokens * CHARS_PER_TOKEN]
    filling, said = f"{_OPENING}{background}{_CLOSING}", last.get("content") or ""
    last["content"] = [{"type": "text", "text": filling}, *said] if isinstance(said, list) else filling + said
    return Prompt(prompt.id, body)


def _said(request: Mapping[str, Any]) -> str:
    return "\n".join(
        one["content"] for one in request.get("messages", ()) if isinstance(one.get("content"), str)
    )
