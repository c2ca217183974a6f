"""Where the gateway's time goes: the top functions of the request path and of the chunk path, by sampling."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from tests.bench.contenders import CONTENDERS, specroute

if TYPE_CHECKING:
    from rich.console import Console

    from tests.bench.cases import Case
    from tests.bench.measure import Bench

CASES: Final = ("small64", "paced64", "prompt200k")
"""Cases that are profiled unless others are named."""

_SECONDS: Final = 10.0
"""Of load: some thousand samples."""

_FILE_SECONDS: Final = 10.0


def profile(bench: Bench, case: Case, top: int, seconds: float = _SECONDS) -> Table:
    """Run a case at a gateway that samples itself.

    Args:
        bench: Where to run.
        case: What to run.
        top: Functions to show.
        seconds: Of load.
    """
    place = bench.place(f"profile-{case.name}")
    file = place.folder / "profile"
    command = specroute(place, command=(sys.executable, "-m", "tests.bench.profiled", str(file)))
    with bench.running(command, place, CONTENDERS["specroute"]) as (target, process):
        figures = bench.run(
            target,
            replace(case, seconds=seconds),
            before=lambda: process.send_signal(signal.SIGUSR1),
            after=lambda: process.send_signal(signal.SIGUSR2),
        )
        deadline = time.monotonic() + _FILE_SECONDS
        while not file.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the gateway wrote no profile")
            time.sleep(0.05)
    return _table(case, figures, json.loads(file.read_text()), top)


def _table(case: Case, figures: dict[str, Any], profiled: dict[str, Any], top: int) -> Table:
    unit = "chunk" if case.stream else "request"
    units = figures["events" if case.stream else "requests"]
    cost = figures["gateway_cpu"] / units * 1e6
    table = Table(
        title=f"{case.title}: {cost:.1f} µs of CPU per {unit}, {profiled['samples']} samples",
        title_justify="left",
    )
    for name in ("own µs", "with callees µs"):
        table.add_column(name, justify="right")
    table.add_column("function", overflow="fold")
    for path, line, function, own, total in sorted(profiled["functions"], key=lambda row: -row[3])[:top]:
        share = cost / profiled["samples"]
        table.add_row(f"{own * share:.1f}", f"{total * share:.1f}", f"{_short(path)}:{line} {function}")
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
