"""Where the gateway's time goes: the top functions of the request path and of the chunk path, by cProfile."""

from __future__ import annotations

import pstats
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from tests.bench.contenders import CONTENDERS, specroute

if TYPE_CHECKING:
    import subprocess

    from rich.console import Console

    from tests.bench.cases import Case
    from tests.bench.measure import Bench

CASES: Final = ("small64", "paced64", "prompt200k")
"""Cases that are profiled unless others are named."""

_FILE_SECONDS: Final = 10.0


def profile(bench: Bench, case: Case, top: int) -> Table:
    """Run a case at a profiled gateway.

    The profiler about doubles the time and makes small Python functions look dearer than they are: read the calls
    per unit and the order, and take times from an ordinary run.

    Args:
        bench: Where to run.
        case: What to run.
        top: Functions to show.
    """
    place = bench.place(f"profile-{case.name}")
    file = place.folder / "profile"
    command = specroute(place, python=(sys.executable, "-m", "tests.bench.profiled", str(file)))
    with bench.running(command, place, CONTENDERS["specroute"]) as (target, process):
        figures = bench.run(target, case, before=lambda: _begin(process), after=lambda: _end(process, file))
    return _table(case, figures, pstats.Stats(str(file)), top)


def _begin(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGUSR1)


def _end(process: subprocess.Popen[str], file: Path) -> None:
    process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + _FILE_SECONDS
    size = -1
    while time.monotonic() < deadline:
        now = file.stat().st_size if file.exists() else -1
        if 0 < now == size:
            return
        size = now
        time.sleep(0.2)
    raise TimeoutError("the gateway wrote no profile")


def _table(case: Case, figures: dict[str, Any], stats: pstats.Stats, top: int) -> Table:
    units = figures["events" if case.stream else "requests"]
    unit = "chunk" if case.stream else "request"
    rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])  # type: ignore[attr-defined] # untyped
    rows = [row for row in rows if row[0][2] != "<method 'disable' of '_lsprof.Profiler' objects>"]
    table = Table(title=f"{case.title}: {units} {unit}s, µs under the profiler", title_justify="left")
    for name in (f"calls/{unit}", f"own µs/{unit}", f"with callees µs/{unit}"):
        table.add_column(name, justify="right")
    table.add_column("function", overflow="fold")
    for (path, line, function), (_, calls, own, total, _) in rows[:top]:
        table.add_row(
            f"{calls / units:.2f}",
            f"{own / units * 1e6:.2f}",
            f"{total / units * 1e6:.2f}",
            function if path == "~" else f"{_short(path)}:{line} {function}",
        )
    return table


def _short(path: str) -> str:
    parts = Path(path).parts
    for root in ("site-packages", "gateway"):
        if root in parts:
            return "/".join(parts[parts.index(root) + (root != "gateway") :])
    return "/".join(parts[-2:])


def show(bench: Bench, cases: list[Case], top: int, console: Console) -> None:
    """Profile each case and print what was found."""
    for case in cases:
        with console.status(f"profiling {case.name}"):
            table = profile(bench, case, top)
        console.print(table)
