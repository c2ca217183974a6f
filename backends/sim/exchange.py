"""One generating request from its jobs to its last byte: as a stream of events, or as one body."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backends.sim.bodies import DONE, ChatBodies
from backends.sim.fields import RefusalError
from backends.sim.parts import Ending, Part, ToolPart, Whole
from backends.sim.realtime import Inbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backends.sim.answer import Answer
    from backends.sim.asgi import Request
    from backends.sim.background import Work
    from backends.sim.bodies import Bodies
    from backends.sim.call import Call
    from backends.sim.engine import Job
    from backends.sim.measures import Measures
    from backends.sim.realtime import Flow, Realtime, Share

_DEAD: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclass(frozen=True, slots=True)
class Reporting:
    """What a server was started to report of each request.

    Attributes:
        timings: ``--enable-per-request-metrics``.
        acceptance: ``--per-request-spec-decode-metrics``: ``off``, ``summary`` or ``detailed``.
    """

    timings: bool = False
    acceptance: str = "off"


class _Choice:
    """A choice on its way: what it will say and how far it came."""

    __slots__ = ("answer", "echo", "flow", "read", "sent", "told", "tool_id")

    def __init__(self, answer: Answer, flow: Flow, echo: Sequence[str], tool_id: str) -> None:
        self.answer = answer
        self.flow = flow
        self.echo = echo
        self.tool_id = tool_id
        self.read = 0
        self.told = 0
        self.sent = 0


class Exchange:
    """The answer to one request.

    Args:
        call: The request.
        bodies: Shapes of its endpoint.
        realtime: The engine that generates.
        measures: Told of choices that end.
        reporting: What to say about speed and acceptance.

    Attributes:
        spoken: Deltas of a stream, or else choices, by whether they were of a tool call.
    """

    def __init__(
        self, call: Call, bodies: Bodies, realtime: Realtime, measures: Measures, reporting: Reporting
    ) -> None:
        self._call = call
        self._bodies = bodies
        self._realtime = realtime
        self._measures = measures
        self._reporting = reporting
        self._inbox = Inbox()
        self._choices: list[_Choice] = []
        self._lag = 0 if call.include_stop else max((len(stop) - 1 for stop in call.stop if stop), default=0)
        self._gone = False
        self.spoken = {True: 0, False: 0}

    def add(self, answer: Answer, job: Job, echo: Sequence[str], tool_id: str) -> None:
        """Queue the job of the next choice.

        Args:
            answer: What it will say.
            job: Its work.
            echo: Text of each token that is said before it.
            tool_id: Id of the tool call, if it makes one.
        """
        flow = self._realtime.submit(job, len(self._choices), self._inbox)
        self._choices.append(_Choice(answer, flow, echo, tool_id))

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return self._call.stream

    async def run(self, request: Request | Work) -> None:
        """Answer; a client that leaves, waiting or reading, frees its slots at once."""
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._watch(request))
                await (self._stream if self._call.stream else self._body)(request)
                watcher.cancel()
        finally:
            self._free()

    async def _watch(self, request: Request | Work) -> None:
        await request.left()
        self._gone = True
        self._free()
        self._inbox.close()

    def _free(self) -> None:
        for choice in self._choices:
            self._realtime.cancel(choice.flow.job.id)

    async def _stream(self, request: Request | Work) -> None:
        await request.stream()
        left = len(self._choices)
        events = [self._bodies.opening(index) for index in range(left)]
        while shares := await self._inbox.take():
            for share in shares:
                left -= share.finished
                events += self._events(share, last=not left)
            if not left:
                events.append(self._bodies.closing(self._completion_tokens(), self._metrics()))
                await request.write(b"".join(events), more=False)
                return
            if body := b"".join(events):
                await request.write(body, more=True)
            events = []
        if not self._gone:
            error = json.dumps({"error": engine_dead().error()})
            await request.write(f"data: {error}\n\n".encode() + DONE, more=False)

    async def _body(self, request: Request | Work) -> None:
        left = len(self._choices)
        while left and (shares := await self._inbox.take()):
            for share in shares:
                self._advance(share)
                left -= share.finished
        if not left:
            wholes = [self._whole(index, choice) for index, choice in enumerate(self._choices)]
            await request.reply(self._bodies.whole(wholes, self._completion_tokens(), self._metrics()))
        elif not self._gone:
            await request.reply(engine_dead().body(), status=500)

    def _advance(self, share: Share) -> tuple[_Choice, int]:
        """Move a choice on; returns it and where it stood."""
        choice = self._choices[share.index]
        start = choice.read
        choice.read += share.tokens
        if share.finished:
            job = choice.flow.job
            reason = "length" if choice.answer.reason == "length" else "stop"
            self._measures.finish(
                choice.flow.timing, reason, job.prompt_tokens, job.cached_tokens, choice.read
            )
        return choice, start

    def _events(self, share: Share, *, last: bool) -> Iterable[bytes]:
        """The events of new tokens of one choice."""
        choice, start = self._advance(share)
        answer = choice.answer
        ending = Ending(answer.reason, answer.stop, last) if share.finished else None
        ids = answer.generated[start : choice.read] if self._call.return_token_ids else None
        if answer.tool is not None:
            return self._tool_events(choice, start, share.index, ids, ending)
        pieces = answer.shown[start : choice.read]
        offset = choice.told + sum(map(len, choice.echo))
        choice.told += sum(map(len, pieces))
        until = len(answer.text) if ending else max(choice.sent, choice.told - self._lag)
        text = answer.text[choice.sent : until]
        choice.sent = until
        if not start and choice.echo:
            pieces, offset = (*choice.echo, *pieces), 0
            text = "".join(choice.echo) + text
        self.spoken[False] += 1
        part = Part(share.index, text, pieces, ids, offset, choice.read, ending)
        return (self._bodies.part(part),)

    def _tool_events(
        self, choice: _Choice, start: int, index: int, ids: Sequence[int] | None, ending: Ending | None
    ) -> list[bytes]:
        tool, bodies = choice.answer.tool, self._bodies
        assert tool is not None  # noqa: S101 - the caller looked
        assert isinstance(bodies, ChatBodies)  # noqa: S101 - only chat declares tools
        parts = []
        if start < tool.start <= choice.read:
            parts.append(ToolPart(index, ids, choice.read, id=choice.tool_id, name=tool.name))
        arguments = "".join(choice.answer.shown[max(start, tool.start) : min(choice.read, tool.stop)])
        if arguments:
            parts.append(ToolPart(index, ids, choice.read, arguments=arguments))
        if ending is not None:
            parts.append(ToolPart(index, ids, choice.read, ending=ending))
        self.spoken[True] += len(parts)
        return [bodies.tool(part) for part in parts]

    def _whole(self, index: int, choice: _Choice) -> Whole:
        answer, tool = choice.answer, choice.answer.tool
        called = None
        if tool is not None:
            called = (choice.tool_id, tool.name, "".join(answer.shown[tool.start : tool.stop]))
        ids = answer.generated[: choice.read] if self._call.return_token_ids else None
        ending = Ending(answer.reason, answer.stop, last=True)
        text = "".join(choice.echo) + answer.text
        self.spoken[tool is not None] += 1
        return Whole(index, text, (*choice.echo, *answer.shown), ids, ending, called)

    def _completion_tokens(self) -> int:
        return sum(choice.read for choice in self._choices)

    def _metrics(self) -> dict[str, Any] | None:
        """``metrics`` of the answer: only a request with a single choice has them."""
        reporting = self._reporting
        if len(self._choices) > 1 or (not reporting.timings and reporting.acceptance == "off"):
            return None
        choice = self._choices[0]
        timing, number = choice.flow.timing, choice.read
        generation, whole = timing.last - timing.first, timing.last - timing.arrived
        timings = {
            "time_to_first_token_ms": (timing.first - timing.arrived) * 1000.0,
            "generation_time_ms": generation * 1000.0,
            "queue_time_ms": (timing.scheduled - timing.arrived) * 1000.0,
            "mean_itl_ms": generation * 1000.0 / (number - 1) if number > 1 else None,
            "tokens_per_second": number / whole if whole else None,  # a tick of uvloop's clock is 1 ms
        }
        metrics: dict[str, Any] = timings if reporting.timings else dict.fromkeys(timings)
        return metrics | {"speculative_decoding": self._acceptance(choice.flow)}

    def _acceptance(self, flow: Flow) -> dict[str, Any] | None:
        found = flow.acceptance
        if found is None or self._reporting.acceptance == "off":
            return None
        detailed = self._reporting.acceptance == "detailed" and bool(found.steps)
        return {
            "mean_acceptance_length": 1.0 + found.accepted / found.steps if found.steps else 1.0,
            "draft_acceptance_rate": found.accepted / found.drafted if found.drafted else 0.0,
            "acceptance_histogram": found.histogram,
            "num_spec_steps": found.steps,
            "num_accepted_draft_tokens": found.accepted,
            "num_draft_tokens": found.drafted,
            "num_spec_tokens": len(found.histogram) - 1,
            "per_step_accepted": flow.accepted if detailed else None,
            "per_step_drafted": flow.drafted if detailed else None,
        }


def engine_dead() -> RefusalError:
    """What requests under way get when the engine dies."""
    return RefusalError(_DEAD, kind="InternalServerError", status=500)
