"""The routes of the page: the page itself, its parts, its data, and the stream of decisions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from gateway.ui import heat, parts
from gateway.ui.board import WINDOWS
from gateway.ui.markup import join, tag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gateway.policy.explain import Explanation
    from gateway.ui.board import Board
    from gateway.ui.decisions import Decisions

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""Nothing comes from outside, and nothing inline runs."""

_TYPES: Final = {"js": "text/javascript", "css": "text/css", "txt": "text/plain", "svg": "image/svg+xml"}
_STATIC: Final = resources.files("gateway.ui") / "static"

_STREAMS: Final = 32
"""Viewers of the stream at most; further ones see the rest of the page."""

_STREAM_SECONDS: Final = 10.0
"""How long a stream lasts; browsers come back by themselves. A shutdown waits for it no longer than this."""

_LOOK_SECONDS: Final = 0.5
_AT_ONCE: Final = 12
"""Lines of one look: faster than that nobody reads."""

_DIGITS: Final = 18
"""Of a number of a decision; Python refuses to read one of thousands."""

Shown = Annotated[str, Query(pattern=f"^({'|'.join(heat.SHOWN)})$")]
Window = Annotated[int, Query(ge=min(WINDOWS), le=max(WINDOWS))]


@dataclass(slots=True)
class Page:
    """The page over the objects of one gateway. What adds up numbers does so in a thread.

    Attributes:
        board: What is shown of the traffic.
        decisions: The last requests.
        status: Gives what ``/status`` says.
        explained: Gives where a request with this body would go, or what is wrong with the body.
        models: Gives the names that clients may send as ``model``.
        workers: Processes of the gateway, of which this is one.
    """

    board: Board
    decisions: Decisions
    status: Callable[[], dict[str, Any]]
    explained: Callable[[bytes], Awaitable[Explanation | str]]
    models: Callable[[], list[str]]
    body_limit: int
    workers: int = 1
    _viewers: int = field(default=0, init=False)

    def router(self) -> APIRouter:
        """All of them."""
        routes = APIRouter(include_in_schema=False)
        routes.get("/ui")(self.page)
        routes.get("/ui/live")(self.live)
        routes.get("/ui/data")(self.data)
        routes.get("/ui/decisions")(self.stream)
        routes.post("/ui/explain")(self.explain)
        routes.get("/ui/static/{name:path}")(self.static)
        routes.get("/-/board")(self.numbers)
        return routes

    async def page(self) -> Response:
        """The page; it fetches its parts."""
        return HTMLResponse((_STATIC / "page.html").read_bytes(), headers=HEADERS)

    async def static(self, name: str) -> Response:
        """A file of the page."""
        path = _STATIC.joinpath(*name.split("/"))
        kind = _TYPES.get(name.rpartition(".")[2])
        if ".." in name.split("/") or kind is None or not path.is_file():
            return Response("not found\n", 404, media_type="text/plain", headers=HEADERS)
        return Response(path.read_bytes(), media_type=kind, headers=HEADERS)

    def numbers(self, window: Window = 300) -> JSONResponse:
        """The traffic of the last seconds, the last decisions, and what ``/status`` says, as data."""
        return JSONResponse(
            {
                **self.board.state(window),
                "workers": self.workers,
                "status": self.status(),
                "decisions": [
                    {name: getattr(line, name) for name in line.__slots__}
                    for line in self.decisions.after(0, 50)[::-1]
                ],
            }
        )

    def live(self, show: Shown = "speed", window: Window = 300) -> Response:
        """The parts that change."""
        found, status = self.board.state(window), self.status()
        backends = status["fleet"]["backends"]
        body = join(
            parts.live(
                "totals-part",
                tag("ul", parts.totals(found["totals"]), class_="tiles"),
                parts.share(self.workers),
            ),
            parts.live("heat-part", heat.heat_map(found["cells"], backends, show)),
            parts.live("positions-part", parts.positions(found["positions"])),
            parts.live("fleet-part", parts.fleet([*backends, *status["fleet"].get("stand_ins", [])])),
            parts.live("policy-part", parts.policy(status["policy"])),
            parts.live("advice-part", parts.advice(status["learning"])),
        )
        return HTMLResponse(body, headers=HEADERS)

    def data(self, window: Window = 300) -> JSONResponse:
        """What the charts draw."""
        positions = self.board.state(window)["positions"]
        return JSONResponse(
            {"positions": positions, "over_time": self.board.over_time(), "models": self.models()}
        )

    async def explain(self, request: Request) -> Response:
        """Where a pasted request would go; nothing is sent, and it is not kept."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self.body_limit:
                return HTMLResponse(parts.mistake("This is more than a request may have."), headers=HEADERS)
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        found = await self.explained(_request(form.get("request", [""])[0], form.get("model", [""])[0]))
        shown = parts.mistake(found) if isinstance(found, str) else parts.explanation(found)
        return HTMLResponse(shown, headers=HEADERS)

    async def stream(self, request: Request) -> Response:
        """Finished requests as they end, as server-sent events."""
        if self._viewers >= _STREAMS:
            return Response("too many viewers\n", 503, media_type="text/plain", headers=HEADERS)
        seen = request.headers.get("last-event-id", "")
        known = seen.isascii() and seen.isdecimal() and len(seen) <= _DIGITS
        after = int(seen) if known else max(0, self.decisions.last - _AT_ONCE)
        return StreamingResponse(self._events(after), media_type="text/event-stream", headers=HEADERS)

    async def _events(self, after: int) -> AsyncIterator[bytes]:
        self._viewers += 1
        try:
            yield b"retry: 500\n\n"
            for _ in range(round(_STREAM_SECONDS / _LOOK_SECONDS)):
                for line in self.decisions.after(min(after, self.decisions.last), _AT_ONCE):
                    yield f"event: decision\nid: {line.number}\ndata: {parts.decision(line)}\n\n".encode()
                after = self.decisions.last
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._viewers -= 1


def _request(text: str, model: str) -> bytes:
    """The body to explain: what was pasted if it is JSON, else a chat with it."""
    import json  # noqa: PLC0415

    if text.lstrip().startswith("{"):
        return text.encode()
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()
