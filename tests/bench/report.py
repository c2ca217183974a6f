"""From runs to medians, ratios and tables."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.bench.cases import Case

    Run = Mapping[str, Any]
    Figures = dict[str, Any]

_CLEAN_GATEWAY: Final = 0.15
_CLEAN_LOAD: Final = 0.3
"""Shares of the two CPUs that other programs may take in a run that counts as clean."""

_PERCENTILES: Final = tuple(
    f"{name}_ms_{tag}" for name in ("latency", "ttft", "delay") for tag in ("p50", "p99")
)
_RATIOS: Final = ("cpu_us", "rate", *_PERCENTILES, "peak_mb")


def clean(run: Run) -> bool:
    """Whether other programs left both CPUs alone in a run."""
    quiet = run["contender"] == "direct" or run["others_on_gateway_cpu"] < _CLEAN_GATEWAY
    return bool(quiet and run["others_on_load_cpu"] < _CLEAN_LOAD)


def figures_of(run: Run, case: Case) -> Figures:
    """A run's figures per unit: chunks of a stream (all its events) or requests."""
    units = run["events" if case.stream else "requests"]
    figures: Figures = {name: run[name] for name in (*_PERCENTILES, "peak_mb") if name in run}
    figures["rate"] = units / run["seconds"]
    if case.stream and run["reads"]:
        figures["chunks_per_read"] = units / run["reads"]
    if units and run["contender"] != "direct":
        figures["cpu_us"] = run["gateway_cpu"] / units * 1e6
    return figures


def summary(runs: Sequence[Run], cases: Iterable[Case], reference: str) -> dict[str, dict[str, Figures]]:
    """Medians by case and contender.

    Runs with trouble are left out, and where there are clean ones, so are the others.

    Args:
        runs: All runs.
        cases: Of these cases.
        reference: Contender to which the ``ratios`` are taken.

    Returns:
        For each case and contender its figures, ``runs`` counted, ``troubles`` of all runs, whether the figures are
        ``clean``, and the ``ratios``.
    """
    result: dict[str, dict[str, Figures]] = {}
    for case in cases:
        by_contender: dict[str, Figures] = {}
        for name in dict.fromkeys(run["contender"] for run in runs):
            all_runs = [run for run in runs if (run["contender"], run["case"]) == (name, case.name)]
            good = [run for run in all_runs if not run["troubles"]]
            quiet = [run for run in good if clean(run)]
            each = [figures_of(run, case) for run in quiet or good]
            if all_runs:
                by_contender[name] = {
                    **{key: statistics.median(one[key] for one in each) for key in (each[0] if each else ())},
                    "runs": len(each),
                    "clean": bool(quiet),
                    "troubles": [run["troubles"] for run in all_runs if run["troubles"]],
                }
        against = by_contender.get(reference, {})
        for figures in by_contender.values():
            figures["ratios"] = {
                key: figures[key] / against[key] for key in _RATIOS if key in figures and against.get(key)
            }
        result[case.name] = by_contender
    return result


def _cell(figures: Figures, keys: Sequence[str], digits: int) -> str:
    """One or two figures and, of the first, the ratio."""
    if keys[0] not in figures:
        return "–"
    text = " / ".join(f"{figures[key]:,.{digits}f}" for key in keys)
    ratio = figures["ratios"].get(keys[0])
    return text if ratio is None else f"{text} ({ratio:.1f})"


def _named(name: str, figures: Figures) -> str:
    notes = "" if figures["clean"] else "*"
    return f"{name}{notes}{' TROUBLE' if figures['troubles'] else ''}"


def tables(summed: Mapping[str, Mapping[str, Figures]], cases: Iterable[Case], reference: str) -> list[Table]:
    """The tables: requests, streams, memory; in brackets a cell's first figure as multiple of the reference's."""
    cases = [case for case in cases if summed[case.name]]
    requests = _table(
        "Requests",
        "case",
        "gateway",
        "CPU µs/request",
        "requests/s",
        "latency p50 / p99 ms",
    )
    streams = _table(
        "Streams", "case", "gateway", "CPU µs/chunk", "chunks/s", "delay p50 / p99 ms",
        "TTFT p50 / p99 ms", "chunks/read",
    )  # fmt: skip
    memory = _table("Memory", "gateway", "peak RSS MB")
    peaks: dict[str, float] = {}
    for case in cases:
        title = case.title
        for name, figures in summed[case.name].items():
            cells = [title, _named(name, figures), _cell(figures, ["cpu_us"], 1), _cell(figures, ["rate"], 0)]
            if case.stream:
                delay = _cell(figures, ["delay_ms_p50", "delay_ms_p99"], 2)
                ttft = _cell(figures, ["ttft_ms_p50", "ttft_ms_p99"], 2)
                streams.add_row(*cells, delay, ttft, _cell(figures, ["chunks_per_read"], 1))
            else:
                requests.add_row(*cells, _cell(figures, ["latency_ms_p50", "latency_ms_p99"], 2))
            if "peak_mb" in figures:
                peaks[name] = max(peaks.get(name, 0), figures["peak_mb"])
            title = ""
    for name, peak in peaks.items():
        ratio = f" ({peak / peaks[reference]:.1f})" if reference in peaks else ""
        memory.add_row(name, f"{peak:.0f}{ratio}")
    return [table for table in (requests, streams, memory) if table.row_count]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.MARKDOWN)
    for column in columns:
        table.add_column(column, justify="left" if column in {"case", "gateway"} else "right", no_wrap=True)
    return table
