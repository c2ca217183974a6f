"""Header names that leave the process, and which headers may cross the gateway."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

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
STAND_INS: Final = b"x-specroute-stand-ins"
SESSION: Final = b"x-session-id"
ORIGIN: Final = b"origin"

FOR_ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
"""Lets pages of other sites read an answer, as vLLM does unless told otherwise."""

_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization",
    b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

SECRETS: Final = frozenset({
    b"authorization", b"x-authorization", b"cookie", b"x-api-key",
    b"api-key", b"x-goog-api-key", b"anthropic-api-key", b"openai-api-key", b"x-litellm-api-key",
    b"ocp-apim-subscription-key", b"x-functions-key", b"x-auth-key", b"apikey", b"x-apikey",
    b"x-auth-token", b"x-access-token", b"x-api-token", b"x-token", b"x-csrf-token", b"x-amz-security-token",
    b"x-forwarded-access-token", b"x-amzn-oidc-accesstoken", b"x-amzn-oidc-data", b"x-goog-iap-jwt-assertion",
    b"cf-access-client-secret", b"cf-access-jwt-assertion", b"x-ms-token-aad-access-token",
    b"hf-token", b"private-token", b"x-vault-token", b"x-portkey-api-key", b"helicone-auth",
    b"x-client-secret", b"x-secret", b"x-key", b"x-auth", b"x-user-token", b"x-openai-key",
    b"x-jwt-assertion",
})  # fmt: skip
"""Headers by which clients and the proxies before us show who they are: not the backend's business."""

_SECRET_QUERY: Final = frozenset({
    b"api_key", b"api-key", b"apikey", b"key", b"token", b"access_token", b"auth", b"subscription-key",
})  # fmt: skip
"""Fields of a query that do the same."""

_NOT_TO_BACKENDS: Final = _HOP_BY_HOP | SECRETS | {
    b"host", b"content-length", b"expect",
    b"accept-encoding",  # answers are relayed as they come, so none may be compressed
    REQUEST_ID, TRACEPARENT, TRACESTATE, WORKLOAD, BACKEND, TENANT, POLICY, STAND_INS,
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
    if b"connection" in dict(kept):
        for name, value in kept:
            if name == b"connection":
                dropped |= {token.strip().lower() for token in value.split(b",")}
    return [header for header in kept if header[0] not in dropped]


def without_secrets(query: bytes) -> bytes:
    """A query string less the fields by which clients show who they are."""
    if not query:
        return query
    fields = query.split(b"&")
    return b"&".join(
        one for one in fields if unquote_to_bytes(one.partition(b"=")[0]).lower() not in _SECRET_QUERY
    )


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Value of the first header of that lower-case name."""
    for key, value in headers:  # next() takes twice as long
        if key == name:
            return value
    return None


def media_type(value: bytes) -> bytes:
    """Type and subtype of a content type, in lower case, without parameters."""
    return value.partition(b";")[0].strip().lower()


def retry_after(headers: Iterable[tuple[bytes, bytes]], now: float) -> float | None:
    """Seconds that an answer asks to wait; None where it says nothing intelligible.

    Args:
        headers: Of the answer. A date counts from the one in ``Date``, so that clocks need not agree.
        now: Unix seconds, for an answer without ``Date``.
    """
    given = {name: value.decode("latin-1").strip() for name, value in headers}
    wanted = given.get(b"retry-after", "")
    if wanted.isascii() and wanted.replace(".", "", 1).isdigit():
        seconds = float(wanted)
        return seconds if math.isfinite(seconds) else None
    until = _date(wanted)
    since = _date(given.get(b"date", "")) or datetime.fromtimestamp(now, UTC)
    return None if until is None else max(0.0, (until - since).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return date.replace(tzinfo=date.tzinfo or UTC)
