"""Sweeps that are ended at any moment, or run out of disk: nothing is lost, nothing counts twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backends.sweep import log
from gateway.cli.sweeping import SAMPLES
from tests.contract.stack import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from backends.sweep.model import Round, Sample

ROOT = Path(__file__).parents[2]
SWEEP = (
    "--simulate", "MiniMaxAI/MiniMax-M3-MXFP8", "--workloads", "code,chat", "--concurrency", "1,8",
    "--precision", "8%", "--rounds", "3",
)  # fmt: skip
WRITTEN = ("evidence.json", "policy.yaml", "report.md")


def command(out: Path) -> list[str]:
    return [sys.executable, "-m", "gateway.cli", "sweep", *SWEEP, "--out", str(out)]


def started(out: Path, **more: Any) -> subprocess.Popen[str]:
    """A sweep in a process of its own."""
    return subprocess.Popen(  # noqa: S603 - our own command
        command(out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more
    )


def finished(out: Path) -> dict[str, str]:
    done = subprocess.run(command(out), cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    return {name: (out / name).read_text(encoding="utf-8") for name in WRITTEN}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the same sweep writes when nobody disturbs it: virtual time is the same for every run."""
    return finished(tmp_path_factory.mktemp("whole"))


def rounds(out: Path) -> list[tuple[Round, list[Sample]]]:
    read = log.read(out / SAMPLES)
    return [] if read is None else read.rounds


def written(out: Path) -> int:
    """Lines that a sweep has written to its samples so far."""
    samples = out / SAMPLES
    return samples.read_bytes().count(b"\n") if samples.exists() else 0


def nothing_twice(out: Path) -> None:
    found = rounds(out)
    numbers = [(one.cell, one.number) for one, _ in found]
    assert len(set(numbers)) == len(numbers)
    for one, samples in found:
        assert sum(sample.measured for sample in samples) == max(16, one.cell.condition.concurrency)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        (signal.SIGKILL, -signal.SIGKILL, ""),
        (signal.SIGTERM, 1, "run it again to go on"),
        (signal.SIGINT, 1, "run it again to go on"),
    ],
)
def test_ended_again_and_again_it_comes_to_the_same(
    undisturbed: dict[str, str], tmp_path: Path, how: signal.Signals, code: int, said: str
) -> None:
    chance = random.Random(int(how))  # noqa: S311 - moments for a test
    for _ in range(2):
        more = written(tmp_path) + 20 * chance.randint(0, 12) + 1
        with started(tmp_path) as sweep:
            assert sweep.stderr is not None
            eventually(lambda: written(tmp_path), lambda lines, more=more: lines >= more)
            os.kill(sweep.pid, how)
            rest = sweep.stderr.read()
            sweep.wait(60)
        assert sweep.returncode == code, rest
        assert said in rest
        assert "Traceback" not in rest
    before = rounds(tmp_path)
    assert finished(tmp_path)["policy.yaml"] == undisturbed["policy.yaml"]
    nothing_twice(tmp_path)
    assert rounds(tmp_path)[: len(before)] == before


def limited(size: int) -> Callable[[], None]:
    """Lets no file grow beyond a size, as a full disk would not."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [600, 40_000])
def test_out_of_disk_it_says_what_is_safe_and_goes_on_when_there_is_room(
    undisturbed: dict[str, str], tmp_path: Path, size: int
) -> None:
    with started(tmp_path, preexec_fn=limited(size)) as sweep:
        _, rest = sweep.communicate(timeout=200)
    assert sweep.returncode == 1, rest
    assert "rounds are safe; free some space and run it again" in rest
    assert "Traceback" not in rest
    assert finished(tmp_path) == undisturbed
    nothing_twice(tmp_path)
