"""Where a request goes, and its head as it goes over the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from gateway.wire.upstream import UpstreamRequest

_line: Final = b"%b: %b\r\n".__mod__
"""A header as a line."""

_CLEAN: Final = re.compile(r"[!\"$-~]*")
"""What may stand in a request line as it is: printable ASCII without space and number sign."""

_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_BODILESS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
"""Methods for which no body need not be told by a length of 0."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A backend's address.

    Attributes:
        authority: Value of the Host header.
    """

    host: str
    port: int
    tls: bool
    authority: bytes


@lru_cache(maxsize=1024)
def split(url: str) -> tuple[str, str]:
    """Part a complete URL into its base (scheme and authority) and its target (path and query)."""
    border = url.find("/", url.find("://") + 3)
    base, target = (url, "/") if border < 0 else (url[:border], url[border:])
    if _CLEAN.fullmatch(target):
        return base, target
    return base, quote(target.partition("#")[0], safe=_PRINTABLE)


@lru_cache(maxsize=4096)
def origin(base: str) -> Origin:
    """Read the address in a URL's base.

    Raises:
        ValueError: It is none that this client speaks to.
    """
    parts = urlsplit(base)
    plain = parts.scheme in {"http", "https"} and not (parts.path or parts.query or parts.fragment)
    if not plain or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"no http(s)://host:port in {base!r}")
    tls = parts.scheme == "https"
    return Origin(parts.hostname, parts.port or (443 if tls else 80), tls, parts.netloc.encode("ascii"))


def head(request: UpstreamRequest, target: str, authority: bytes) -> bytes:
    """The request's head.

    Raises:
        ValueError: A header holds a line break or a null byte and would be read as something else.
    """
    lines = list(map(_line, request.headers))
    if request.body or request.method not in _BODILESS:
        lines.append(b"content-length: %d\r\n" % len(request.body))
    start = f"{request.method} {target} HTTP/1.1\r\nhost: ".encode("ascii")
    written = b"%b%b\r\n%b\r\n" % (start, authority, b"".join(lines))
    breaks = len(lines) + 3
    if written.count(b"\n") != breaks or written.count(b"\r") != breaks or b"\0" in written:
        raise ValueError("a header holds a line break or a null byte")
    return written
