"""Which addresses are this machine's, and which of them are the same to somebody who listens."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

_LOOPBACK: Final = "loopback"
_ANY: Final = "any"


def is_here(host: str) -> bool:
    """Whether a server on this machine can listen on an address, or a name that stands for one."""
    if _kind(host) in {_LOOPBACK, _ANY}:
        return True
    return any(_bound(family, address, 0) is None for family, address in _addresses(host))


def published(host: str, port: int) -> str:
    """What opens a container's port on its machine where the address of its URL leads, as Compose writes it.

    A name may stand for any address, so with one the port is open on all.
    """
    if _kind(host) == _LOOPBACK and host != "::1":
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{port}:{port}"
    shown = f"[{address}]" if address.version == 6 else str(address)
    return f"{shown}:{port}:{port}"


def port_is_free(host: str, port: int) -> bool:
    """Whether nobody listens on a port of this machine."""
    return not any(_bound(family, address, port) == errno.EADDRINUSE for family, address in _addresses(host))


def overlap(one: str, other: str) -> bool:
    """Whether two servers that listen on these addresses want the same ports."""
    kinds = _kind(one), _kind(other)
    return _ANY in kinds or kinds[0] == kinds[1]


def _kind(host: str) -> str:
    """An address in one spelling: the usual loopback addresses are one, and so are those for all of them."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return _LOOPBACK
    try:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(name)
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(name))  # 127.1 and the like
        except OSError:
            return name
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_unspecified:
        return _ANY
    return _LOOPBACK if str(address) in {"127.0.0.1", "::1"} else str(address)


def _addresses(host: str) -> list[tuple[int, str]]:
    """Families and addresses that a name stands for; none where it stands for nothing."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [(family, str(place[0])) for family, _, _, _, place in found]


def _bound(family: int, address: str, port: int) -> int | None:
    """The error on binding to a port, 0 for any; None where it can be bound to."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As servers do, so that connections of one that has ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as error:
        return error.errno
    return None
