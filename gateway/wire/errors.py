"""OpenAI-shaped errors, as bodies and as stream events; the one place that maps refusals to HTTP."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.core import reasons
from gateway.core.identifiers import is_model
from gateway.runtime.foreign import UNREADABLE

if TYPE_CHECKING:
    from gateway.core.decide import NoCandidate
    from gateway.wire.headers import Headers

RETRY_AFTER_SECONDS: Final = 1

_NAMED: Final = frozenset({"messages", "responses"})
"""Endpoints whose events have names."""

_KINDS: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""OpenAI's error types by status, where it is neither the server's fault nor plainly the request's."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer: a value, written to the client by the edge.

    Attributes:
        status: HTTP status.
        type: OpenAI's error type, such as ``invalid_request_error``.
        code: Machine-readable code.
        param: Request field at fault, if one is.
        retry_after: Seconds after which trying again makes sense.
    """

    status: int
    message: str
    type: str
    code: str
    param: str | None = None
    retry_after: int | None = None

    def body(self, endpoint: str = "") -> bytes:
        """The JSON body, in the form that clients of an endpoint know."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode(({"type": "error"} if endpoint == "messages" else {}) | {"error": error})

    def response_headers(self) -> Headers:
        """Headers of the answer without its length."""
        headers: Headers = [(b"content-type", b"application/json")]
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        return headers


def event(body: bytes, endpoint: str = "", number: int = 0) -> bytes:
    """The body of an error as a server-sent event of the form that clients of an endpoint know.

    Those of ``messages`` pass over an event without a name. Those of ``responses`` read what went wrong
    beside the type; their Python client raises only where there is an ``error`` as well.

    Args:
        body: An object with an ``error``, as :meth:`Problem.body` and :func:`said` give it.
        endpoint: Name of the endpoint.
        number: What the event is numbered, for ``responses``.
    """
    if endpoint not in _NAMED:
        return b"".join(b"data: " + line + b"\n" for line in body.splitlines()) + b"\n"
    error = msgspec.json.decode(body)["error"]
    told = {"type": "error", "error": error}
    if endpoint == "responses":
        told |= {name: error.get(name) for name in ("code", "message", "param")} | {"sequence_number": number}
    return b"event: error\ndata: " + msgspec.json.encode(told) + b"\n\n"


def said(body: bytes, status: int, backend: str) -> bytes:
    """The body of a backend's error answer as one that every client can read: an object with an ``error``.

    What has that form stays as it is; of what has another, the message is kept if there is one.
    """
    fields: dict[str, object] = {}
    with suppress(*UNREADABLE):
        fields = msgspec.json.decode(body, type=dict[str, object])
    if isinstance(fields.get("error"), dict):
        return body
    given = [fields.get(name) for name in ("error", "message", "detail")]
    message = next((one for one in given if isinstance(one, str)), "")
    kind = "server_error" if status >= 500 else _KINDS.get(status, "invalid_request_error")
    return Problem(
        status, message or f"backend {backend} answered with status {status}", kind, "upstream_error"
    ).body()


def invalid(message: str, *, param: str | None = None, code: str = "invalid_request") -> Problem:
    """The request cannot be understood (400)."""
    return Problem(400, message, "invalid_request_error", code, param)


def too_large(limit: int) -> Problem:
    """The body passes the limit, in bytes (413)."""
    return Problem(
        413, f"the request body is larger than {limit} bytes", "invalid_request_error", "request_too_large"
    )


def head_too_large(status: int, message: str) -> Problem:
    """What comes before the body passes a limit (414, 431)."""
    return Problem(status, message, "invalid_request_error", "request_too_large")


def unknown_coding(message: str) -> Problem:
    """The body comes in a coding that this server does not know (501)."""
    return Problem(501, message, "invalid_request_error", "unknown_transfer_encoding")


def no_such_model(message: str) -> Problem:
    """Nothing is called what the request names (404)."""
    return Problem(404, message, "invalid_request_error", "model_not_found", "model")


def refused(no: NoCandidate, model: str) -> Problem:
    """No backend can take the request, which names this model."""
    if no.kind == reasons.UNKNOWN_MODEL:
        return no_such_model(no.detail if is_model(model) else no.detail.replace(f"`{model}`", "asked for"))
    if no.kind == reasons.NO_ROUTE:
        return Problem(404, no.detail, "invalid_request_error", no.kind)
    if no.kind == reasons.UNKNOWN_BACKEND:
        return Problem(400, no.detail, "invalid_request_error", no.kind)
    if no.kind == reasons.PIN_NOT_ALLOWED:
        return Problem(403, no.detail, "invalid_request_error", no.kind)
    wait = RETRY_AFTER_SECONDS if no.back_in is None else max(RETRY_AFTER_SECONDS, ceil(no.back_in))
    if no.busy:
        busy = f"all backends are busy: {no.detail}"
        return Problem(429, busy, "rate_limit_error", no.kind, retry_after=wait)
    return Problem(503, f"no backend is available: {no.detail}", "server_error", no.kind, retry_after=wait)


def unreachable(backend: str, error: str) -> Problem:
    """A backend failed without an answer (502, or 504 for a timeout)."""
    if error.startswith("timeout"):
        return Problem(
            504, f"backend {backend} did not answer in time ({error})", "server_error", "upstream_timeout"
        )
    return Problem(502, f"backend {backend} failed ({error})", "server_error", "upstream_error")


def broken_off(backend: str, error: str) -> Problem:
    """A backend failed in the middle of its answer."""
    return Problem(
        502, f"backend {backend} broke off its answer ({error})", "server_error", "upstream_broken_off"
    )


INTERNAL: Final = Problem(
    500, "the gateway failed on this request; its log says why", "server_error", "internal_error"
)

GOING_DOWN: Final = Problem(
    503, "the gateway is shutting down", "server_error", "shutting_down", retry_after=RETRY_AFTER_SECONDS
)
"""The answer to what is still open when the time to finish it has passed."""

OVERLOADED: Final = Problem(
    503,
    "the gateway has as many requests open as it may",
    "server_error",
    reasons.OVERLOADED,
    retry_after=RETRY_AFTER_SECONDS,
)
"""The answer to a request beyond those that may be open at once."""

TOO_SLOW: Final = Problem(
    408,
    "the request took longer to arrive than it may take in all",
    "invalid_request_error",
    "request_timeout",
)
"""The answer to a request for which no time is left once it is there."""
