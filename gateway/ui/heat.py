"""The map of workloads by backends, as HTML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from gateway.ui.figures import milliseconds, number, percent, times
from gateway.ui.markup import Html, join, tag

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN: Final = ("speed", "first_token", "gain", "acceptance")
"""What the heat map may show."""

COLUMNS: Final = 16
"""Of the heat map; a fleet with more shows the busiest."""

_STEPS: Final = 9
_GAIN_RANGE: Final = 1.0


def heat_map(cells: list[dict[str, Any]], backends: list[dict[str, Any]], shown: str) -> Html:
    """Workloads by backends; backends without traffic are columns, too."""
    if not cells:
        return tag("p", "No request has ended in this time.", class_="empty")
    found = {(cell["workload"], cell["backend"]): cell for cell in cells}
    every = len(backends)
    if every > COLUMNS:
        busy: dict[str, int] = {}
        for cell in cells:
            busy[cell["backend"]] = busy.get(cell["backend"], 0) + cell["requests"]
        busiest = set(sorted(busy, key=lambda name: -busy[name])[:COLUMNS])
        backends = [backend for backend in backends if backend["name"] in busiest]
    values = [value for cell in cells if (value := _value(cell, shown)) is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    head = tag(
        "tr",
        tag("td"),
        *(tag("th", backend["name"], tag("small", method(backend)), scope="col") for backend in backends),
    )
    rows = [
        tag(
            "tr",
            tag("th", workload, scope="row"),
            *(_cell(found.get((workload, backend["name"])), shown, low, high) for backend in backends),
        )
        for workload in dict.fromkeys(cell["workload"] for cell in cells)
    ]
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="heat")
    return table if every <= COLUMNS else join(table, left_out(len(backends), every, "the busiest"))


def _value(cell: dict[str, Any], shown: str) -> float | None:
    value: float | None = cell[{"gain": "speedup", "acceptance": "acceptance_rate"}.get(shown, shown)]
    return value


def _cell(cell: dict[str, Any] | None, shown: str, low: float, high: float) -> Html:
    if cell is None or not cell["requests"]:
        return tag("td", tag("span", "·", aria_hidden="true"), tag("span", "no requests", class_="hidden"))
    value = _value(cell, shown)
    text: Callable[[float], str]
    if shown == "gain":
        level = _gain_level(value)
        text = times
    elif shown == "first_token":
        level = "" if value is None else f"down{_step(value, low, high)}"
        text = milliseconds
    else:
        level = "" if value is None else f"up{_step(value, low, high)}"
        text = percent if shown == "acceptance" else _plain
    notes = []
    if shown != "gain":  # its requests are those of an hour or a day
        notes.append(f"{cell['requests']} request{'' if cell['requests'] == 1 else 's'}")
        if cell["failed"]:
            notes.append(f"{cell['failed']} failed")
    elif cell["speedup_low"] is not None and value != 1.0:
        notes.append(f"{cell['speedup_low']:.2f} to {cell['speedup_high']:.2f}")
    if shown == "acceptance" and cell["mean_accepted_length"] is not None:
        notes.append(f"{cell['mean_accepted_length']:.2f} tokens a step")
    words = "baseline" if shown == "acceptance" and cell["method"] == "none" else "too few"
    return tag(
        "td",
        text(value) if value is not None else words,
        tag("small", ", ".join(notes)) if notes else None,
        class_=level,
    )


def _plain(value: float | None) -> str:
    return number(value, 0)


def _gain_level(value: float | None) -> str:
    if value is None:
        return ""
    away = min(1.0, abs(value - 1.0) / _GAIN_RANGE)
    return f"{'up' if value >= 1.0 else 'down'}{round(away * _STEPS)}"


def _step(value: float, low: float, high: float) -> int:
    """Of the scale's steps, by ratio: one that is ten times as fast does not make all others look alike."""
    if not high > low > 0:
        return _STEPS // 2 if low > 0 or high == low else round(value / high * _STEPS)
    return round(math.log(value / low) / math.log(high / low) * _STEPS)


def left_out(shown: int, every: int, which: str) -> Html:
    """A line that says how many of a fleet's backends are shown."""
    return tag("p", f"{shown} of {every} backends, {which}.", class_="note")


def method(backend: dict[str, Any]) -> str:
    """What a backend speculates with, in a few letters."""
    if backend["method"] == "none":
        return "no draft"
    if not backend["draft_tokens"]:
        return str(backend["method"])
    return f"{backend['method']}, N {backend['draft_tokens']}"
