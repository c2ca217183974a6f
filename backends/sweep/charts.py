"""Line and point charts as SVG text that stands by itself: no script, no font, colours for any theme."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH: Final = 340
HEIGHT: Final = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 28, 38

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6fb5", "#8c8c3e")
"""Told apart with any kind of colour vision; after Okabe and Ito."""

_MARKS: Final = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True, slots=True)
class Point:
    """One value with the bounds of its interval, where there are some, and what a pointer over it is told."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn in one colour.

    Attributes:
        place: Which colour and mark; the same thing has the same place in all charts.
        line: Whether its points are joined.
        dashed: Whether that line is a fit, not a measurement: drawn without marks.
    """

    name: str
    points: Sequence[Point]
    place: int
    line: bool = True
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        x: What the horizontal axis shows.
        y: What the vertical one does.
        log_x: Whether the horizontal axis is logarithmic, with ticks at the values that occur.
        from_zero: Whether the vertical axis begins at 0.
        reference: A horizontal line at this height; None for none.
        named: Points that have their note written beside them.
        x_to: Value that the horizontal axis reaches at least.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    from_zero: bool = True
    reference: float | None = None
    named: Sequence[Point] = field(default_factory=tuple)
    x_to: float = 0.0

    def svg(self) -> str:
        """The chart as an element of a page."""
        points = [point for one in self.series for point in one.points]
        if not points:
            return ""
        frame = _Frame.around(self, points)
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">',
            f'<text class="title" x="{_LEFT}" y="16">{escape(self.title)}</text>',
            *frame.axes(self),
        ]
        if self.reference is not None:
            at = frame.y(self.reference)
            parts.append(
                f'<line class="ref" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            )
        for one in self.series:
            parts += _drawn(one, frame)
        parts += _names(self.named, frame)
        return "".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values are on the picture."""

    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log_x: bool

    @staticmethod
    def around(chart: Chart, points: Sequence[Point]) -> _Frame:
        xs = sorted({point.x for point in points})
        highs = [point.high if point.high is not None else point.y for point in points]
        lows = [point.low if point.low is not None else point.y for point in points]
        top, bottom = max(highs), 0.0 if chart.from_zero else min(lows)
        if chart.reference is not None:
            top, bottom = max(top, chart.reference), min(bottom, chart.reference)
        y_ticks = ticks(bottom, top)
        last = max(xs[-1], chart.x_to)
        if chart.log_x:
            x_ticks, x_range = tuple(xs), _padded(math.log(xs[0]), math.log(last))
        else:
            x_ticks = ticks(min(0.0, xs[0]), last, least=1.0)
            x_range = x_ticks[0], x_ticks[-1]
        return _Frame(x_ticks, y_ticks, x_range, _ends(y_ticks), log_x=chart.log_x)

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = ((math.log(value) if self.log_x else value) - low) / (high - low)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def axes(self, chart: Chart) -> Iterator[str]:
        right, base = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        for tick in self.y_ticks:
            at = self.y(tick)
            yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
            yield f'<text class="tick end" x="{_LEFT - 5}" y="{at + 3.5:.1f}">{number(tick)}</text>'
        last = -math.inf
        for tick in self.x_ticks:
            at = self.x(tick)
            if at - last >= 22:
                yield f'<text class="tick mid" x="{at:.1f}" y="{base + 14}">{number(tick)}</text>'
                last = at
        yield f'<text class="axis mid" x="{(_LEFT + right) / 2}" y="{HEIGHT - 6}">{escape(chart.x)}</text>'
        middle = (_TOP + base) / 2
        yield (
            f'<text class="axis mid" transform="rotate(-90 11 {middle})" x="11" y="{middle}">'
            f"{escape(chart.y)}</text>"
        )


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low) or 0.5
    return low - room, high + room


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return values[0], values[-1]


def ticks(low: float, high: float, *, least: float = 0.0) -> tuple[float, ...]:
    """Up to seven round values that enclose a range, at least so far apart."""
    span = max(high - low, abs(high) * 1e-3, 1e-9)
    rough = max(span / 5, least)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(place * step, 10) for place in range(first, max(last, first + 1) + 1))


def number(value: float) -> str:
    """A value as an axis shows it."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"


def _drawn(series: Series, frame: _Frame) -> Iterator[str]:
    colour = COLOURS[series.place % len(COLOURS)]
    ordered = sorted(series.points, key=lambda one: one.x)
    if series.line and len(ordered) > 1:
        path = " ".join(f"{frame.x(one.x):.1f},{frame.y(one.y):.1f}" for one in ordered)
        dash = ' stroke-dasharray="5 4" opacity="0.6"' if series.dashed else ""
        yield f'<polyline class="line" stroke="{colour}"{dash} points="{path}"/>'
    if series.dashed:
        return
    for one in ordered:
        x, y = frame.x(one.x), frame.y(one.y)
        if one.low is not None and one.high is not None:
            top, bottom = frame.y(one.high), frame.y(one.low)
            ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"'
            yield f'<line class="bar" stroke="{colour}" {ends}/>'
        yield mark(series.place, x, y, f"{series.name}: {one.note}" if one.note else series.name)


def mark(place: int, x: float, y: float, note: str = "") -> str:
    """The mark of a series, with what a pointer over it is told."""
    colour, said = COLOURS[place % len(COLOURS)], f"<title>{escape(note)}</title>"
    match _MARKS[place % len(_MARKS)]:
        case "circle":
            return f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.6">{said}</circle>'
        case "square":
            corner = f'x="{x - 3.2:.1f}" y="{y - 3.2:.1f}"'
            return f'<rect fill="{colour}" {corner} width="6.4" height="6.4">{said}</rect>'
        case "triangle":
            shape = f"{x:.1f},{y - 4.2:.1f} {x - 4:.1f},{y + 3:.1f} {x + 4:.1f},{y + 3:.1f}"
        case _:
            shape = f"{x:.1f},{y - 4.4:.1f} {x + 4.4:.1f},{y:.1f} {x:.1f},{y + 4.4:.1f} {x - 4.4:.1f},{y:.1f}"
    return f'<polygon fill="{colour}" points="{shape}">{said}</polygon>'


def _names(points: Sequence[Point], frame: _Frame) -> Iterator[str]:
    """Notes beside points, each moved down as far as the one before needs."""
    taken: list[tuple[float, float]] = []
    for one in sorted(points, key=lambda point: -point.y):
        x, y = frame.x(one.x), frame.y(one.y)
        end = x > WIDTH - 120
        y += 15 if end else -6  # where the points that it beats are not
        while any(abs(x - other_x) < 70 and abs(y - other_y) < 10 for other_x, other_y in taken):
            y += 10
        taken.append((x, y))
        yield (
            f'<text class="tick name{" end" if end else ""}" x="{x - 6 if end else x + 6:.1f}" y="{y:.1f}">'
            f"{escape(one.note)}</text>"
        )


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Names with the marks of their series, for several charts together."""
    items = "".join(
        f'<span><svg class="key" viewBox="0 0 12 12">{mark(place, 6, 6)}</svg>{escape(name)}</span>'
        for name, place in names
    )
    return f'<p class="legend">{items}</p>'
