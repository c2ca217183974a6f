"""Decides what each choice of a call will say, before its first token is due."""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backends.sim import profiles, tokens
from backends.sim.fields import RefusalError
from backends.sim.look import Kind, calls_tool, look
from backends.sim.schema import example
from backends.sim.text import compose

if TYPE_CHECKING:
    from random import Random

    from backends.sim.call import Call

_END: Final = tokens.SPECIAL[tokens.END_OF_TURN]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call inside an answer.

    Attributes:
        start: Index of the first token of its arguments.
        stop: Index after their last token.
    """

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one choice will say.

    Attributes:
        workload: Label that decides its acceptance.
        generated: The tokens that the engine generates.
        shown: Text that each of them adds to the answer.
        reason: ``finish_reason`` at its end.
        stop: The stop string that ended it.
    """

    workload: str
    generated: tuple[str, ...]
    shown: tuple[str, ...]
    reason: str
    stop: str | None = None
    tool: ToolCall | None = None

    def ids(self, start: int, stop: int) -> list[int]:
        """Ids of a run of its tokens."""
        return [tokens.identify(piece) for piece in self.generated[start:stop]]


def plan(call: Call, asked: str, aside: str | None, room: int, rng: Random) -> Answer:
    """Make the answer of one choice.

    Args:
        call: The request.
        asked: Text of the last user turn, or the prompt.
        aside: A workload label given beside the request.
        room: Tokens that prompt and context length leave.
        rng: Decides length and wording.

    Raises:
        RefusalError: A schema in the request is none.
    """
    limit = room if call.max_tokens is None else min(room, call.max_tokens)
    kind = look(asked, aside or call.aside)
    if (index := _tool(call, asked)) is not None:
        return _tool_answer(call, index, limit, rng)
    if call.format in ("json_object", "json_schema"):
        value = _example(call.schema, rng) or {
            "title": "Weekly review",
            "items": ["north entrance", "blue kettle"],
        }
        pieces = tokens.split(json.dumps(value, ensure_ascii=False, indent=2))
    else:
        wanted = limit if call.ignore_eos else min(limit, _length(kind, rng))
        pieces = compose(kind, wanted, rng, endless=call.ignore_eos)
    if not call.ignore_eos:
        pieces.append(_END)
    cut = len(pieces) > limit or call.ignore_eos
    return _stopped(call, Answer(kind.workload, tuple(pieces[:limit]), (), "length" if cut else "stop"))


def _example(schema: object, rng: Random) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return example(schema, rng)
    except ValueError as error:
        raise RefusalError(str(error)) from error


def _length(kind: Kind, rng: Random) -> int:
    """Tokens of an answer, drawn from the lognormal lengths of its workload."""
    lengths = profiles.lengths(kind.workload)
    variance = math.log1p(lengths.variation**2)
    return round(rng.lognormvariate(math.log(lengths.output) - variance / 2, math.sqrt(variance)))


def _stopped(call: Call, answer: Answer) -> Answer:
    """The answer with its text shown up to the first stop string."""
    shown = ["" if piece == _END else piece for piece in answer.generated]
    text = "".join(shown)
    found = [(at, stop) for stop in call.stop if stop and (at := text.find(stop)) >= 0]
    if not found:
        return Answer(answer.workload, answer.generated, tuple(shown), answer.reason)
    at, stop = min(found)
    keep = at + len(stop) if call.include_stop else at
    ends = list(itertools.accumulate(map(len, shown)))
    number = bisect_left(ends, at + len(stop)) + 1
    visible = tuple(
        piece[: max(0, keep - (end - len(piece)))]
        for piece, end in zip(shown[:number], ends[:number], strict=True)
    )
    return Answer(answer.workload, answer.generated[:number], visible, "stop", stop)


def _tool(call: Call, asked: str) -> int | None:
    """Index of the tool that the answer calls."""
    if call.tool_choice == "none":
        return None
    pairs = [(tool.name, tool.description) for tool in call.tools]
    if call.tool_choice == "auto":
        answered = bool(call.messages) and call.messages[-1][0] == "tool"
        return None if answered else calls_tool(asked, pairs)
    if call.tool_choice == "required":
        return calls_tool(asked, pairs) or 0
    return next(index for index, tool in enumerate(call.tools) if tool.name == call.tool_choice)


def _tool_answer(call: Call, index: int, limit: int, rng: Random) -> Answer:
    tool = call.tools[index]
    head = tokens.split(f'<tool_call>\n{{"name": "{tool.name}", "arguments": ')
    arguments = tokens.split(json.dumps(_example(tool.parameters, rng), ensure_ascii=False))
    generated = [*head, *arguments, *tokens.split("}\n</tool_call>"), _END]
    called = ToolCall(tool.name, len(head), len(head) + len(arguments))
    return Answer("tool_use", tuple(generated[:limit]), tuple(generated[:limit]), "tool_calls", None, called)
