"""The gateway with a sampling profiler in it, as a process: SIGUSR1 begins, SIGUSR2 ends and writes the file.

Samples follow CPU time, so what runs beside it and what it waits for leave no trace, and nothing is slowed down. A
sample in C (a system call, uvloop, a regular expression) counts for the Python function that called it, or, where
the loop itself called, for the one the loop calls next. Usage: ``python -m tests.bench.profiled FILE ARGUMENTS``.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli import main

if TYPE_CHECKING:
    from types import CodeType, FrameType

_INTERVAL: Final = 0.001
"""Seconds of CPU time; the kernel rounds it up to its tick."""


class Sampler:
    """Counts of the functions seen: ``own`` at the top of the stack and ``all`` anywhere on it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.samples = 0
        self.own: Counter[CodeType] = Counter()
        self.all: Counter[CodeType] = Counter()

    def take(self, _: int, frame: FrameType | None) -> None:
        """Take a sample; a signal handler."""
        if frame is None:
            return
        self.samples += 1
        self.own[frame.f_code] += 1
        seen = set()
        while frame is not None:
            seen.add(frame.f_code)
            frame = frame.f_back
        self.all.update(seen)

    def dump(self, path: Path) -> None:
        """Write what was seen, at once."""
        rows = [
            [code.co_filename, code.co_firstlineno, code.co_qualname, self.own[code], count]
            for code, count in self.all.items()
        ]
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"samples": self.samples, "functions": rows}))
        part.rename(path)


def run() -> None:
    """Run the command with a sampler at hand."""
    path = Path(sys.argv.pop(1))
    sampler = Sampler()

    def begin(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)

    def end(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sampler.dump(path)

    signal.signal(signal.SIGPROF, sampler.take)
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    main()


if __name__ == "__main__":
    run()
