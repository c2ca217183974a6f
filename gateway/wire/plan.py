"""What every attempt at a request has in common, and what an attempt leaves for the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.values import value

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from gateway.core.fleet import Backend
    from gateway.core.policy import Timeouts
    from gateway.runtime.alarms import Alarms
    from gateway.wire.headers import Headers
    from gateway.wire.tape import Tape


@value(frozen=True, slots=True)
class Answer:
    """An answer held back: its status says that another backend may do better."""

    status: int
    headers: Headers
    body: bytes


@value(frozen=True, slots=True)
class Plan:
    """What every attempt at a request has in common.

    Attributes:
        stream: The request asked for a stream, so that a first byte is due early.
        choices: How many the answer has.
        usage: The client asked for the usage at the end of its stream.
        strip_usage: We did, so that it is left out of what the client gets.
        tape: Takes down what is delivered where another backend may go on with it.
        deadline: Monotonic seconds at which the whole request must have ended.
        dress: Adds our headers to a backend's before they go to the client.
        alarms: Those of the loop.
        task: The one that makes the attempts.
    """

    endpoint: str
    stream: bool
    choices: int
    usage: bool
    strip_usage: bool
    tape: Tape | None
    timeouts: Timeouts
    deadline: float
    dress: Callable[[Headers, Backend], Headers]
    alarms: Alarms
    task: asyncio.Task[object]
