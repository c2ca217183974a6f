"""What was delivered of a stream, by token ids, so that another backend can go on from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.wire.chunks import Body

_IDS: Final = re.compile(rb'token_ids":\[[^\]]*\]')


class Tape:
    """Taken down while a stream passes.

    Attributes:
        id: Id of the answer.
        object: Its kind, such as ``chat.completion.chunk``.
        created: Its time, unix seconds.
        model: Its model.
        prompt_ids: Token ids of the prompt; empty if the backend did not tell.
        ids: Token ids delivered.
        text: Pieces of text delivered.
        whole: Whether every piece of text came with its ids; without them nobody can go on.
    """

    __slots__ = ("created", "id", "ids", "model", "object", "prompt_ids", "text", "whole")

    def __init__(self) -> None:
        self.rewind()

    def rewind(self) -> None:
        """Begin anew, for an attempt of which nothing was delivered yet."""
        self.id = ""
        self.object = ""
        self.created = 0
        self.model = ""
        self.prompt_ids: list[int] = []
        self.ids: list[int] = []
        self.text: list[str] = []
        self.whole = True

    @property
    def can_go_on(self) -> bool:
        """Whether what was delivered is known by its ids.

        Before the first text of a chat nobody knows what a parser keeps back: the ids may be of reasoning.
        """
        begun = bool(self.text) or not self.object.startswith("chat")
        return self.whole and bool(self.prompt_ids) and begun

    def take(self, body: Body) -> None:
        """Take down a chunk."""
        if not self.id and body.id:
            self.id, self.object = body.id, body.object or ""
            self.created, self.model = body.created or 0, body.model or ""
        if body.prompt_token_ids:
            self.prompt_ids = body.prompt_token_ids
        for choice in body.choices or ():
            if choice.prompt_token_ids:
                self.prompt_ids = choice.prompt_token_ids
            said = choice.text if choice.delta is None else choice.delta.content
            if said:
                self.text.append(said)
            if choice.token_ids:
                self.ids += choice.token_ids
            elif said:
                self.whole = False
            if choice.delta is not None and (
                choice.delta.calls_tool() or choice.delta.reasoning or choice.delta.reasoning_content
            ):
                self.whole = False

    @staticmethod
    def mask(events: bytes) -> bytes:
        """Events as they look to a client that did not ask for token ids."""
        return _IDS.sub(b'token_ids":null', events) if b'token_ids":[' in events else events
