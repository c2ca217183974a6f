"""What the gateway reads in an answer: a handful of fields, nothing rebuilt, unknown shapes tolerated."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.core.answer import OPENING_CHARS
from gateway.core.outcome import Speculation, Usage
from gateway.runtime.foreign import UNREADABLE
from gateway.wire.calls import Calls

if TYPE_CHECKING:
    from gateway.core.fleet import Backend


_OPENING_EVENTS: Final = 96
"""Events of a stream that its opening is read from, at most."""

ENDS: Final = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})
"""Types of the last events of streams of ``/v1/messages`` and ``/v1/responses``."""

_FAILURES: Final = frozenset({"error", "response.failed"})
"""Types of those events that tell of a failure."""

_NO_CALLS: Final = frozenset({b"", b"null", b"[]"})


class _Lenient(msgspec.Struct, gc=False):
    """Fields that are absent or null stay None."""


class _Delta(_Lenient):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()

    def calls_tool(self) -> bool:
        return bytes(self.tool_calls) not in _NO_CALLS


class Choice(_Lenient):
    """One choice of an answer, or what a chunk adds to it."""

    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class _PromptDetails(_Lenient):
    cached_tokens: int | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Speculative(_Lenient):
    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    acceptance_histogram: list[int] = []


class _Metrics(_Lenient):
    speculative_decoding: _Speculative | None = None


class Body(_Lenient):
    """A chat or text completion, or one chunk of it; or an event of another endpoint, which has a type."""

    type: Any = None
    sequence_number: Any = None
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    prompt_token_ids: list[int] | None = None
    usage: _Usage | None = None
    metrics: _Metrics | None = None
    system_fingerprint: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Body, strict=False)


def decode(data: bytes | memoryview) -> Body | None:
    """Read a body or the data of one event; None if it is something else."""
    try:
        return _decoder.decode(data)
    except UNREADABLE:
        return None


def is_object(data: bytes) -> bool:
    """Whether a body is a JSON object, whatever it holds."""
    try:
        msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return False
    return True


def error_class(error: object) -> str:
    """Class of an error object within an answer. Its code is the status that vLLM would have sent."""
    told = error if isinstance(error, dict) else {}
    code = told.get("code")
    if isinstance(code, int):
        asked_wrong = 400 <= code < 500 and code != 429
    else:
        asked_wrong = told.get("type") == "invalid_request_error"
    return "error_event:4xx" if asked_wrong else "error_event"


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
        self._speculative: _Speculative | None = None

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

    def take(self, body: Body) -> None:
        """Note what a body or chunk says."""
        if body.id:
            self.response_id = body.id
        if body.model:
            self.response_model = body.model
        if body.error is not None:
            self.error = error_class(body.error)
        if isinstance(body.type, str):
            self._take_type(body.type, body.sequence_number)
        self._take_choices(body)
        if (usage := body.usage) is not None:
            details = usage.prompt_tokens_details
            if self.usage.output_tokens is not None and usage.completion_tokens is not None:
                self.most_tokens = max(self.most_tokens, usage.completion_tokens - self.usage.output_tokens)
            self.usage = Usage(
                usage.prompt_tokens, usage.completion_tokens, details.cached_tokens if details else None
            )
        if body.metrics is not None and body.metrics.speculative_decoding is not None:
            self._speculative = body.metrics.speculative_decoding

    def _take_type(self, kind: str, number: object) -> None:
        self.ended = self.ended or kind in ENDS
        if kind in _FAILURES and not self.error:
            self.error = "error_event"
        if isinstance(number, int):
            self.sequence = number + 1

    def _take_choices(self, body: Body) -> None:
        for choice in body.choices or ():
            if choice.finish_reason:
                self.finish_reason = choice.finish_reason
                self.finished.add(choice.index or 0)
            said = choice.delta or choice.message
            if said is not None and said.calls_tool():
                self.tool_calls = True
                self.calls.take(choice.index or 0, bytes(said.tool_calls))
        if len(self._opening) < _OPENING_EVENTS and (text := _said(body)):
            self._opening.append(text[:OPENING_CHARS])

    def speculation(self, backend: Backend) -> Speculation:
        """Acceptance of the request on the backend that answered it.

        Numbers that contradict each other count as not measured: the histogram must add up to the steps,
        and no more can be accepted than was drafted.
        """
        if backend.is_baseline:
            return Speculation("none")
        said = self._speculative
        if said is None:
            return Speculation("not_measured")
        histogram = tuple(said.acceptance_histogram)
        accepted = sum(map(mul, histogram, range(len(histogram))))
        if (
            sum(histogram) != said.num_spec_steps
            or accepted != said.num_accepted_draft_tokens
            or accepted > said.num_draft_tokens
        ):
            return Speculation("not_measured")
        return Speculation("exact", said.num_spec_steps, said.num_draft_tokens, accepted, histogram)


def _kept(data: bytes) -> str:
    """Text of an event, or of the text of one, that was kept."""
    if not data.startswith(b'"'):
        return _said(decode(data))
    try:
        return msgspec.json.decode(data, type=str)
    except UNREADABLE:
        return ""


def _said(body: Body | None) -> str:
    """What a body or chunk adds to the text of the first choice."""
    if body is None or not body.choices:
        return ""
    choice = body.choices[0]
    said = choice.delta or choice.message
    return (choice.text if said is None else said.content) or ""


def carries_token(body: Body) -> bool:
    """Whether a chunk holds generated text, be it empty because its bytes are held back.

    The first chunk of a chat answer holds the role alone; a usage chunk has no choices.
    """
    return any(_has_text(choice) for choice in body.choices or ())


def _has_text(choice: Choice) -> bool:
    if choice.token_ids:
        return True
    delta = choice.delta
    if delta is None:
        return choice.text is not None
    if delta.content or delta.reasoning or delta.reasoning_content or delta.calls_tool():
        return True
    return delta.content is not None and delta.role is None


def tokens_in(body: Body) -> int:
    """Tokens that a first chunk says it carries; 1 where it does not say."""
    if body.usage is not None and body.usage.completion_tokens:
        return body.usage.completion_tokens
    return max(1, *(len(choice.token_ids or ()) for choice in body.choices or ()), 0)
