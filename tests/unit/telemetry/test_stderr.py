from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.telemetry.stderr import write

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of the second comes out, one by one, what was written at once to the first."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with first, second:
        yield first, second


def test_lines_of_several_processes_do_not_mix_in_a_pipe(pair: tuple[socket.socket, socket.socket]) -> None:
    """A pipe takes 4096 bytes whole, so no more are written at once, and whole lines only."""
    into, out = pair
    lines = [b"x" * 500 + b"\n"] * 20 + [b"m" * 9000 + b"\n"] + [b"y" * 500 + b"\n"] * 20
    write(b"".join(lines), into.fileno())
    into.close()
    writes = list(iter(lambda: out.recv(2**16), b""))
    assert b"".join(writes) == b"".join(lines)
    assert all(each.endswith(b"\n") for each in writes)
    assert [len(each) > 4096 for each in writes].count(True) == 1
    assert len(writes) < 12


def test_they_go_to_stderr(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write(b"a\nb\n")
    assert capfdbinary.readouterr().err == b"a\nb\n"


def test_without_stderr_no_other_file_is_written_to(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    with pytest.raises(OSError, match="without stderr"):
        write(b"a\n")
    assert capfd.readouterr().err == ""
