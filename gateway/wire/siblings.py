"""What concerns all workers of a gateway when a request for it reaches one of them: metrics and reloads."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from gateway.wire.client import Receive, Scope, Send

HEADER: Final = b"x-specroute-sibling"
"""On what one worker asks of another, which is not to ask the others in turn."""

TIMEOUT: Final = 2.0
"""Seconds that a worker may take to answer another; after that it is left out."""

_log = logging.getLogger(__name__)


class Siblings:
    """Goes before a worker's application: metrics come from all workers, and a reload goes to all."""

    def __init__(
        self, app: Callable[[Scope, Receive, Send], Awaitable[None]], addresses: Sequence[str], own: int
    ) -> None:
        """Go before an application.

        Args:
            app: The worker's own.
            addresses: Of all workers.
            own: Which of them this is.
        """
        self._app = app
        self._addresses = addresses
        self._own = own
        self._client = httpx.AsyncClient(trust_env=False, timeout=TIMEOUT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        asked = (scope["method"], scope["path"]) if scope["type"] == "http" else None
        if asked in {("GET", "/metrics"), ("POST", "/-/reload")} and all(
            name != HEADER for name, _ in scope["headers"]
        ):
            if asked == ("GET", "/metrics"):
                await self._metrics(send)
                return
            others = [address for number, address in enumerate(self._addresses) if number != self._own]
            await asyncio.gather(*(self._ask("POST", address + "/-/reload") for address in others))
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """Close the connections to the others."""
        await self._client.aclose()

    async def _metrics(self, send: Send) -> None:
        asking = (self._ask("GET", address + "/metrics") for address in self._addresses)
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

    async def _ask(self, method: str, url: str) -> httpx.Response | None:
        try:
            return await self._client.request(method, url, headers={HEADER.decode(): "1"})
        except httpx.HTTPError as error:
            _log.warning("worker at %s gives no answer: %r", url, error)
            return None


def merged(texts: Iterable[tuple[int, str]]) -> str:
    """Metrics of several workers in one text of Prometheus' format, told apart by the label ``worker``."""
    families: dict[str, tuple[dict[str, None], list[str]]] = {}
    for number, text in texts:
        samples: list[str] = []
        for line in text.splitlines():
            if line.startswith("# "):
                comments, samples = families.setdefault(line.split(" ", 3)[2], ({}, []))
                comments[line] = None
            elif line:
                samples.append(_labelled(line, number))
    if not families:
        return ""
    lines = [line for comments, samples in families.values() for line in (*comments, *samples)]
    return "\n".join([*lines, ""])


def _labelled(sample: str, number: int) -> str:
    name, brace, rest = sample.partition("{")
    if not brace:
        name, _, value = sample.partition(" ")
        return f'{name}{{worker="{number}"}} {value}'
    separator = "" if rest.startswith("}") else ","
    return f'{name}{{worker="{number}"{separator}{rest}'
