"""Going on with a stream on another backend: the request that continues it, and the splice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from gateway.core.outcome import Usage
from gateway.core.resume import COPIED, obstacle, obstacle_in
from gateway.runtime.foreign import UNREADABLE
from gateway.wire import headers as names
from gateway.wire.chunks import decode, error_class
from gateway.wire.crowds import crowded
from gateway.wire.sse import BORDER, DONE, Held, event_data
from gateway.wire.upstream import UpstreamError

if TYPE_CHECKING:
    from gateway.core.features import Features
    from gateway.core.fleet import Backend
    from gateway.wire.chunks import Body, Choice
    from gateway.wire.reading import Reading
    from gateway.wire.tape import Tape
    from gateway.wire.upstream import Upstream, UpstreamRequest, UpstreamResponse

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_WHOLE: Final = msgspec.json.Decoder(dict[str, Any])
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CONTEXT_TOKENS: Final = 8
"""Prompt tokens decoded before the answer's: how a piece is spelled may depend on what stands before it."""

_TRAILING_TOKENS: Final = 8
"""Most tokens at the end whose text was not given out yet: parts of one character."""


_COMPLETION_TOKENS: Final = 16
"""Tokens that a text completion gets where it sets no limit (vLLM's ``CompletionRequest.max_tokens``)."""


def may_go_on(features: Features, body: bytes) -> bool:
    """Whether another backend could go on with the answer to this request so that nobody sees the seam."""
    if obstacle(features) is not None or crowded(body):  # a crowd is not taken apart, which takes seconds
        return False
    try:
        return obstacle_in(_WHOLE.decode(body)) is None
    except UNREADABLE:
        return False


class Splice:
    """The tap on a stream that goes on with another: what it gives out looks like the rest of the first.

    Attributes:
        reading: The account of the whole answer.
        done: Whether ``[DONE]`` was seen.
        error: Data of an error event that was kept back.
    """

    cut = False  # what has no end is never given out

    __slots__ = ("_chat", "_held", "_new", "_strip_usage", "_tape", "done", "error", "reading")

    def __init__(self, tape: Tape, reading: Reading, *, strip_usage: bool) -> None:
        """Go on with what a tape holds.

        Args:
            tape: What was delivered.
            reading: The account of it, to be added to.
            strip_usage: The client did not ask for usage.
        """
        self.reading = reading
        self.reading.error = ""
        self.done = False
        self.error = b""
        self._tape = tape
        self._new = 0  # ids that came by this stream
        self._chat = tape.object.startswith("chat")
        self._strip_usage = strip_usage
        self._held = Held()

    @property
    def between_events(self) -> bool:
        """Whether what was given out so far ends with an event: always."""
        return True

    def passes(self, chunk: bytes, now: float) -> bool:  # noqa: ARG002 - as StreamTap's
        """Whether bytes can be passed on as they are: never."""
        return False

    def feed(self, chunk: bytes, now: float) -> bytes:
        """Take bytes as they arrived and return those to pass on."""
        if (data := self._held.completed(chunk)) is None:
            return b""
        given: list[bytes] = []
        start = 0
        for border in BORDER.finditer(data):
            given.append(self._event(event_data(data[start : border.start()]), now))
            start = border.end()
        self._held.hold(data[start:])
        return b"".join(given)

    def end(self, *, broken: bool = False) -> bytes:  # noqa: ARG002 - as StreamTap's
        """``[DONE]``, if that is held back when the stream ends: whatever else has no border was cut off."""
        rest = event_data(self._held.take())
        return self._event(rest, 0.0) if rest == DONE else b""

    def _event(self, data: bytes, now: float) -> bytes:
        if self.error:  # what follows an error is kept back with it, [DONE] above all
            return b""
        if data == DONE:
            self.done = True
            return b"data: [DONE]\n\n"
        body = decode(data) if data else None
        if body is None:
            return b""
        if body.error is not None:
            self.error = data
            self.reading.error = error_class(body.error)
            return b""
        if not body.choices:
            return self._usage(body, data)
        ids = body.choices[0].token_ids
        text = body.choices[0].text or ""
        self._tape.ids += ids or ()
        self._new += len(ids or ())
        self._tape.text.append(text)
        self._tape.whole = self._tape.whole and (bool(ids) or not text)
        self.reading.token_event(now)
        if body.choices[0].finish_reason:
            self.reading.finish_reason = body.choices[0].finish_reason
        return self._wrapped({"choices": [self._choice(body.choices[0], text)]})

    def _choice(self, said: Choice, text: str) -> dict[str, Any]:
        if not self._chat:
            return {
                "index": 0, "text": text, "logprobs": None, "finish_reason": said.finish_reason,
                "stop_reason": said.stop_reason, "prompt_token_ids": None, "token_ids": None,
            }  # fmt: skip
        choice = {
            "index": 0,
            "delta": {"content": text},
            "logprobs": None,
            "finish_reason": said.finish_reason,
        }
        if said.finish_reason:
            choice["stop_reason"] = said.stop_reason
        return choice | {"token_ids": None}

    def _usage(self, body: Body, data: bytes) -> bytes:
        if body.usage is None or body.usage.completion_tokens is None:
            return b""
        prompt = len(self._tape.prompt_ids)
        answer = len(self._tape.ids) - self._new + body.usage.completion_tokens
        self.reading.usage = Usage(prompt, answer, self.reading.usage.cached_tokens)
        if self._strip_usage:
            return b""
        usage = {"prompt_tokens": prompt, "total_tokens": prompt + answer, "completion_tokens": answer}
        fields: dict[str, Any] = {"choices": [], "usage": usage}
        if (fingerprint := _FIELDS.decode(data).get("system_fingerprint")) is not None:
            fields["system_fingerprint"] = fingerprint
        return self._wrapped(fields)

    def _wrapped(self, fields: dict[str, Any]) -> bytes:
        tape = self._tape
        head = {"id": tape.id, "object": tape.object, "created": tape.created, "model": tape.model}
        return b"data: " + msgspec.json.encode(head | fields) + b"\n\n"


class _Spelled(msgspec.Struct):
    prompt: str


class _Room(msgspec.Struct):
    max_model_len: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a backend goes on with what a tape holds.

    Attributes:
        upstream: Connections.
        backend: Who is to go on.
        tape: What was delivered.
        body: The client's request.
    """

    upstream: Upstream
    backend: Backend
    tape: Tape
    body: bytes

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> UpstreamResponse:
        """Find out what to ask for, ask for it, and wait for status and headers.

        Ids whose text was not given out yet, parts of a character, are taken off the tape: the backend makes
        them anew.

        Args:
            request: Where to and with which headers.
            connect_timeout: Seconds within which a connection must stand.

        Raises:
            UpstreamError: The backend failed, or cannot go on: it spells the delivered ids otherwise than
                they were delivered, or there is no room.
        """

        async def ask(path: str, payload: dict[str, Any], answer: type[_Answer]) -> _Answer:
            url, said = self.backend.url + path, msgspec.json.encode(payload)
            return await self._answer(replace(request, url=url, body=said), connect_timeout, answer)

        async def spelled(ids: list[int]) -> str:
            if not ids:
                return ""
            payload = {"model": self.backend.served_model, "tokens": ids}
            return (await ask("/detokenize", payload, _Spelled)).prompt

        tape = self.tape
        context = tape.prompt_ids[-_CONTEXT_TOKENS:]
        before, text = await spelled(context), "".join(tape.text)
        for kept in range(len(tape.ids), max(0, len(tape.ids) - _TRAILING_TOKENS) - 1, -1):
            whole = await spelled(context + tape.ids[:kept])
            if whole.removeprefix(before) == text:
                del tape.ids[kept:]
                break
        else:
            raise _cannot("it does not spell the delivered tokens as they were delivered")
        room = await ask("/tokenize", {"model": self.backend.served_model, "prompt": ""}, _Room)
        body = self._request(room.max_model_len)
        response = await self.upstream.send(replace(request, body=body), connect_timeout)
        content_type = names.media_type(names.first(response.headers, b"content-type") or b"")
        if response.status < 400 and content_type != b"text/event-stream":
            await response.close()
            raise UpstreamError("headers", "protocol", f"a stream was asked for, not {content_type!r}")
        return response

    async def _answer(
        self, request: UpstreamRequest, connect_timeout: float, expected: type[_Answer]
    ) -> _Answer:
        response = await self.upstream.send(request, connect_timeout)
        try:
            said = b"".join([chunk async for chunk in response.body()])
        finally:
            await response.close()
        if response.status != 200:
            failed = response.status >= 500 or response.status == 429
            why = f"{request.url} answered {response.status}"
            raise UpstreamError("first_byte", f"status:{response.status}", why) if failed else _cannot(why)
        try:
            return msgspec.json.decode(said, type=expected)
        except UNREADABLE as error:
            raise UpstreamError("first_byte", "protocol", f"{request.url}: {error}") from error

    def _limit(self, given: dict[str, msgspec.Raw]) -> int | None:
        """Tokens that the whole answer may have; as vLLM reads it, a chat's newer name goes first."""
        chat = self.tape.object.startswith("chat")
        for name in ("max_completion_tokens", "max_tokens") if chat else ("max_tokens",):
            try:
                limit = msgspec.json.decode(given.get(name, b"null"), type=int | None)
            except UNREADABLE as error:
                raise _cannot(f"{name}: {error}") from error
            if limit is not None:
                return limit
        return None if chat or "max_tokens" in given else _COMPLETION_TOKENS

    def _request(self, room: int) -> bytes:
        """Body of the request that goes on, for a context of so many tokens."""
        tape, given = self.tape, _FIELDS.decode(self.body)
        delivered = len(tape.ids)
        left = room - len(tape.prompt_ids) - delivered
        if (limit := self._limit(given)) is not None:
            left = min(left, limit - delivered)
        if left < 1:
            raise _cannot("the answer was complete but for its end")
        request: dict[str, Any] = {name: given[name] for name in COPIED if name in given}
        request |= {
            "model": self.backend.served_model,
            "prompt": tape.prompt_ids + tape.ids,
            "max_tokens": left,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        return msgspec.json.encode(request)


def _cannot(why: str) -> UpstreamError:
    return UpstreamError("first_byte", "cannot_go_on", why)
