"""Reads one streamed answer of a vLLM server as it comes: when its tokens arrived and what they say."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from backends.sweep.model import Sample

if TYPE_CHECKING:
    from backends.sweep.model import Cell

_DONE: Final = b"[DONE]"


class _Lenient(msgspec.Struct, gc=False):
    """Fields that are absent or null stay None."""


class _Delta(_Lenient):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: Any = None


class _Choice(_Lenient):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Speculative(_Lenient):
    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    acceptance_histogram: list[int] = []


class _Metrics(_Lenient):
    speculative_decoding: _Speculative | None = None


class _Chunk(_Lenient):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    metrics: _Metrics | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Chunk, strict=False).decode


class Answer:
    """A running account of one stream; times are seconds of one clock."""

    def __init__(self, started: float) -> None:
        """Begin when the request is sent.

        Args:
            started: When that was.
        """
        self.error = ""
        self._started = started
        self._first: float | None = None
        self._last = started
        self._usage: _Usage | None = None
        self._told: _Speculative | None = None
        self._finish = ""
        self._digest = hashlib.sha256()
        self._rest = b""
        self._done = False

    @property
    def begun(self) -> bool:
        """Whether its first token is here."""
        return self._first is not None

    def take(self, piece: bytes, now: float) -> bool:
        """Read what arrived. Tells whether an event was in it, and not only what keeps a connection open."""
        *events, self._rest = (self._rest + piece.replace(b"\r\n", b"\n")).split(b"\n\n")
        data = [line[5:] for event in events for line in event.split(b"\n") if line.startswith(b"data:")]
        for one in data:
            self._event(one.strip(), now)
        return bool(data)

    def _event(self, data: bytes, now: float) -> None:
        if data == _DONE:
            self._done = True
            return
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.error = self.error or "an event that is not JSON"
            return
        if chunk.error is not None:
            self.error = self.error or f"error event: {str(chunk.error)[:200]}"
        for choice in chunk.choices:
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None and self._says(choice.delta):
                self._first = now if self._first is None else self._first
                self._last = now
        self._usage = chunk.usage or self._usage
        if chunk.metrics is not None:
            self._told = chunk.metrics.speculative_decoding or self._told

    def _says(self, delta: _Delta) -> bool:
        """Take in what a chunk adds to the text; the first chunk of a chat holds the role alone."""
        calls = msgspec.json.encode(delta.tool_calls) if delta.tool_calls else b""
        for part in (delta.content, delta.reasoning, delta.reasoning_content):
            self._digest.update((part or "").encode())
        self._digest.update(_without_ids(calls))
        if delta.content or delta.reasoning or delta.reasoning_content or calls:
            return True
        return delta.content is not None and delta.role is None

    def sample(self, cell: Cell, number: int, prompt_id: str, now: float, *, measured: bool) -> Sample:
        """What the request showed, now that it is over."""
        usage = self._usage or _Usage()
        output = usage.completion_tokens or 0
        if not self.error and not self._done:
            self.error = "the stream broke off"
        if not self.error and (self._first is None or not output):
            self.error = (
                "the answer holds no usage" if self._first is not None else "the answer holds no token"
            )
        told = None if cell.candidate.is_baseline else self._told
        if told is not None and not _adds_up(told):
            told = None
        first = self._started if self._first is None else self._first
        return Sample(
            cell=cell,
            round=number,
            prompt_id=prompt_id,
            measured=measured,
            error=self.error,
            seconds=now - self._started,
            ttft=None if self._first is None else first - self._started,
            prompt_tokens=usage.prompt_tokens or 0,
            output_tokens=output,
            decode_tokens=max(0, output - 1),
            decode_seconds=self._last - first,
            steps=None if told is None else told.num_spec_steps,
            drafted=None if told is None else told.num_draft_tokens,
            accepted=None if told is None else told.num_accepted_draft_tokens,
            histogram=() if told is None else tuple(told.acceptance_histogram),
            digest=self._digest.hexdigest()[:16],
            finish=self._finish,
        )


def _adds_up(told: _Speculative) -> bool:
    """Whether speculation numbers do not contradict each other."""
    accepted = sum(place * steps for place, steps in enumerate(told.acceptance_histogram))
    return (
        sum(told.acceptance_histogram) == told.num_spec_steps
        and accepted == told.num_accepted_draft_tokens <= told.num_draft_tokens
    )


def _without_ids(calls: bytes) -> bytes:
    """Tool calls without their ids, which are drawn anew for each answer."""
    if not calls:
        return b""
    listed = msgspec.json.decode(calls)
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            one.pop("id", None)
    return msgspec.json.encode(listed)
