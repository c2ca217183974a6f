"""The charts of a report: speed-up by draft length, acceptance by position, cost of a step, load, latency."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.sweep.charts import Chart, Point, Series
from backends.sweep.cost import Point as Length
from backends.sweep.cost import fit
from backends.sweep.mix import candidate
from backends.sweep.model import GREEDY, SHORT
from backends.sweep.stats import Interval
from backends.sweep.words import late_positions, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gateway.policy.evidence import Evidence, Measurement

_MOST_CURVES = 7


@dataclass(frozen=True, slots=True)
class Section:
    """Charts that belong together.

    Attributes:
        words: What they show.
        legend: Names of their series with the places of colours.
    """

    title: str
    words: str
    charts: Sequence[Chart]
    legend: Sequence[tuple[str, int]]


def sections(evidence: Evidence) -> Iterator[Section]:
    """All of them; those with nothing to show have no charts."""
    cells = _plainest(evidence.measurements)
    methods = tuple(dict.fromkeys(one.method for one in cells if not one.is_baseline))
    places = {method: place for place, method in enumerate(methods)}
    yield _by_length(cells, places)
    yield _by_load(cells)
    yield _survival(evidence, cells)
    yield _cost(cells, places)
    yield _pareto(cells, places)


def _plainest(cells: Sequence[Measurement]) -> list[Measurement]:
    """Those of greedy answers to short prompts, or of the first other kind where there are none."""
    kinds = {(one.prompt, one.sampling): None for one in cells}
    kind = (SHORT, GREEDY) if (SHORT, GREEDY) in kinds else next(iter(kinds), None)
    return [one for one in cells if (one.prompt, one.sampling) == kind]


def _by_length(cells: Sequence[Measurement], places: dict[str, int]) -> Section:
    charts = []
    levels = sorted({one.concurrency for one in cells})
    longest = max((one.draft_tokens for one in cells), default=0)
    for workload in _workloads(cells):
        for level in levels:
            here = [one for one in cells if (one.workload, one.concurrency) == (workload, level)]
            series = [
                Series(
                    method, [_speedup(one, one.draft_tokens) for one in here if one.method == method], place
                )
                for method, place in places.items()
            ]
            charts.append(
                Chart(
                    f"{workload}, {level} in flight", "draft tokens N", "speed-up over the baseline",
                    [one for one in series if one.points], reference=1.0, x_to=longest,
                )
            )  # fmt: skip
    words = (
        "Each mark is one configuration with its 95 % interval; the dotted line is no speculation. Lengths "
        "that are missing were skipped: they could not win."
    )
    return Section(
        "Speed-up by draft length", words, [one for one in charts if one.series], list(places.items())
    )


def _by_load(cells: Sequence[Measurement]) -> Section:
    levels = sorted({one.concurrency for one in cells})
    if len(levels) < 2:
        return Section("Load", "", (), ())
    best: dict[str, None] = {}
    for level in levels:
        for workload in _workloads(cells):
            here = [one for one in cells if (one.workload, one.concurrency) == (workload, level)]
            best[max(here, key=_value).label if here else ""] = None
    labels = [label for label in best if label and label != "none"][:_MOST_CURVES]
    charts = [
        Chart(
            workload, "requests in flight", "speed-up over the baseline",
            [
                Series(label, [
                    _speedup(one, one.concurrency)
                    for one in cells if (one.workload, one.label) == (workload, label)
                ], place)
                for place, label in enumerate(labels)
            ],
            log_x=True, reference=1.0,
        )
        for workload in _workloads(cells)
    ]  # fmt: skip
    words = "How the gain changes with the load, for the configurations that win somewhere."
    return Section("Load", words, charts, [(label, place) for place, label in enumerate(labels)])


def _survival(evidence: Evidence, cells: Sequence[Measurement]) -> Section:
    longest: dict[str, Measurement] = {}
    for one in cells:
        if one.by_position and len(one.by_position) > len(longest.get(one.method, one).by_position) - (
            one.method not in longest
        ):
            longest[one.method] = one
    workloads = _workloads(cells)
    charts = []
    for method, found in longest.items():
        series = []
        for place, workload in enumerate(workloads):
            curves = [
                one
                for one in cells
                if (one.label, one.workload) == (found.label, workload) and one.by_position
            ]
            steps = sum(one.steps for one in curves)
            if steps:
                mean = [
                    sum(one.by_position[at] * one.steps for one in curves) / steps
                    for at in range(found.draft_tokens)
                ]
                points = [
                    Point(at + 1, value, note=f"position {at + 1}: {value:.0%}")
                    for at, value in enumerate(mean)
                ]
                series.append(Series(workload, points, place))
        charts.append(
            Chart(
                f"{method}, N = {found.draft_tokens}", "position in the draft", "accepted up to here", series
            )
        )
    late = late_positions(evidence)
    said = listed([f"{label} from {position} on" for label, (position, _) in late.items()][:6])
    words = "Share of steps whose draft was accepted up to each position."
    if said:
        words += f" Positions that bring less than 3 % of all tokens: {said}."
    return Section(
        "Acceptance by position", words, charts, [(name, place) for place, name in enumerate(workloads)]
    )


def _cost(cells: Sequence[Measurement], places: dict[str, int]) -> Section:
    charts = []
    for level in sorted({one.concurrency for one in cells}):
        series = []
        for method, place in places.items():
            own = [one for one in cells if (one.concurrency, one.method) == (level, method) and one.cost]
            by_length: dict[int, list[Measurement]] = defaultdict(list)
            for one in own:
                by_length[one.draft_tokens].append(one)
            points = [
                Point(tokens, sum(one.cost or 0.0 for one in found) / len(found), note=f"N = {tokens}")
                for tokens, found in by_length.items()
            ]
            if points:
                series.append(Series(method, points, place, line=False))
                series += _line(own, place, max(by_length))
        if series:
            charts.append(
                Chart(f"{level} in flight", "draft tokens N", "steps of the baseline", series, reference=1.0)
            )
    words = (
        "Time of one step that drafts and verifies, in steps of the baseline, mean over workloads; dashed: "
        "the line that further draft lengths are judged by. Speed-up is accepted length over this cost."
    )
    return Section("Cost of a step", words, charts, list(places.items()))


def _line(own: Sequence[Measurement], place: int, last: int) -> Iterator[Series]:
    known = [
        Length(one.draft_tokens, one.by_position, Interval(one.speedup.value))
        for one in own
        if one.speedup is not None and one.by_position
    ]
    line = fit(known)
    if line is not None:
        yield Series("fit", [Point(1, line(1)), Point(last, line(last))], place, dashed=True)


def _pareto(cells: Sequence[Measurement], places: dict[str, int]) -> Section:
    charts = []
    for workload in _workloads(cells):
        here = [one for one in cells if one.workload == workload and one.tpot is not None]
        series = []
        for method, place in (("none", len(places)), *places.items()):
            points = [_trade(one) for one in here if one.method == method]
            if points:
                series.append(
                    Series("no speculation" if method == "none" else method, points, place, line=False)
                )
        front = _front([_trade(one) for one in here])
        if series:
            charts.append(
                Chart(
                    workload, "output tokens/s, all clients", "ms a token, one stream", series,
                    named=front[:8],
                )
            )  # fmt: skip
    words = (
        "Right and low is better: what a server gives in all against what one reader waits for a token. "
        "Named are those that nothing beats in both."
    )
    return Section(
        "Throughput and latency", words, charts, [*places.items(), ("no speculation", len(places))]
    )


def _trade(one: Measurement) -> Point:
    seconds = one.tpot.value if one.tpot is not None else 0.0
    return Point(one.tokens_per_second.value, seconds * 1e3, note=f"{one.label} at {one.concurrency}")


def _front(points: Iterable[Point]) -> list[Point]:
    """Points that no other one beats in both."""
    found: list[Point] = []
    for one in sorted(points, key=lambda point: -point.x):
        if not found or one.y < found[-1].y:
            found.append(one)
    return found


def _speedup(one: Measurement, x: float) -> Point:
    if one.speedup is None:
        return Point(x, 0.0)
    note = f"{candidate(one).label} {one.speedup.value:.2f}, {one.requests} requests"
    return Point(x, one.speedup.value, one.speedup.low, one.speedup.high, note)


def _value(one: Measurement) -> float:
    return one.speedup.value if one.speedup is not None else 0.0


def _workloads(cells: Sequence[Measurement]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.workload for one in cells))
