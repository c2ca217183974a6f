"""The responses that a server has given and keeps, to be asked for and gone on from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.asgi import Request

ONE: Final = "/v1/responses/{response_id}"
CANCEL: Final = f"{ONE}/cancel"

_BEFORE: Final = "/v1/responses/"
_refusal: Final = partial(RefusalError, kind="invalid_request_error", param="response_id")
_encode: Final = msgspec.json.Encoder().encode


def path_of(path: str) -> str:
    """The route of a path: itself, unless it holds the id of a response."""
    if not path.startswith(_BEFORE):
        return path
    identity, slash, deed = path.removeprefix(_BEFORE).partition("/")
    return f"{ONE}{slash}{deed}" if identity else path


class Held(NamedTuple):
    """One of them.

    Attributes:
        response: Its body.
        turns: The conversation up to its end, as messages of a chat.
    """

    response: dict[str, Any]
    turns: Sequence[object]


class Stored:
    """Those of one server, in its memory alone; none is ever forgotten, as in vLLM."""

    def __init__(self, *, kept: bool) -> None:
        """Begin with none; without ``kept`` it stays so."""
        self._kept = kept
        self._held: dict[str, Held] = {}

    def keep(self, one: Held) -> None:
        """Keep a response."""
        if self._kept:
            self._held[one.response["id"]] = one

    def find(self, identity: str) -> Held:
        """A response that was given before.

        Raises:
            RefusalError: It is not here.
        """
        if (found := self._held.get(identity)) is None:
            raise _refusal(f"Response with id '{identity}' not found.", status=404)
        return found

    async def give(self, request: Request) -> None:
        """Answer to :data:`ONE`."""
        await request.reply(_encode(self._asked_for(request).response))

    async def cancel(self, request: Request) -> None:
        """Refuse :data:`CANCEL`: nothing runs any more that is kept."""
        self._asked_for(request)
        raise _refusal("Cannot cancel a synchronous response.")

    def _asked_for(self, request: Request) -> Held:
        return self.find(request.path.split("/")[3])
