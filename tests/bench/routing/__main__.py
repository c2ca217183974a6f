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
  make bench-routing ARGS="--bars 12,1,6 --seeds 5 --cells"
  make bench-routing ARGS="--merge there.jsonl --for 0.1"

Bars are run in the order in which they are named, one seed of all cells before the next, so that a run that is
stopped has told most. Results are kept in --store and used again as long as the code they came from is the same:
the same command goes on where it was, and --merge takes in those of runs elsewhere. A table is printed of the cells
and seeds that are complete. Exit codes: 0 every bar is met, 1 one is missed, 2 bad arguments, 3 stopped before all
was run.
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
    parser.add_argument(
        "--only", default="", help="only cells whose name has one of these in it, with commas"
    )
    parser.add_argument(
        "--merge", nargs="+", default=(), metavar="FILE", help="stores of other runs to take in"
    )
    parser.add_argument("--for", type=float, default=0.0, dest="seconds", help="stop after so many seconds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--store", default=".bench-routing/results.jsonl", help="where results are kept")
    parser.add_argument("--json", default=".bench-routing/bars.json", help="where the table goes as JSON")
    return parser.parse_args()


def chosen(args):
    found = [*([] if args.held_out else (*bars.BARS, bars.REPLAY, bars.TALKS)), *bars.HELD_OUT]
    wanted = [int(number) for number in args.bars.split(",") if number]
    if not wanted:
        return found
    return sorted((bar for bar in found if bar.number in wanted), key=lambda bar: wanted.index(bar.number))


def cells_of(bar, args):
    names = bar.quick if args.quick else tuple(bar.cells)
    return {name: bar.cells[name] for name in names if any(part in name for part in args.only.split(","))}


def seeds_of(args):
    return range(1, 2 if args.quick else args.seeds + 1)


def jobs_of(bar, cell, seed):
    """By policy."""
    policies = bar.policies if cell["kind"] != "advice" else ("learned",)
    return {policy: {**cell, "policy": policy, "seed": seed} for policy in policies}


def every(bar, args):
    """All jobs that have to be run, one seed of all cells after the other."""
    for seed in seeds_of(args):
        for cell in cells_of(bar, args).values():
            yield from jobs_of(bar, cell, seed).values()


def collect(args, console):
    """Run what is not known yet."""
    store = Store(args.store, args.merge)
    wanted = {json.dumps(job, sort_keys=True): job for bar in chosen(args) for job in every(bar, args)}
    missing = [job for job in wanted.values() if store.get(job) is None]
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
    """One line of the table from what is complete: cells and seeds that all policies ran; None without any."""
    figures = {}
    for name, cell in cells_of(bar, args).items():
        for seed in seeds_of(args):
            found = {policy: store.get(job) for policy, job in jobs_of(bar, cell, seed).items()}
            if None not in found.values():
                for policy, one in found.items():
                    figures.setdefault(name, {}).setdefault(policy, []).append(one)
    if not figures:
        return None
    criteria = bar.judge(figures)
    runs = sum(len(found["learned"]) for found in figures.values())
    return {
        "bar": bar.number,
        "title": bar.title,
        "complete": f"{runs} of {len(cells_of(bar, args)) * len(seeds_of(args))}",
        "criteria": [
            {
                "what": one.what, "value": one.value, "least": one.least, "at_most": one.at_most, "met": one.met,
                "reach": one.reach, "reached": one.reach is not None and one.meets(one.reach),
                "cell": one.cell, "ceiling": one.ceiling,
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
    args, console = parse(), Console(width=170)
    store = collect(args, console)
    results = [found for bar in chosen(args) if (found := judged(bar, args, store))]
    if args.cells:
        for result in results:
            console.print(report.cells(result))
    console.print(report.table(results))
    target = Path(args.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    seeds = 1 if args.quick else args.seeds
    target.write_text(json.dumps({"seeds": seeds, "bars": results}, indent=1) + "\n", encoding="utf-8")
    console.print(f"as JSON: {args.json}")
    if left := sum(store.get(job) is None for bar in chosen(args) for job in every(bar, args)):
        console.print(f"{left} runs are left; the same command goes on with them")
        raise SystemExit(INCOMPLETE)
    met = all(one["met"] for result in results for one in result["criteria"])
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
