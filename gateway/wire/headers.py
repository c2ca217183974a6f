"""Header names that leave the process, and which headers may cross the gateway."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
"""Raw headers in order, names in lower case, as ASGI has them."""

REQUEST_ID: Final = b"x-request-id"
TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"
WORKLOAD: Final = b"x-specroute-workload"
BACKEND: Final = b"x-specroute-backend"
TENANT: Final = b"x-specroute-tenant"
POLICY: Final = b"x-specroute-policy"
SESSION: Final = b"x-session-id"

_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization",
    b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

_NOT_TO_BACKENDS: Final = _HOP_BY_HOP | {
    b"host", b"content-length", b"expect",
    b"accept-encoding",  # answers are relayed as they come, so none may be compressed
    b"authorization", b"cookie", b"x-api-key",  # the client's secrets are not the backend's business
    REQUEST_ID, TRACEPARENT, TRACESTATE, WORKLOAD, BACKEND, TENANT, POLICY,
}  # fmt: skip

_NOT_TO_CLIENTS: Final = _HOP_BY_HOP | {
    b"content-length",  # set anew where the answer is held whole
    b"date",
    b"server",
    b"set-cookie",
    REQUEST_ID,
    WORKLOAD,
    BACKEND,
    POLICY,
}


def to_backend(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The client's headers that go on to a backend."""
    return _without(headers, _NOT_TO_BACKENDS)


def to_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The backend's headers that go on to the client."""
    return _without(headers, _NOT_TO_CLIENTS)


def _without(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    """Headers less those dropped and those that ``Connection`` names as its own (RFC 9110, 7.6.1)."""
    kept = list(headers)
    for name, value in kept:
        if name == b"connection":
            dropped |= {token.strip().lower() for token in value.split(b",")}
    return [(name, value) for name, value in kept if name not in dropped]


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Value of the first header of that lower-case name."""
    return next((value for key, value in headers if key == name), None)


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Seconds that an answer asks to wait, by its sender's clock; None where it says nothing intelligible."""
    given = {name: value.decode("latin-1").strip() for name, value in headers}
    wanted = given.get(b"retry-after", "")
    if wanted.isascii() and wanted.isdigit():
        return float(wanted)
    try:
        wait = parsedate_to_datetime(wanted) - parsedate_to_datetime(given.get(b"date", ""))
    except (ValueError, TypeError):  # no date, or one with a time zone and one without
        return None
    return max(0.0, wait.total_seconds())
