"""What shows only after a while: memory, descriptors, stalls. Run by ``make bench ARGS=--soak``."""

from __future__ import annotations

import os
import resource
import statistics
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from tests.bench.cases import Case
from tests.bench.contenders import CONTENDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from tests.bench.measure import Bench, Target

LONE: Final = Case("lone", "a lone stream of 128 chunks", 1, 0.5, stream=True, pause_us=10_000)
MANY: Final = Case(
    "many", "2,000 streams for 60 s, a chunk each 200 ms", 2000, 0.1, stream=True, chunks=300,
    pause_us=200_000, stagger_us=500,
)  # fmt: skip
SHORT: Final = Case("short", "50,000 short streams", 64, 300.0, stream=True, chunks=4, requests=50_000)
CHANGING: Final = Case(
    "changing", "16 streams while files change and metrics are read", 16, 0.5, stream=True, chunks=800,
    pause_us=10_000, stagger_us=20_600,
)  # fmt: skip

_STALL_MS: Final = 20.0
"""A delayed acknowledgement of TCP holds a small write back for 40 ms."""

_GAP_MS: Final = 5.0
_SLOPE_MB: Final = 2.0
_GROWTH_MB: Final = 5.0
_SETTLE_SECONDS: Final = 8.0
"""After this the gateway has closed what it kept open for more requests."""

_STEP_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold: a figure, and what it may be at most."""

    name: str
    figure: float
    most: float

    @property
    def good(self) -> bool:
        """Whether it does."""
        return self.figure <= self.most


@dataclass(slots=True)
class Watch:
    """Resident memory of a process in MB, sampled while something runs, each with its time in seconds."""

    pid: int
    samples: list[tuple[float, float]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs."""
        over = threading.Event()

        def sample() -> None:
            while not over.wait(_STEP_SECONDS):
                self.samples.append((time.monotonic(), rss_mb(self.pid)))

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def later(self, share: float) -> list[tuple[float, float]]:
        """Samples after a share of the time."""
        begin, end = self.samples[0][0], self.samples[-1][0]
        return [one for one in self.samples if one[0] >= begin + share * (end - begin)]

    def growth(self, share: float) -> float:
        """MB by which a line through the samples after a share of the time rises."""
        times, sizes = zip(*self.later(share), strict=True)
        slope = statistics.linear_regression(times, sizes).slope
        return float(slope * (times[-1] - times[0]))


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def descriptors(pid: int) -> int:
    """Open descriptors of a process that has settled; the fewest for a while, since it looks at its servers."""
    time.sleep(_SETTLE_SECONDS)
    counts = []
    for _ in range(8):
        counts.append(len(os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208 - only their number
        time.sleep(_STEP_SECONDS)
    return min(counts)


def _lone(bench: Bench, target: Target) -> list[Check]:
    figures = bench.run(target, LONE)
    return [
        _troubles(figures, LONE),
        Check("longest delay of a chunk, ms", figures["delay_ms_max"], _STALL_MS),
    ]


def _many(bench: Bench, target: Target) -> list[Check]:
    pid = _gateway(target)
    before = descriptors(pid)
    watch = Watch(pid)
    with watch.running():
        figures = bench.run(target, MANY)
    return [
        _troubles(figures, MANY),
        Check("streams less than 2,000", max(0, MANY.connections - figures["requests"]), 0),
        Check("growth of memory after the first third, MB", watch.growth(1 / 3), _SLOPE_MB),
        Check("descriptors left open", descriptors(pid) - before, 0),
    ]


def _short(bench: Bench, target: Target) -> list[Check]:
    watch = Watch(_gateway(target))
    with watch.running():
        figures = bench.run(target, SHORT)
    after = watch.later(0.1)
    return [
        _troubles(figures, SHORT),
        Check("streams less than 50,000", max(0, SHORT.requests - figures["requests"]), 0),
        Check("growth of memory after the first tenth, MB", after[-1][1] - after[0][1], _GROWTH_MB),
    ]


def _changing(bench: Bench, target: Target) -> list[Check]:
    over = threading.Event()
    policy = bench.folder / target.name / "policy.yaml"
    text = policy.read_text()

    def disturb() -> None:
        number = 0
        os.sched_setaffinity(threading.get_native_id(), {bench.load_cpu})  # the other is the gateway's alone
        while not over.wait(0.5):
            number += 1
            policy.write_text(f"{text}\n# {number}\n")
            urllib.request.urlopen(f"http://127.0.0.1:{target.port}/metrics", timeout=5).read()

    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    try:
        figures = bench.run(target, CHANGING)
    finally:
        over.set()
        thread.join()
    policy.write_text(text)
    return [
        _troubles(figures, CHANGING),
        Check("longest delay of a chunk, ms", figures["delay_ms_max"], _GAP_MS),
    ]


def _troubles(figures: dict[str, Any], case: Case) -> Check:
    return Check(f"{case.title}: answers that were not whole", sum(figures["troubles"].values()), 0)


def _gateway(target: Target) -> int:
    assert target.leader is not None
    return target.leader


SOAKS: Final[dict[str, Callable[[Bench, Target], list[Check]]]] = {
    "lone": _lone,
    "changing": _changing,
    "short": _short,
    "many": _many,
}


def run(bench: Bench, names: list[str], console: Console) -> list[Check]:
    """Run soaks at a gateway of their own each."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    checks: list[Check] = []
    for name in names:
        with console.status(f"soak: {name}"), bench.gateway(CONTENDERS["specroute"]) as target:
            assert target is not None
            checks += SOAKS[name](bench, target)
    return checks


def table(checks: list[Check]) -> Table:
    """What was found."""
    found = Table(title="Soak", title_justify="left", box=box.MARKDOWN)
    for column in ("what", "found", "at most", ""):
        found.add_column(column, justify="left" if column in {"what", ""} else "right")
    for check in checks:
        found.add_row(check.name, f"{check.figure:.2f}", f"{check.most:g}", "" if check.good else "MISSED")
    return found
