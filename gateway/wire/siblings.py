"""What concerns all workers of a gateway when a request for it reaches one: metrics, reloads, the page."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from gateway.wire.client import Message, Receive, Scope, Send

HEADER: Final = b"x-specroute-sibling"
"""On what one worker asks of another, which is not to ask the others in turn."""

_OF_THE_CONNECTION: Final = frozenset({
    b"host", b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"content-encoding",
    b"accept-encoding",
})  # fmt: skip
_PAGE_TIMEOUT: Final = 20.0
"""Seconds between two chunks; the stream of decisions says nothing for as long as nothing ends."""

_ENDLESS: Final = "text/event-stream"
"""Type of answers that are passed on as they come. They may end anywhere: browsers ask again."""

TIMEOUT: Final = 2.0
"""Seconds that a worker may take to answer another; after that it is left out."""

SPOKESMAN: Final = 0
"""The worker that the status page shows: it asks several times a second, and must see one and the same."""

_END: Final = "# EOF"
"""Last line of OpenMetrics; Prometheus' own format has none."""

_log = logging.getLogger(__name__)


class Siblings:
    """Goes before a worker's application.

    Metrics come from all workers, a reload goes to all, and the status page is that of the first.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        addresses: Sequence[str],
        own: int,
        *,
        body_limit: int,
    ) -> None:
        """Go before an application.

        Args:
            app: The worker's own.
            addresses: Of all workers.
            own: Which of them this is.
            body_limit: Largest request body, in bytes.
        """
        self._app = app
        self._addresses = addresses
        self._own = own
        self._body_limit = body_limit
        self._client = httpx.AsyncClient(trust_env=False, timeout=TIMEOUT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        asked = (scope["method"], scope["path"]) if scope["type"] == "http" else None
        if asked is not None and all(name != HEADER for name, _ in scope["headers"]):
            if self._own != SPOKESMAN and _of_the_page(asked[1]):
                await self._forward(scope, receive, send)
                return
            if asked == ("GET", "/metrics"):
                await self._metrics(scope, send)
                return
            if asked == ("POST", "/-/reload"):
                others = [address for number, address in enumerate(self._addresses) if number != self._own]
                await asyncio.gather(*(self._ask("POST", address + "/-/reload") for address in others))
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """Close the connections to the others."""
        await self._client.aclose()

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the first worker answer; if it is not there, or the body is too large, this one does."""
        body = bytearray()
        while (event := await receive())["type"] == "http.request":
            body += event.get("body", b"")
            if not event.get("more_body") or len(body) > self._body_limit:
                break
        if len(body) > self._body_limit or not await self._asked(scope, bytes(body), send):
            await self._app(scope, _behind(bytes(body), receive), send)

    async def _asked(self, scope: Scope, body: bytes, send: Send) -> bool:
        """Whether the first worker has answered; if not, nothing was sent yet."""
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1")
        url = f"{self._addresses[SPOKESMAN]}{path}{f'?{query}' if query else ''}"
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_THE_CONNECTION]
        headers.append((HEADER, b"1"))
        begun = False
        try:
            async with self._client.stream(
                scope["method"], url, headers=headers, content=body, timeout=_PAGE_TIMEOUT
            ) as answer:
                given = [(n.lower(), v) for n, v in answer.headers.raw if n.lower() not in _OF_THE_CONNECTION]
                if not answer.headers.get("content-type", "").startswith(_ENDLESS):
                    await answer.aread()  # all or nothing: half of a page must not look like all of it
                begun = True
                await send({"type": "http.response.start", "status": answer.status_code, "headers": given})
                async for chunk in answer.aiter_bytes():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx.HTTPError as error:
            _log.warning("the first worker gives no answer: %r", error)
        if begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return begun

    async def _metrics(self, scope: Scope, send: Send) -> None:
        # The format that is asked for decides whether there are exemplars.
        accept = next((value for name, value in scope["headers"] if name == b"accept"), b"*/*")
        asking = (self._ask("GET", address + "/metrics", accept) for address in self._addresses)
        answers = [
            (number, answer)
            for number, answer in enumerate(await asyncio.gather(*asking))
            if answer is not None and answer.status_code == 200
        ]
        body = merged((number, answer.text) for number, answer in answers).encode()
        kind = answers[0][1].headers["content-type"] if answers else "text/plain"
        headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200 if answers else 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _ask(self, method: str, url: str, accept: bytes = b"*/*") -> httpx.Response | None:
        try:
            return await self._client.request(method, url, headers={HEADER: b"1", b"accept": accept})
        except httpx.HTTPError as error:
            _log.warning("worker at %s gives no answer: %r", url, error)
            return None


def _behind(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, then what else comes of the client, which is that it leaves."""
    read = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": read.pop()} if read else await receive()

    return again


def _of_the_page(path: str) -> bool:
    return path in {"/ui", "/-/board"} or path.startswith("/ui/")


def merged(texts: Iterable[tuple[int, str]]) -> str:
    """Metrics of several workers in one text, told apart by the label ``worker``.

    Args:
        texts: Number and text of each worker; all as OpenMetrics, or none.
    """
    families: dict[str, tuple[dict[str, None], list[str]]] = {}
    ends = False
    for number, text in texts:
        samples: list[str] = []
        for line in text.splitlines():
            if line == _END:
                ends = True
            elif line.startswith("# "):
                comments, samples = families.setdefault(line.split(" ", 3)[2], ({}, []))
                comments[line] = None
            elif line:
                samples.append(_labelled(line, number))
    if not families:
        return ""
    lines = [line for comments, samples in families.values() for line in (*comments, *samples)]
    return "\n".join([*lines, *[_END] * ends, ""])


def _labelled(sample: str, number: int) -> str:
    # Braces behind the value are those of an exemplar.
    name, brace, rest = sample.partition("{")
    if not brace or " " in name:
        name, _, value = sample.partition(" ")
        return f'{name}{{worker="{number}"}} {value}'
    separator = "" if rest.startswith("}") else ","
    return f'{name}{{worker="{number}"{separator}{rest}'
