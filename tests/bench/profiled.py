"""The gateway under cProfile, as a process: SIGUSR1 begins to profile, SIGUSR2 ends and writes the file.

So imports and warm-up are left out. Usage: ``python -m tests.bench.profiled FILE COMMAND OF SPECROUTE...``
"""

from __future__ import annotations

import cProfile
import signal
import sys

from gateway.cli import main


def run() -> None:
    """Run the command with a profiler at hand."""
    file = sys.argv.pop(1)
    profile = cProfile.Profile()

    def begin(*_: object) -> None:
        profile.enable()

    def end(*_: object) -> None:
        profile.disable()
        profile.dump_stats(file)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    main()


if __name__ == "__main__":
    run()
