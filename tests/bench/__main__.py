"""``make bench``: measure what the gateway costs, beside others, in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import measure, processes, profiling, report, soak
from tests.bench.cases import CASES, QUICK, Case
from tests.bench.contenders import CONTENDERS

_EPILOG = """
example:
  make bench ARGS="--quick"
  make bench ARGS="--only direct,nginx,specroute,vllm-router-rr --peers .venv-peers --repetitions 5"
  make bench ARGS="--profile --cases paced64"
  make bench ARGS="--soak"

The gateway has one CPU, mock and load another. CPU time per request and per chunk moves least when other programs
run beside it, and its ratios less still; rates and delays say little then. Where no run was undisturbed, figures are
marked with *.
"""


def _names(known: dict[str, Any]) -> Any:
    def split(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names

    return split


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    everyone = {"direct": None, **CONTENDERS}
    parser.add_argument("--quick", action="store_true", help=f"about a minute: {', '.join(QUICK)}")
    parser.add_argument("--repetitions", type=int, help="of everything, interleaved (default: 3; quick: 2)")
    parser.add_argument("--cases", type=_names(CASES), help=f"some of {', '.join(CASES)}")
    parser.add_argument(
        "--only", type=_names(everyone), help=f"some of {', '.join(everyone)}; default: all installed"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        action="append",
        default=[],
        metavar="VENV",
        help="environment with peers; can be repeated",
    )
    parser.add_argument("--reference", default="nginx", help="contender of the ratios (default: nginx)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/bench"), help="folder for JSON (default: build/bench)"
    )
    parser.add_argument("--profile", action="store_true", help="show the gateway's top functions instead")
    parser.add_argument(
        "--soak",
        nargs="?",
        const=list(soak.SOAKS),
        type=_names(soak.SOAKS),
        help=f"look for what shows only after minutes instead: some of {', '.join(soak.SOAKS)}; default: all",
    )
    parser.add_argument("--top", type=int, default=25, help="functions that --profile shows (default: 25)")
    return parser.parse_args()


def _machine() -> dict[str, Any]:
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _compare(
    bench: measure.Bench, cases: list[Case], names: list[str], repetitions: int, console: Console
) -> list[dict[str, Any]]:
    """Run everything, interleaved: within a case each contender in turn, in another order each time."""
    runs: list[dict[str, Any]] = []
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with ExitStack() as stack:
        targets = []
        for name in names:
            with console.status(f"starting {name}"):
                try:
                    target = (
                        bench.direct
                        if name == "direct"
                        else stack.enter_context(bench.gateway(CONTENDERS[name]))
                    )
                except measure.NoAnswerError as error:
                    console.print(f"left out: {error}", markup=False)
                    continue
            if target is None:
                console.print(f"left out: {name} is not installed")
            else:
                targets.append(target)
        stack.enter_context(progress)
        task = progress.add_task("", total=repetitions * len(cases) * len(targets))
        for repetition in range(repetitions if targets else 0):
            for number, case in enumerate(cases):
                first = (repetition + number) % len(targets)
                for target in targets[first:] + targets[:first]:
                    progress.update(
                        task, description=f"{repetition + 1}/{repetitions} {case.name} {target.name}"
                    )
                    run = {"contender": target.name, "case": case.name, "repetition": repetition}
                    try:
                        run |= bench.run(target, case)
                    except measure.NoAnswerError as error:
                        console.print(f"failed: {error}", markup=False)
                    else:
                        if target.leader is not None:
                            run["peak_mb"] = round(processes.peak_mb(target.leader), 1)
                        runs.append(run)
                    progress.advance(task)
    order = {name: place for place, name in enumerate(names)}
    return sorted(runs, key=lambda run: order[run["contender"]])


def main() -> int:
    """Run the benchmark. Returns the exit code: 1 if any answer was not whole, or a soak found what must not be."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not Path("/proc/self/stat").exists():
        print("the benchmark needs Linux", file=sys.stderr)
        return 2
    default = list(profiling.CASES if options.profile else QUICK if options.quick else CASES)
    cases = [CASES[name] for name in options.cases or default]
    if options.quick:
        cases = [replace(case, seconds=1.0) for case in cases]
    repetitions = options.repetitions or (2 if options.quick else 3)
    search = [path.absolute() / "bin" for path in options.peers]
    with (
        tempfile.TemporaryDirectory(prefix="specroute-bench-") as folder,
        measure.bench(Path(folder), search) as bench,
    ):
        if options.soak:
            checks = soak.run(bench, options.soak, console)
            console.print(soak.table(checks))
            return 0 if all(check.good for check in checks) else 1
        if options.profile:
            profiling.show(bench, cases, options.top, console)
            return 0
        machine = _machine()
        machine["load_average"] = [os.getloadavg()[0]]
        names = options.only or ["direct", *CONTENDERS]
        runs = _compare(bench, cases, names, repetitions, console)
        machine["load_average"].append(os.getloadavg()[0])
    summed = report.summary(runs, cases, options.reference)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    content = {"machine": machine, "cases": [asdict(case) for case in cases], "summary": summed, "runs": runs}
    file.write_text(json.dumps(content, indent=1))
    for table in report.tables(summed, cases, options.reference):
        console.print(table)
    before, after = machine["load_average"]
    console.print(
        f"{machine['date']}, {machine['cpus']} CPUs {machine['cpu']}, Linux {machine['kernel']}, Python "
        f"{machine['python']}; load average {before:.1f} before, {after:.1f} after; medians of "
        f"the undisturbed of {repetitions} runs, * where none was; in brackets multiples of {options.reference}'s; {file}",
        soft_wrap=True,
    )
    troubled = [run for run in runs if run["troubles"]]
    for run in troubled:
        console.print(f"trouble: {run['contender']}, {run['case']}: {run['troubles']}", markup=False)
    return 1 if troubled else 0


if __name__ == "__main__":
    sys.exit(main())
