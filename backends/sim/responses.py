"""The shapes of ``/v1/responses``: a chat completion that is asked for and answered in other words."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from backends.sim.background import Work
from backends.sim.fields import Fields, RefusalError
from backends.sim.messages import text_of
from backends.sim.stored import QUEUED, Held
from backends.sim.validate import call_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backends.sim.asgi import Request
    from backends.sim.call import Call
    from backends.sim.exchange import Exchange
    from backends.sim.parts import Ending, Frame, Part, Whole
    from backends.sim.stored import Stored

_encode: Final = msgspec.json.Encoder().encode
_NOT_STORED: Final = "background can only be used when `store` is true (parameter=background)"
_NOT_KEPT: Final = (
    "This vLLM engine does not support `store=True` and therefore does not support the background mode. To "
    "enable these features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when launching "
    "the vLLM server."
)
_SAME: Final = ("model", "stream", "temperature", "top_p", "top_k", "metadata")


class Dialogue:
    """One request, and the conversation that it goes on with.

    Args:
        stored: The responses that the server keeps.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._turns: list[object] = []
        self._store = self._background = False
        self._work: Work | None = None
        self._shapes: ResponsesBodies | None = None

    def read(self, fields: Fields) -> Call:
        """The chat that a body asks for; of content, only text.

        Raises:
            RefusalError: A field is missing or of a wrong type, or there is no response that it goes on from.
        """
        body = fields.body
        given = body.get("input")
        if given is None:
            fields.add("missing", "input", "Field required", body)
        elif not isinstance(given, (str, list)):
            fields.add("string_type", "input", "Input should be a valid string", given)
            fields.add("list_type", "input", "Input should be a valid list", given)
        self._background, self._store = fields.boolean("background"), bool(body.get("store", True))
        limit = fields.integer("max_output_tokens")
        instructions, previous = fields.string("instructions"), fields.string("previous_response_id")
        fields.raise_if_invalid()
        if self._background and not self._store:
            raise RefusalError(_NOT_STORED, param="background")
        if self._background and not self._stored.keeps:
            raise RefusalError(_NOT_KEPT, kind="invalid_request_error", param="background")
        turns = self._turns
        if previous:
            turns += self._stored.find(previous).turns
        if isinstance(given, str):
            turns.append({"role": "user", "content": given})
        elif isinstance(given, list):
            turns += [turn for item in given for turn in _turns(item)]
        rules = [{"role": "system", "content": instructions}] if instructions else []
        chat: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
        return call_of(Fields(chat | {"messages": [*rules, *turns], "max_tokens": limit}), chat=True)

    def bodies(self, frame: Frame, call: Call) -> ResponsesBodies:
        """The shapes of the answer, which is kept once it is whole."""
        self._shapes = ResponsesBodies(frame, call, self._keep, background=self._background)
        return self._shapes

    async def run(self, exchange: Exchange, request: Request) -> None:
        """Answer; where that is to be made in the background, say so, or send its events as they come."""
        if not self._background:
            await exchange.run(request)
            return
        assert self._shapes is not None  # noqa: S101 - the exchange has it
        queued, work = self._shapes.queued(), Work()
        self._work = work
        self._stored.keep(Held(queued, [*self._turns], work))

        async def made(work: Work) -> None:
            await exchange.run(work)
            if work.failed:
                self._stored.fail(queued["id"])

        work.begin(made)
        if exchange.streams:
            await work.follow(request, 0)
        else:
            await request.reply(_encode(queued))

    def _keep(self, response: dict[str, Any], text: object) -> None:
        if self._store:
            turns = [*self._turns, {"role": "assistant", "content": text}]
            self._stored.keep(Held(response, turns, self._work))


def _turns(item: object) -> tuple[object, ...]:
    """The message that an item of the input stands for; none for reasoning, references and the like."""
    if not isinstance(item, dict) or item.get("role") or item.get("type", "message") == "message":
        return (item | {"content": text_of(item)} if isinstance(item, dict) else item,)
    kind = str(item.get("type"))
    if kind.endswith("_call_output"):
        said = text_of({"content": item.get("output")})
        return ({"role": "tool", "tool_call_id": item.get("call_id"), "content": said},)
    if not kind.endswith("_call"):
        return ()
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    called = {"id": item.get("call_id"), "type": "function", "function": function}
    return ({"role": "assistant", "content": "", "tool_calls": [called]},)


class ResponsesBodies:
    """The shapes of ``/v1/responses``.

    Args:
        frame: What all parts of the answer say.
        call: The request.
        keep: Gets the response once it is whole, and its text.
        background: Whether it is made there.
    """

    def __init__(
        self,
        frame: Frame,
        call: Call,
        keep: Callable[[dict[str, Any], object], None],
        *,
        background: bool,
    ) -> None:
        self._keep = keep
        self._background = background
        self._frame = frame
        self._call = call
        self._item = f"msg_{hashlib.sha256(frame.id.encode()).hexdigest()[:16]}"
        self._events = 0
        self._texts: list[str] = []
        self._ending: Ending | None = None

    def queued(self) -> dict[str, Any]:
        """The body of a response that is yet to be made."""
        return self._response(QUEUED, None, [], None, None)

    def opening(self, index: int) -> bytes:
        """The events that open the answer, its message and its text."""
        started = self._response("in_progress", None, [], None, None)
        part = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
        return b"".join(
            [
                self._event("response.created", {"response": started}),
                self._event("response.in_progress", {"response": started}),
                self._event(
                    "response.output_item.added",
                    {"item": self._message([], "in_progress"), "output_index": index},
                ),
                self._event("response.content_part.added", self._place() | {"part": part}),
            ]
        )

    def part(self, part: Part) -> bytes:
        """The event of some text."""
        self._ending = part.ending
        self._texts.append(part.text)
        if not part.text:
            return b""
        delta = self._place() | {"delta": part.text, "logprobs": []}
        return self._event("response.output_text.delta", delta)

    def closing(self, completion_tokens: int, metrics: dict[str, Any] | None) -> bytes:
        """The events after the text."""
        assert self._ending is not None  # noqa: S101 - a stream closes after its last part
        text, place = "".join(self._texts), self._place()
        content = _content(text)
        item = self._message([content], "completed")
        done = self._done(item, self._ending, completion_tokens, metrics)
        return b"".join(
            [
                self._event("response.output_text.done", place | {"text": text, "logprobs": []}),
                self._event("response.content_part.done", place | {"part": content}),
                self._event("response.output_item.done", {"item": item, "output_index": 0}),
                self._event("response.completed", {"response": done}),
            ]
        )

    def whole(
        self, choices: Sequence[Whole], completion_tokens: int, metrics: dict[str, Any] | None
    ) -> bytes:
        """The body of an answer that is not streamed."""
        item = self._message([_content(choices[0].text)], "completed")
        return _encode(self._done(item, choices[0].ending, completion_tokens, metrics))

    def _done(
        self, item: dict[str, Any], ending: Ending, completion_tokens: int, metrics: dict[str, Any] | None
    ) -> dict[str, Any]:
        cut = ending.reason == "length"
        prompt = self._frame.prompt_tokens
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": self._frame.cached_tokens or 0,
                "cache_write_tokens": 0,
                "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": completion_tokens,
            "output_tokens_details": {
                "reasoning_tokens": 0,
                "tool_output_tokens": 0,
                "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": prompt + completion_tokens,
        }
        reason = {"reason": "max_output_tokens"} if cut else None
        done = self._response("incomplete" if cut else "completed", reason, [item], usage, metrics)
        self._keep(done, text_of(item))
        return done

    def _response(
        self,
        status: str,
        incomplete: dict[str, str] | None,
        output: list[dict[str, Any]],
        usage: dict[str, Any] | None,
        metrics: dict[str, Any] | None,
    ) -> dict[str, Any]:
        call = self._call
        measured = {} if metrics is None else {"metrics": metrics}
        return {
            "id": self._frame.id,
            "created_at": self._frame.created,
            "incomplete_details": incomplete,
            "instructions": None,
            "metadata": None,
            "model": self._frame.model,
            "object": "response",
            "output": output,
            "parallel_tool_calls": True,
            "temperature": call.temperature,
            "tool_choice": "none",
            "tools": [],
            "top_p": call.top_p,
            "background": self._background,
            "max_output_tokens": self._frame.most_tokens,
            "max_tool_calls": None,
            "previous_response_id": None,
            "prompt": None,
            "reasoning": None,
            "service_tier": "auto",
            "status": status,
            "text": None,
            "top_logprobs": None,
            "truncation": "disabled",
            "usage": usage,
            "user": None,
            **measured,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "input_messages": None,
            "output_messages": None,
        }

    def _message(self, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
        return {
            "id": self._item,
            "content": content,
            "role": "assistant",
            "status": status,
            "type": "message",
            "phase": None,
        }

    def _place(self) -> dict[str, Any]:
        return {"content_index": 0, "item_id": self._item, "output_index": 0}

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        ordered = dict(sorted((fields | {"sequence_number": self._events, "type": kind}).items()))
        self._events += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(ordered))


def _content(text: str) -> dict[str, Any]:
    return {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
