"""Processes under measurement: start them on one CPU, read what they use, stop them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 5.0


def cpus() -> tuple[int, int]:
    """The CPU of the gateway and that of mock and load; the same one where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[min(1, len(usable) - 1)]


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def start(
    command: Sequence[str],
    cpu: int | str,
    *,
    env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
) -> subprocess.Popen[str]:
    """Start a command on one CPU, or on several as ``taskset`` lists them, as leader of a session.

    Input and output are pipes unless it writes a log.
    """
    return subprocess.Popen(  # noqa: S603 - commands of the benchmark's own
        ["taskset", "-c", str(cpu), *command],  # noqa: S607 - whichever there is
        env={**os.environ, "NO_PROXY": "127.0.0.1", **(env or {})},
        stdin=subprocess.PIPE if log is None else subprocess.DEVNULL,
        stdout=subprocess.PIPE if log is None else log,
        stderr=None if log is None else log,
        text=True,
        start_new_session=True,
    )


def _stat(pid: int | str) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the third on."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()


def session(leader: int) -> list[int]:
    """All processes of the session that one leads."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int(_stat(entry.name)[3]) == leader:
                    members.append(int(entry.name))
    return members


def cpu_seconds(leader: int) -> float:
    """CPU time that the session has used, user and system, in steps of 10 ms."""
    used = 0
    for pid in session(leader):
        with contextlib.suppress(OSError):
            fields = _stat(pid)
            used += int(fields[11]) + int(fields[12])
    return used / _TICKS


def peak_mb(leader: int) -> float:
    """Largest resident set so far, in MB, summed over the session."""
    kb = 0
    for pid in session(leader):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    kb += int(line.split()[1])
    return kb / 1024


def busy_seconds() -> dict[int, float]:
    """CPU time used on each CPU by anything."""
    busy = {}
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("cpu") and line[3].isdigit():
            name, *fields = line.split()
            user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields[:8])
            busy[int(name[3:])] = (user + nice + system + irq + softirq) / _TICKS
    return busy


def stop(process: subprocess.Popen[str], first: int = signal.SIGTERM) -> None:
    """End a session: with a signal, and after some seconds without mercy."""
    for number in (first, signal.SIGKILL):
        for pid in session(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + _STOP_SECONDS
        while session(process.pid) and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
