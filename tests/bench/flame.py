"""A flame graph of a piece of work in this process: which functions its CPU time is spent in, as an SVG."""

from __future__ import annotations

import signal
from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

Stack = tuple[str, ...]

_INTERVAL: Final = 0.001
"""Seconds of CPU time between samples; the kernel rounds it up to its tick."""

_SAMPLES: Final = 1_500
_WIDTH, _HEIGHT = 1200, 17
_LETTER: Final = 6.6
_COLOURS: Final = ("#f6b26b", "#f9cb9c", "#ffd966", "#ffe599", "#ea9999", "#f4cccc")
_NARROWEST: Final = 0.001
"""Share below which a function is left out."""


def sampled(work: Callable[[], object], samples: int = _SAMPLES) -> Counter[Stack]:
    """Repeats work until so many samples of its stack are taken. C counts for the function that called it."""
    stacks: Counter[Stack] = Counter()

    def take(_: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None and frame.f_code is not sampled.__code__:
            names.append(_name(frame))
            frame = frame.f_back
        stacks[tuple(reversed(names))] += 1

    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL, _INTERVAL)
    try:
        while stacks.total() < samples:
            work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return stacks


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename).stem}.{code.co_qualname.replace('.<locals>', '')}"


def drawn(stacks: Mapping[Stack, int], title: str) -> str:
    """An SVG with a box for each function in each stack, as wide as its share, callees below callers.

    What all stacks begin with is left out.
    """
    total = sum(stacks.values())
    shared = _shared(list(stacks))
    boxes: dict[Stack, int] = {}
    for stack, count in stacks.items():
        for depth in range(shared, len(stack) + 1):
            boxes[stack[shared:depth]] = boxes.get(stack[shared:depth], 0) + count
    places: dict[Stack, float] = {(): 0.0}
    used: dict[Stack, float] = {}
    lines = []
    for path in sorted(boxes, key=lambda path: (len(path), path)):
        share = boxes[path] / total
        if path:
            above = path[:-1]
            if above not in places or share < _NARROWEST:
                continue
            places[path] = places[above] + used.get(above, 0.0)
            used[above] = used.get(above, 0.0) + share
        lines.append(_box(path[-1] if path else title, len(path), places[path], share))
    height = (max(map(len, places)) + 1) * _HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="monospace" '
        f'font-size="11">\n<!-- {total} samples, each the tick of a CPU clock -->\n{"".join(lines)}</svg>\n'
    )


def _shared(stacks: list[Stack]) -> int:
    shortest = min(map(len, stacks))
    return next((at for at in range(shortest) if len({stack[at] for stack in stacks}) > 1), shortest)


def _box(name: str, depth: int, start: float, share: float) -> str:
    x, width, y = start * _WIDTH, share * _WIDTH, depth * _HEIGHT
    label = f"{name} {share:.1%}"
    fitting = label if len(label) * _LETTER < width else name[: max(int(width / _LETTER) - 1, 0)]
    text = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(fitting)}</text>' if len(fitting) > 2 else ""
    colour = _COLOURS[sum(map(ord, name)) % len(_COLOURS)]
    return (
        f'<g><title>{escape(label)}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{_HEIGHT - 1}" fill="{colour}"/>{text}</g>\n'
    )
