"""Comments that keep a silent stream alive through proxies that cut idle connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.runtime import clock, tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.runtime.alarms import Alarms
    from gateway.wire.client import Client
    from gateway.wire.headers import Headers

COMMENT: Final = b": keep-alive\n\n"


class KeepAlive:
    """Sends a comment whenever nothing went to the client for an interval, also before the first byte.

    The first comment commits the status line, so an error that comes later is told as an event.
    """

    __slots__ = ("_alarm", "_alarms", "_client", "_headers", "_interval")

    def __init__(
        self, client: Client, alarms: Alarms, interval: float, headers: Callable[[], Headers]
    ) -> None:
        """Begin to watch.

        Args:
            client: Whom to write to.
            alarms: Those of the loop.
            interval: Seconds of silence before a comment.
            headers: Gives the headers of the stream, if a comment is the first that is sent.
        """
        self._client = client
        self._alarms = alarms
        self._interval = interval
        self._headers = headers
        self._alarm = alarms.at(clock.monotonic() + interval, self._look)

    def close(self) -> None:
        """Send no more."""
        self._alarm.off()

    def _look(self) -> None:
        now = clock.monotonic()
        due = self._client.last_sent + self._interval
        if due <= now:
            due = now + self._interval
            tasks.spawn(self._comment(), name="keep-alive")
        self._alarm = self._alarms.at(due, self._look)

    async def _comment(self) -> None:
        client = self._client
        if client.finished or client.gone or client.quiet or not client.between_events:
            return
        if client.writing:
            return  # a client that does not keep up has enough to read
        if not client.started:
            await client.start(200, self._headers())
        await client.comment(COMMENT)
