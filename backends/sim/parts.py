"""What an answer is made of, before it has the shape of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Frame:
    """What every body and event of one response repeats.

    Attributes:
        id: Id of the response, with its prefix.
        created: Unix seconds.
        fingerprint: ``system_fingerprint``.
        prompt_ids: Token ids of each prompt where the request wants them.
        prompt_tokens: Tokens of the prompt (of all prompts together).
        cached_tokens: Those found in the prefix cache; None where the server does not tell.
        most_tokens: Tokens that the answer may have.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    prompt_ids: Sequence[Sequence[int]] | None
    prompt_tokens: int
    cached_tokens: int | None
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a choice ended.

    Attributes:
        reason: ``finish_reason``.
        stop: ``stop_reason``: the stop string that was hit.
        last: No choice of the response comes after it.
    """

    reason: str
    stop: str | None
    last: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A run of new tokens of a choice.

    Attributes:
        text: Text to show: what might be the start of a stop string is held back, so it may lag behind.
        pieces: Text that each token adds.
        ids: Token ids where the request wants them.
        offset: Characters of the answer before it.
        completion_tokens: Output tokens of the choice up to and with these.
        ending: Set on the last part.
    """

    index: int
    text: str
    pieces: Sequence[str]
    ids: Sequence[int] | None
    offset: int
    completion_tokens: int
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class ToolPart:
    """News of a tool call: its id and name, or some of its arguments; neither where the choice ends."""

    index: int
    ids: Sequence[int] | None
    completion_tokens: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete choice."""

    index: int
    text: str
    pieces: Sequence[str]
    ids: Sequence[int] | None
    ending: Ending
    tool: tuple[str, str, str] | None = None
