"""What a classification costs, by the shape and the length of requests; ``python -m tests.bench.classification``.

``--flame FILE.svg`` also draws where the time goes. Times are of the CPU, of the whole step from a parsed body to its
label, the least of several runs of each body: what else the machine does comes on top. No two bodies are alike, so
that nothing is known from before, as a system prompt would be that comes again.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from gateway import models
from gateway.core.classify import Classification, classify
from gateway.core.features import RequestView, extract
from gateway.core.policy import ClassifierSettings
from gateway.wire.inbound import Malformed, view
from tests.bench import flame, shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.core.classify import Classifier

LENGTHS: Final = (120, 500, 4_000, 50_000, 1_000_000)
"""Characters of the last message."""

_BODIES: Final = 300
"""More than what is remembered of system prompts."""

_LONG: Final = 20_000
_LONG_BODIES: Final = 10
_ROUNDS: Final = 5
_SETTINGS: Final = ClassifierSettings(threshold=0.0)


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU time of requests of one shape and length.

    Attributes:
        p50: Of the step from a parsed body to its label, the median of bodies.
        p99: Likewise, 99 of 100 bodies take less.
        parse: Of reading the bytes, the median.
    """

    shape: str
    chars: int
    p50: float
    p99: float
    parse: float


def step(seen: RequestView, classifier: Classifier) -> Classification:
    """What the gateway does with each parsed body."""
    return classify(seen, extract(seen), _SETTINGS, classifier)


def parsed(body: bytes) -> RequestView:
    """A body as the gateway reads it."""
    seen = view("chat", body, {})
    assert not isinstance(seen, Malformed)
    return seen


def _micros(work: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1000


def cost(
    shape: str, chars: int, classifier: Classifier, *, bodies: int = _BODIES, rounds: int = _ROUNDS
) -> Cost:
    """Measures requests of a shape."""
    random, parses, views = shapes.seeded(f"{shape} {chars}"), [], []
    for _ in range(bodies if chars < _LONG else min(bodies, _LONG_BODIES)):
        body = shapes.body(shape, chars, random)
        parses.append(min(_micros(lambda body=body: parsed(body)) for _ in range(rounds)))  # type: ignore[misc]
        views.append(parsed(body))
    least = [float("inf")] * len(views)
    for _ in range(rounds):
        for at, seen in enumerate(views):
            least[at] = min(least[at], _micros(lambda seen=seen: step(seen, classifier)))  # type: ignore[misc]
    return Cost(shape, chars, _quantile(least, 0.5), _quantile(least, 0.99), _quantile(parses, 0.5))


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def worst(costs: Sequence[Cost]) -> dict[int, Cost]:
    """Of each length, the shape with the highest 99th percentile."""
    return {chars: max((c for c in costs if c.chars == chars), key=lambda c: c.p99) for chars in LENGTHS}


def table(costs: Sequence[Cost]) -> Table:
    """The median and the 99th percentile by shape and length, the worst of each length last."""
    shown = Table(title="µs of CPU from a parsed body to its label: p50 / p99", title_justify="left")
    shown.add_column("shape")
    for chars in LENGTHS:
        shown.add_column(f"{chars:,}", justify="right")
    found = {(c.shape, c.chars): c for c in costs}
    for shape in shapes.SHAPES:
        each = (found[shape, chars] for chars in LENGTHS)
        shown.add_row(shape, *(f"{c.p50:.0f} / {c.p99:.0f}" for c in each))
    highest = worst(costs)
    shown.add_section()
    shown.add_row("worst", *(f"{highest[chars].p99:.0f} {highest[chars].shape}" for chars in LENGTHS))
    slowest = {chars: max((c for c in costs if c.chars == chars), key=lambda c: c.parse) for chars in LENGTHS}
    shown.add_row("reading the bytes, worst", *(f"{c.parse:.0f} {c.shape}" for c in slowest.values()))
    return shown


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.classification", description=__doc__)
    parser.add_argument("--bodies", type=int, default=_BODIES, help="different ones of each shape and length")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each body, the least counts")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--flame", type=Path, help="draw where the time goes, and measure nothing else")
    options = parser.parse_args()
    classifier = models.trained()
    gc.collect()
    gc.freeze()
    if options.flame:
        random = shapes.seeded("flame")
        views = [
            parsed(shapes.body(shape, chars, random))
            for shape in shapes.SHAPES
            for chars in (120, 500, 4_000)
        ]
        samples = flame.sampled(lambda: [step(seen, classifier) for seen in views])
        options.flame.write_text(flame.drawn(samples, "From a parsed body to its label"))
        return 0
    costs = [
        cost(shape, chars, classifier, bodies=options.bodies, rounds=options.rounds)
        for chars in LENGTHS
        for shape in shapes.SHAPES
    ]
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in costs], indent=1) + "\n")
    Console().print(table(costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
