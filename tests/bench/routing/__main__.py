"""``make bench-routing``: the bars of routing on simulated fleets."""

import argparse
import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.bench.routing import advising, bars, report
from tests.bench.routing.store import Store

EPILOG = """
example:
  make bench-routing ARGS="--quick"
  make bench-routing ARGS="--bars 1,6 --seeds 5 --cells"

Results are kept in --store and used again as long as the code they came from is the same, so a run that was
stopped goes on where it was. Exit codes: 0 every bar is met, 1 one is missed, 2 bad arguments, 3 stopped
before all was run.
"""
INCOMPLETE = 3


def parse():
    parser = argparse.ArgumentParser(
        prog="make bench-routing",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="one seed and few cells, minutes instead of hours"
    )
    parser.add_argument("--bars", default="", help="numbers, with commas; all if left out")
    parser.add_argument("--seeds", type=int, default=5, help="seeds for each cell and policy")
    parser.add_argument("--held-out", action="store_true", help="only the engines that no learner assumes")
    parser.add_argument("--cells", action="store_true", help="print every cell too")
    parser.add_argument("--only", default="", help="only cells whose name has this in it")
    parser.add_argument("--for", type=float, default=0.0, dest="seconds", help="stop after so many seconds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store", default=".bench-routing/results.jsonl", help="where results are kept")
    parser.add_argument("--json", default=".bench-routing/bars.json", help="where the table goes as JSON")
    return parser.parse_args()


def chosen(args):
    found = [*([] if args.held_out else (*bars.BARS, bars.REPLAY, bars.TALKS)), *bars.HELD_OUT]
    wanted = {int(number) for number in args.bars.split(",") if number}
    return [bar for bar in found if not wanted or bar.number in wanted]


def cells_of(bar, args):
    names = bar.quick if args.quick else tuple(bar.cells)
    return {name: bar.cells[name] for name in names if args.only in name}


def every(bar, args):
    """(cell, policy, job) for all that has to be run."""
    seeds = 1 if args.quick else args.seeds
    for name, cell in cells_of(bar, args).items():
        for policy in bar.policies if cell["kind"] != "advice" else ("learned",):
            for seed in range(1, seeds + 1):
                yield name, policy, {**cell, "policy": policy, "seed": seed}


def collect(args, console):
    """Run what is not known yet."""
    store = Store(args.store)
    wanted = {json.dumps(job, sort_keys=True): job for bar in chosen(args) for _, _, job in every(bar, args)}
    missing = [job for job in wanted.values() if store.get(job) is None]
    missing.sort(key=lambda job: job["policy"] == "learned")  # what changes least is known first
    console.print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them known already")
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(args.processes) as pool,
    ):
        task = progress.add_task("simulating", total=len(missing))
        left = iter(missing)
        began = time.monotonic()
        running = {}
        while True:
            late = args.seconds and time.monotonic() - began > args.seconds
            while len(running) < 2 * args.processes and not late and (job := next(left, None)) is not None:
                running[pool.submit(advising.run, job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                store.put(running.pop(future), future.result())
                progress.advance(task)
    return store


def judged(bar, args, store):
    figures = {}
    for name, policy, job in every(bar, args):
        figures.setdefault(name, {}).setdefault(policy, []).append(store.get(job))
    criteria = bar.judge(figures)
    return {
        "bar": bar.number,
        "title": bar.title,
        "criteria": [
            {
                "what": one.what, "value": one.value, "least": one.least, "at_most": one.at_most, "met": one.met,
                "reach": one.reach, "reached": one.reach is not None and one.meets(one.reach),
            }
            for one in criteria
        ],
        "cells": {
            cell: {
                policy: {key: mean(run[key] for run in runs) for key in runs[0]} for policy, runs in found.items()
            }
            for cell, found in figures.items()
        },
    }  # fmt: skip


def main():
    args, console = parse(), Console(width=150)
    store = collect(args, console)
    left = sum(store.get(job) is None for bar in chosen(args) for _, _, job in every(bar, args))
    if left:
        console.print(f"{left} runs are left; the same command goes on with them")
        raise SystemExit(INCOMPLETE)
    results = [judged(bar, args, store) for bar in chosen(args) if cells_of(bar, args)]
    if args.cells:
        for result in results:
            console.print(report.cells(result))
    console.print(report.table(results))
    target = Path(args.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    seeds = 1 if args.quick else args.seeds
    target.write_text(json.dumps({"seeds": seeds, "bars": results}, indent=1) + "\n", encoding="utf-8")
    console.print(f"as JSON: {args.json}")
    met = all(one["met"] for result in results for one in result["criteria"])
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
