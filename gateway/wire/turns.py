"""The turns of a conversation: from the messages of a body, its prompt or its input."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from gateway.core.features import Turn
from gateway.runtime.foreign import UNREADABLE
from gateway.wire import crowds
from gateway.wire.parameters import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEAD_CHARS: Final = 3000
"""Characters kept of the beginning of a text."""

TAIL_CHARS: Final = 1000
"""Characters kept of its end."""

_TOKEN_CHARS: Final = 4

T = TypeVar("T")
D = TypeVar("D")


class _Part(msgspec.Struct):
    type: str | None = ""
    text: str | None = ""
    content: msgspec.Raw = msgspec.Raw()


_Content: TypeAlias = str | list[_Part | str] | None


class Message(msgspec.Struct):
    """A message of a chat, or an item of a conversation in the shape of responses."""

    role: str | None = ""
    type: str | None = ""
    content: _Content = None
    tool_calls: msgspec.Raw = msgspec.Raw()
    output: _Content = None


_MESSAGES: Final = msgspec.json.Decoder(list[Message])
_MESSAGE: Final = msgspec.json.Decoder(Message)
_CONTENT: Final = msgspec.json.Decoder(_Content)
_PROMPT: Final = msgspec.json.Decoder(str | list[str])
_PROMPTS: Final = msgspec.json.Decoder(list[str])
RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])

_NO_CALLS: Final = ABSENT | {b"[]"}
_OF_MESSAGES: Final = frozenset({None, "", "message"})
_ROLES: Final = {"developer": "system", "function": "tool"}


def decode(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes, otherwise: D) -> T | D:
    """Reads one field, or nothing where it is absent or of a strange shape: the backend judges it."""
    if not raw:
        return otherwise
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return otherwise


def _turn(role: str, *texts: str, calls_tool: bool = False) -> Turn:
    """A turn of one text or several, of which no more than the sample is copied."""
    chars = sum(map(len, texts)) + max(len(texts) - 1, 0)
    if chars <= HEAD_CHARS + TAIL_CHARS:
        text = "\n".join(texts)
    else:
        text = f"{_beginning(texts, HEAD_CHARS)}\n{_beginning(texts, TAIL_CHARS, backwards=True)}"
    return Turn(_ROLES.get(role, role), text, chars, calls_tool)


def _beginning(texts: Sequence[str], room: int, *, backwards: bool = False) -> str:
    """So many characters of what texts begin with, or end with, a line break between each two."""
    taken: list[str] = []
    for text in reversed(texts) if backwards else texts:
        if room <= 0:
            break
        taken.append(text[-room:] if backwards else text[:room])
        room -= len(text) + 1
    return "\n".join(reversed(taken) if backwards else taken)


def _texts(content: _Content) -> list[str]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    texts = (part if isinstance(part, str) else part.text for part in content)
    return [text for text in texts if text]


def _item(message: Message, kind: str) -> tuple[Turn, ...]:
    """An item of responses that is no message; reasoning, references and the like are nobody's turn."""
    if kind.endswith("_call_output"):
        return (_turn("tool", *_texts(message.output)),)
    return (Turn("assistant", "", 0, calls_tool=True),) if kind.endswith("_call") else ()


def _results(message: Message) -> list[Turn]:
    """What tools gave back, of a user's message in the shape of messages."""
    if message.role != "user" or not isinstance(message.content, list):
        return []
    parts = (part for part in message.content if isinstance(part, _Part) and part.type == "tool_result")
    return [_turn("tool", *_texts(decode(_CONTENT, part.content, None))) for part in parts]


def _calls(message: Message) -> bool:
    if message.role != "assistant":
        return False
    blocks = message.content if isinstance(message.content, list) else ()
    return bytes(message.tool_calls) not in _NO_CALLS or any(
        isinstance(part, _Part) and part.type == "tool_use" for part in blocks
    )


def _message(message: Message) -> Sequence[Turn]:
    """The turns of one message, in the shape of chat completions, responses or messages."""
    if not message.role and message.type not in _OF_MESSAGES:
        return _item(message, message.type or "")
    results, texts = _results(message), _texts(message.content)
    if results and not texts:
        return results
    return (*results, _turn(message.role or "user", *texts, calls_tool=_calls(message)))


def _all(messages: Iterable[Message]) -> Iterator[Turn]:
    return chain.from_iterable(map(_message, messages))


def _sample(array: bytes) -> Turn:
    """The beginning and the end of what could not be taken apart, as it is written."""
    head = array[: 4 * HEAD_CHARS].decode("utf-8", "replace")
    tail = array[-4 * TAIL_CHARS :].decode("utf-8", "replace")
    return Turn("user", f"{head[:HEAD_CHARS]}\n{tail[-TAIL_CHARS:]}", len(array))


def _whole(decoder: msgspec.json.Decoder[list[T]], arrays: Iterable[bytes]) -> list[T]:
    """The items of the first array that is one."""
    return next(filter(None, (decode(decoder, array, None) for array in arrays)), [])


def messages(raw: msgspec.Raw | list[Message]) -> Iterator[Turn]:
    """Those of a list that was read, or is yet to be: then a strange one is passed over."""
    if isinstance(raw, list):
        yield from _all(raw)
        return
    if crowds.crowded(array := bytes(raw)):
        first = _whole(_MESSAGES, crowds.first_messages(array))
        last = _whole(_MESSAGES, crowds.last_messages(array))
        yield from _all(first)
        yield Turn("assistant", "", len(array)) if last else _sample(array)
        yield from _all(last)
        return
    found = decode(_MESSAGES, raw, None)
    if found is None:
        each = (decode(_MESSAGE, item, None) for item in decode(RAWS, raw, []))
        found = [message for message in each if message is not None]
    yield from _all(found)


def prompt(raw: msgspec.Raw) -> Iterator[Turn]:
    """A prompt or input: a text, several, token ids, several lists of them, or messages."""
    array = bytes(raw)
    if (tokens := crowds.numbers(array)) is not None:
        yield Turn("user", "", tokens * _TOKEN_CHARS)
        return
    if crowds.crowded(array):
        if texts := _whole(_PROMPTS, crowds.first_texts(array)):
            yield from (_turn("user", text) for text in texts)
            yield Turn("user", "", len(array))
        else:
            yield from messages(raw)
        return
    found = decode(_PROMPT, raw, None)
    if found is None:
        yield from messages(raw)
    else:
        yield from (_turn("user", text) for text in ([found] if isinstance(found, str) else found))


def prompts(raw: msgspec.Raw) -> int:
    """How many prompts there are: texts, or lists of token ids; 1 where that cannot be told."""
    if bytes(memoryview(raw)[:1]) != b"[":
        return 1
    array = bytes(raw)
    if crowds.numbers(array) is not None:
        found = array.count(b"[") - 1
    elif crowds.crowded(array):
        found = array.count(b'"') // 2
    else:
        found = len(decode(_PROMPTS, array, []))
    return max(1, found)


def system(raw: msgspec.Raw) -> Iterator[Turn]:
    """A system prompt that stands beside the messages."""
    if not crowds.crowded(bytes(raw)) and (texts := _texts(decode(_CONTENT, raw, None))):
        yield _turn("system", *texts)
