from __future__ import annotations

import socket

import pytest

from backends.hosts import is_here, overlap, port_is_free

SAME = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.0.0.1",
    "127.1",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
]
ANY = ["0.0.0.0", "::", "[::]"]


@pytest.mark.parametrize("host", [*SAME, *ANY])
def test_names_of_one_address_want_the_same_ports(host: str) -> None:
    assert is_here(host)
    assert all(overlap(host, other) and overlap(other, host) for other in [*SAME, *ANY])


def test_other_addresses_do_not() -> None:
    assert not overlap("127.0.0.1", "127.0.0.2")
    assert not overlap("10.0.0.5", "10.0.0.6")
    assert overlap("10.0.0.5", "0.0.0.0")
    assert overlap("fe80::1", "fe80:0::1")


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "a" * 300, "ä" * 70])
def test_an_address_elsewhere_is_not_here(host: str) -> None:
    assert not is_here(host)


@pytest.mark.parametrize(
    ("host", "listening"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),
    ],
)
def test_a_port_is_taken_while_somebody_listens(host: str, listening: str) -> None:
    with socket.create_server((listening, 0)) as listener:
        port = listener.getsockname()[1]
        assert not port_is_free(host, port)
    assert port_is_free(host, port)


def test_a_port_of_ipv6_is_looked_at_too() -> None:
    assert port_is_free("::1", 1) in (True, False)
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with listener:
        assert not port_is_free("::1", listener.getsockname()[1])


def test_what_stands_for_no_address_has_no_port_that_is_taken() -> None:
    assert port_is_free("no-such-host.invalid", 80)
