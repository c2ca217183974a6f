"""What more workers carry, loaded from CPUs of their own; ``python -m tests.bench.workers``.

Each worker gets a CPU, two mocks one each, and four loads one each, so that the gateway is what is short. Runs with
one worker and with more take turns; figures are sums over the loads, and medians of the runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench import processes
from tests.bench.cases import CASES, Case
from tests.bench.contenders import Place, specroute
from tests.bench.load import as_argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOCKS: Final = 2
_LOADS: Final = 4
_READY_SECONDS: Final = 30.0

# Connections of each load: enough that a worker never waits for any.
SATURATING: Final = (
    replace(CASES["small64"], title="small requests"),
    replace(CASES["unpaced16"], title="streams without pause", connections=32),
    replace(
        CASES["paced64"], title="streams, a chunk each 10 ms", connections=256, seconds=4.0, stagger_us=400
    ),
)


@contextmanager
def running(place: Place, cpus: Sequence[int]) -> Iterator[int]:
    """Run the gateway with a worker for each CPU; gives the process that leads its session."""
    place.folder.mkdir()
    command = specroute(place, "--workers", str(len(cpus)))
    with (place.folder / "log").open("wb") as sink:
        process = processes.start(command, ",".join(map(str, cpus)), log=sink)
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while not _listens(place.port) and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.1)  # nothing tells when it listens
            yield process.pid
        finally:
            processes.stop(process)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def carried(port: int, leader: int, case: Case, cpus: Sequence[int]) -> dict[str, float]:
    """Load a gateway from several CPUs at once.

    Args:
        port: Of the gateway.
        leader: Process that leads its session.
        case: What each load does.
        cpus: One for each load.

    Returns:
        Units (chunks of streams, or requests) a second, CPU microseconds of a unit, and answers that were not whole.
    """
    command = [sys.executable, "-m", "tests.bench.load", "--port", str(port), "--case", as_argument(case)]
    with ExitStack() as stack:
        loads = []
        for cpu in cpus:
            loads.append(processes.start(command, cpu))
            stack.callback(processes.stop, loads[-1])
        for load in loads:
            _read(load)
        before = processes.cpu_seconds(leader)
        for load in loads:
            assert load.stdin is not None
            load.stdin.write("\n")
            load.stdin.flush()
        figures = [_read(load) for load in loads]
        used = processes.cpu_seconds(leader) - before
    units = sum(each["events" if case.stream else "requests"] for each in figures)
    seconds = max(each["seconds"] for each in figures)
    troubles = sum(sum(each["troubles"].values()) for each in figures)
    return {"rate": units / seconds, "micros": 1e6 * used / max(units, 1), "troubles": troubles}


def _read(load: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(load.stdout.readline())
    return found


def main() -> int:
    """Compare workers. Returns 1 if an answer was not whole, 2 where there are too few CPUs."""
    options = argparse.ArgumentParser(
        prog="python -m tests.bench.workers",
        description=__doc__,
        epilog="example: python -m tests.bench.workers --workers 2 --repetitions 3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--workers", type=int, default=2, help="to compare with one (default: 2)")
    options.add_argument("--repetitions", type=int, default=3, help="of everything, in turn (default: 3)")
    given = options.parse_args()
    usable = sorted(os.sched_getaffinity(0))
    needed = given.workers + _MOCKS + _LOADS
    if len(usable) < needed:
        print(f"{needed} CPUs are needed, of which {len(usable)} are here", file=sys.stderr)
        return 2
    gateway, mocks, loads = (
        usable[: given.workers], usable[given.workers : given.workers + _MOCKS], usable[-_LOADS:],
    )  # fmt: skip
    runs: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="specroute-bench-")))
        ports = []
        for cpu in mocks:
            mock = processes.start([sys.executable, "-m", "tests.bench.mock", "--backends", "1"], cpu)
            stack.callback(processes.stop, mock)
            ports += _read(mock)["ports"]
        for repetition in range(given.repetitions):
            for count in (1, given.workers):
                place = Place(folder / f"{repetition}-{count}", processes.free_port(), ports)
                with running(place, gateway[:count]) as leader:
                    for case in SATURATING:
                        runs[case.title, count].append(carried(place.port, leader, case, loads))
    Console(width=None if sys.stdout.isatty() else 120).print(_table(runs, given.workers))
    return 1 if any(run["troubles"] for found in runs.values() for run in found) else 0


def _table(runs: dict[tuple[str, int], list[dict[str, float]]], workers: int) -> Table:
    table = Table("case", "a second, 1 worker", f"{workers} workers", "times", "CPU µs each, 1", f"{workers}")
    for case in SATURATING:
        one, more = (
            {name: median(run[name] for run in runs[case.title, count]) for name in ("rate", "micros")}
            for count in (1, workers)
        )
        times = median(
            b["rate"] / a["rate"] for a, b in zip(runs[case.title, 1], runs[case.title, workers], strict=True)
        )
        table.add_row(
            case.title, f"{one['rate']:,.0f}", f"{more['rate']:,.0f}", f"{times:.2f}",
            f"{one['micros']:.1f}", f"{more['micros']:.1f}",
        )  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
