"""What the gateway reads in an answer: a handful of fields, nothing rebuilt, unknown shapes tolerated."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.core.answer import OPENING_CHARS
from gateway.core.outcome import Speculation, Usage
from gateway.runtime.foreign import UNREADABLE
from gateway.wire import blocks
from gateway.wire.calls import Calls
from gateway.wire.chunks import decode, error_class, text_in, tokens_in

if TYPE_CHECKING:
    from gateway.core.fleet import Backend
    from gateway.wire.chunks import Body, Speculative

_OPENING_EVENTS: Final = 96
"""Events of a stream that its opening is read from, at most."""


_LONGEST_DRAFT: Final = 128
"""Draft tokens a step that a server may tell of: each accepted one has a series of its own in the metrics."""


class Reading:
    """Running account of one answer, fed whole bodies or chunks; times are monotonic seconds.

    Attributes:
        opened_at: When the first event of the answer arrived, be it the role alone.
        first_token_at: When the first event with a token arrived.
        decoding_since: From when on the tokens after the first were decoded.
        last_token_at: When the last one did.
        events: Events that carried a token.
        first_tokens: Tokens in the first of them, 1 where it does not say.
        most_tokens: Most tokens in one of the others; 0 unless each event tells the usage so far.
        error: Error class, once the answer carried an error object.
        begun: Whether an event with data came.
        ended: Whether the type of an event said that it is the last.
        finished: Choices that have ended, by index.
        sequence: What the next event would be numbered, where events are.
        calls: The tool calls in it.
    """

    __slots__ = (
        "_opening", "_speculative", "begun", "calls", "decoding_since", "ended", "error", "events",
        "finish_reason", "finished", "first_token_at", "first_tokens", "last_token_at", "most_tokens",
        "opened_at", "response_id", "response_model", "sequence", "tool_calls", "usage",
    )  # fmt: skip

    def __init__(self) -> None:
        self.opened_at: float | None = None
        self.first_token_at: float | None = None
        self.decoding_since: float | None = None
        self.last_token_at: float | None = None
        self.events = 0
        self.first_tokens = 1
        self.most_tokens = 0
        self.error = ""
        self.begun = False
        self.ended = False
        self.sequence = 0
        self.finish_reason = ""
        self.finished: set[int] = set()
        self.tool_calls = False
        self.calls = Calls()
        self.response_id = ""
        self.response_model = ""
        self.usage = Usage()
        self._opening: list[str | bytes] = []
        self._speculative: Speculative | None = None

    def token_event(self, now: float) -> None:
        """Count an event that carries a token."""
        self.last_token_at = now
        self.events += 1

    def first_token_event(self, body: Body, now: float) -> None:
        """Count the first event that carries a token."""
        self.first_token_at = now
        self.decoding_since = now
        self.first_tokens = tokens_in(body)
        if self.tool_calls and self.opened_at is not None:
            # A tool parser keeps back the tokens before the call's name. vLLM sends the role with the first
            # token, so what came since then is all but that one.
            self.decoding_since = self.opened_at
            self.first_tokens = 1
        self.token_event(now)

    def addition(self, kind: str, data: bytes, now: float) -> bool:
        """Count an event of another endpoint that adds to a text or to reasoning, by its type and its data.

        Returns:
            Whether it is of a text.
        """
        self.token_event(now)
        self.sequence += 1
        if of_text := blocks.of_text(kind, data):
            self.keep(data)
        return of_text

    def typed_event(self, kind: str, data: bytes, now: float) -> None:
        """Count any event of another endpoint, taken before, by its type and its data."""
        if kind == blocks.START:
            self.opened_at = now
        if not blocks.carries_token(kind, data):
            return
        if self.first_token_at is None:
            self.first_token_at = now
            # What a tool parser keeps back counts from the answer's first event, as above; responses have
            # none that comes with the first token.
            self.decoding_since = self.opened_at if self.tool_calls else now
        self.token_event(now)

    def keep(self, data: bytes) -> bool:
        """Keep an event that is not read now, or its text as JSON, for :meth:`opening`.

        Returns:
            Whether the next one will be kept as well.
        """
        if len(self._opening) >= _OPENING_EVENTS:
            return False
        self._opening.append(data)
        return True

    def opening(self) -> str:
        """The beginning of the answer's first choice, reasoning left out."""
        text = ""
        for piece in self._opening:
            if len(text) >= OPENING_CHARS:
                break
            text += piece if isinstance(piece, str) else _kept(piece)
        return text[:OPENING_CHARS]

    def take_whole(self, body: Body, data: bytes) -> None:
        """Note what an answer says that was not streamed, read and as it came."""
        self.take(body, data)
        if body.object == "response" or body.type == "message":
            self._take_blocks(data)

    def take(self, body: Body, data: bytes) -> None:
        """Note what a body or chunk says, read and as it came."""
        if body.id:
            self.response_id = body.id
        if body.model:
            self.response_model = body.model
        if body.error is not None:
            self.error = error_class(body.error)
        if body.type is not None:
            self._take_type(body, data)
        self._take_choices(body)
        if (usage := body.usage) is not None and body.type is None:
            details = usage.prompt_tokens_details
            if self.usage.output_tokens is not None and usage.completion_tokens is not None:
                self.most_tokens = max(self.most_tokens, usage.completion_tokens - self.usage.output_tokens)
            self.usage = Usage(
                usage.prompt_tokens, usage.completion_tokens, details.cached_tokens if details else None
            )
        if body.metrics is not None and body.metrics.speculative_decoding is not None:
            self._speculative = body.metrics.speculative_decoding

    def _take_type(self, body: Body, data: bytes) -> None:
        kind = body.type
        if not isinstance(kind, str):
            return
        if isinstance(body.sequence_number, int):
            self.sequence = body.sequence_number + 1
        if blocks.of_text(kind, data):
            self.keep(data)
            return
        self.ended = self.ended or kind in blocks.ENDS
        if kind in blocks.FAILURES and not self.error:
            self.error = "error_event"
        if kind in blocks.ACCOUNTS:
            self._take_blocks(data)
        elif (added := blocks.arguments_added(data)) is not None:
            self.calls.add(0, *added)

    def _take_blocks(self, data: bytes) -> None:
        told = blocks.told(data)
        answer = told.answer
        self.response_id = self.response_id or answer.id or ""
        self.response_model = self.response_model or answer.model or ""
        self.tool_calls = self.tool_calls or told.calls_tool()
        self.finish_reason = told.finish() or self.finish_reason
        if told.failed() and not self.error:
            self.error = "error_event"
        self.usage = told.counted(self.usage)
        if answer.metrics is not None and answer.metrics.speculative_decoding is not None:
            self._speculative = answer.metrics.speculative_decoding
        for place, arguments in enumerate(answer.arguments()):
            self.calls.add(0, place, arguments)
        if text := told.said():
            self._opening.append(text[:OPENING_CHARS])

    def _take_choices(self, body: Body) -> None:
        for choice in body.choices or ():
            if choice.finish_reason:
                self.finish_reason = choice.finish_reason
                self.finished.add(choice.index or 0)
            said = choice.delta or choice.message
            if said is not None and said.calls_tool():
                self.tool_calls = True
                self.calls.take(choice.index or 0, bytes(said.tool_calls))
        if len(self._opening) < _OPENING_EVENTS and (text := text_in(body)):
            self._opening.append(text[:OPENING_CHARS])

    def speculation(self, backend: Backend) -> Speculation:
        """Acceptance of the request on the backend that answered it.

        Numbers that contradict each other count as not measured: the histogram must add up to the steps,
        no more can be accepted than was drafted, and no draft is as long as an answer.
        """
        if backend.is_baseline:
            return Speculation("none")
        said = self._speculative
        if said is None:
            return Speculation("not_measured")
        histogram = tuple(said.acceptance_histogram)
        accepted = sum(map(mul, histogram, range(len(histogram))))
        if (
            len(histogram) > _LONGEST_DRAFT + 1
            or min(histogram, default=0) < 0
            or sum(histogram) != said.num_spec_steps
            or accepted != said.num_accepted_draft_tokens
            or accepted > said.num_draft_tokens
        ):
            return Speculation("not_measured")
        return Speculation("exact", said.num_spec_steps, said.num_draft_tokens, accepted, histogram)


def _kept(data: bytes) -> str:
    """Text of an event, or of the text of one, that was kept."""
    if not data.startswith(b'"'):
        body = decode(data)
        return blocks.added(data) if body is not None and body.type is not None else text_in(body)
    try:
        return msgspec.json.decode(data, type=str)
    except UNREADABLE:
        return ""
