"""Questions to a server or the gateway through the OpenAI SDK, answered down to the bytes."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import openai

from tests.vllm import chain
from tests.vllm.servers import SERVED_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

CONTEXT_WORDS: Final = (chain.LOOPING + 3, chain.LOOPING + 40)
"""Words before the last one of a prompt, which do not steer the answer."""

_CREATED: Final = re.compile(rb'"created":\d+')
_PIECE: Final = re.compile(rb'(data: .*?"(?:content|text)":")((?:[^"\\]|\\.)*)(".*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The objects of a stream, without the closing ``[DONE]``."""
        *events, done, rest = self.body.split(b"\n\n")
        assert (done, rest) == (b"data: [DONE]", b"")
        return [json.loads(event.removeprefix(b"data: ")) for event in events]


def sdk(url: str, **options: Any) -> openai.OpenAI:
    """An SDK client that tries once."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, **options)


def question(
    last: int = chain.UNREPEATED,
    *,
    endpoint: str = "chat",
    request_id: str = "",
    backend: str = "",
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Arguments of the SDK for a greedy request.

    Args:
        last: Token that the prompt ends in.
        endpoint: ``chat`` or ``completions``.
        request_id: Sent as ``x-request-id``, so that the answer's id is known.
        backend: Backend that the gateway is to use.
        headers: Further headers.
        fields: Body fields; they win over the usual ones.
    """
    prompt = chain.text([*CONTEXT_WORDS, last])
    sent = {"x-request-id": request_id, "x-specroute-backend": backend, **(headers or {})}
    return {
        "model": SERVED_MODEL,
        "max_tokens": 40,
        "temperature": 0,
        "extra_headers": {name: value for name, value in sent.items() if value},
        **(
            {"prompt": prompt}
            if endpoint == "completions"
            else {"messages": [{"role": "user", "content": prompt}]}
        ),
        **fields,
    }


def ask(url: str, last: int = chain.UNREPEATED, *, endpoint: str = "chat", **more: Any) -> Answer:
    """Send a request as :func:`question` makes it and read the whole answer as it came."""
    with sdk(url) as client:
        resource = client.completions if endpoint == "completions" else client.chat.completions
        arguments = question(last, endpoint=endpoint, **more)
        try:
            with resource.with_streaming_response.create(**arguments) as response:
                return Answer(response.status_code, response.headers, b"".join(response.iter_bytes()))
        except openai.APIStatusError as error:
            return Answer(error.response.status_code, error.response.headers, error.response.read())


def dateless(body: bytes) -> bytes:
    """An answer without the second it was made in."""
    return _CREATED.sub(b'"created":0', body)


def joined(stream: bytes) -> bytes:
    """A stream with neighbouring pieces of text in one event, all other bytes kept.

    A server puts two steps into one event when its client's task is late, so where the pieces are cut is a
    matter of chance.
    """
    pieces: list[tuple[bytes, bytes, bytes]] = []
    for event in dateless(stream).split(b"\n\n"):
        match = _PIECE.fullmatch(event)
        head, text, tail = match.groups() if match else (event, b"", b"")
        if match and pieces and pieces[-1][0] == head and b'"finish_reason":null' in pieces[-1][2]:
            text = pieces.pop()[1] + text
        pieces.append((head, text, tail))
    return b"\n\n".join(b"".join(piece) for piece in pieces)


def eventually(read: Callable[[], T], wanted: Callable[[T], bool], within: float = 20.0) -> T:
    """What is read as soon as it is as wanted, or at the latest after so many seconds."""
    deadline = time.monotonic() + within
    while not wanted(value := read()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value
