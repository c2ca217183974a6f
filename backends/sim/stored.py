"""The responses that a server has given and keeps, to be asked for and gone on from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.asgi import Request
    from backends.sim.background import Work

ONE: Final = "/v1/responses/{response_id}"
CANCEL: Final = f"{ONE}/cancel"

QUEUED: Final = "queued"
"""Status of a response in the background until it is whole, be it begun or not."""

_YES: Final = frozenset({"true", "1", "yes", "on", "t", "y"})
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
        work: Makes it, or has made it, in the background.
    """

    response: dict[str, Any]
    turns: Sequence[object]
    work: Work | None = None


class Stored:
    """Those of one server, in its memory alone; none is ever forgotten, as in vLLM."""

    def __init__(self, *, kept: bool) -> None:
        """Begin with none; without ``kept`` it stays so."""
        self._kept = kept
        self._held: dict[str, Held] = {}

    @property
    def keeps(self) -> bool:
        """Whether the server was started to keep any."""
        return self._kept

    def keep(self, one: Held) -> None:
        """Keep a response; one that was cancelled stays so."""
        identity = one.response["id"]
        if self._kept and not self._is(identity, "cancelled"):
            self._held[identity] = one

    def fail(self, identity: str) -> None:
        """Say that a response came to nothing."""
        self._say(identity, "failed")

    def _is(self, identity: str, status: str) -> bool:
        return identity in self._held and self._held[identity].response["status"] == status

    def _say(self, identity: str, status: str) -> dict[str, Any]:
        held = self._held[identity]
        response = held.response | {"status": status}
        self._held[identity] = held._replace(response=response)
        return response

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
        held, asked = self._asked_for(request), request.query
        if asked.get("stream", "").lower() not in _YES:
            await request.reply(_encode(held.response))
        elif held.work is None:
            raise _refusal(f"Unknown response_id: {held.response['id']}")
        else:
            await held.work.follow(request, int(asked.get("starting_after", -1)) + 1)

    async def cancel(self, request: Request) -> None:
        """Answer to :data:`CANCEL`."""
        held = self._asked_for(request)
        if held.response["status"] != QUEUED or held.work is None:
            raise _refusal("Cannot cancel a synchronous response.")
        response = self._say(held.response["id"], "cancelled")
        await held.work.cancel()
        await request.reply(_encode(response))

    def _asked_for(self, request: Request) -> Held:
        return self.find(request.path.split("/")[3])
