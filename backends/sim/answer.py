"""Decides what each choice of a call will say, before its first token is due."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.sim import tokens
from backends.sim.look import calls_tool
from backends.sim.prompt import asked
from backends.sim.wording import structured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from backends.sim.call import Call, Tool
    from backends.sim.prompt import Prompt
    from backends.sim.wording import Writer


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
        generated: Ids of the tokens that the engine generates.
        shown: Text that each of them adds.
        text: What is shown of it all: it ends before a stop string.
        reason: ``finish_reason`` at its end.
        stop: The stop string that ended it.
    """

    workload: str
    generated: Sequence[int]
    shown: Sequence[str]
    text: str
    reason: str
    stop: str | None = None
    tool: ToolCall | None = None


def plan(call: Call, prompt: Prompt, room: int, writer: Writer, choice: int) -> Answer:
    """Make the answer of one choice.

    Args:
        call: The request.
        prompt: What it answers.
        room: Tokens that prompt and context length leave.
        writer: Words it.
        choice: Number of the choice among those of its prompt.

    Raises:
        RefusalError: A schema in the request is none.
    """
    mute = call.max_tokens == 0  # of what is generated, nothing is shown
    limit = room if call.max_tokens is None else min(room, max(call.max_tokens, 1))
    if (index := _tool(call, asked(prompt.text))) is not None:
        return _tool_answer(call.tools[index], limit, writer.draws(prompt.text, choice))
    wording = writer.word(prompt, limit, choice)
    rest = wording.tokens[wording.said :]
    generated = rest[:limit]
    shown = tokens.pieces(generated, prompt.given or ())
    if mute or generated[-1] == tokens.END_OF_TURN:
        shown[-1] = ""
    reason = "length" if call.ignore_eos or len(rest) > limit else "stop"
    return _stopped(call, Answer(wording.kind.workload, generated, shown, "".join(shown), reason))


def _stopped(call: Call, answer: Answer) -> Answer:
    """The answer up to the first stop string."""
    found = [(at, stop) for stop in call.stop if stop and (at := answer.text.find(stop)) >= 0]
    if not found:
        return answer
    at, stop = min(found)
    end = at + len(stop)
    number = bisect_left(list(itertools.accumulate(map(len, answer.shown))), end) + 1
    text = answer.text[: end if call.include_stop else at]
    return Answer(answer.workload, answer.generated[:number], answer.shown[:number], text, "stop", stop)


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


def _tool_answer(tool: Tool, limit: int, rng: Random) -> Answer:
    head = tokens.encode(f'<tool_call>\n{{"name": "{tool.name}", "arguments": ')
    arguments = tokens.encode(json.dumps(structured(tool.parameters, rng), ensure_ascii=False))
    ids = [*head, *arguments, *tokens.encode("}\n</tool_call>"), tokens.END_OF_TURN][:limit]
    called = ToolCall(tool.name, len(head), len(head) + len(arguments))
    shown = tokens.pieces(ids)
    return Answer("tool_use", ids, shown, "".join(shown), "tool_calls", None, called)
