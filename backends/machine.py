"""What a machine has to run servers on: its platform, its vLLM, its GPUs, its free ports."""

from __future__ import annotations

import csv
import json
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backends.methods import Platform

BUSY_SHARE: Final = 0.05
"""A GPU of which more memory than this is taken belongs to somebody else."""

_TIMEOUT: Final = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in MiB."""

    index: int
    name: str
    memory: float
    used: float

    @property
    def free(self) -> bool:
        """Whether nobody else computes on it, as far as its memory shows."""
        return self.used <= BUSY_SHARE * self.memory


@dataclass(frozen=True, slots=True)
class Engine:
    """The vLLM of one environment.

    Attributes:
        python: Its interpreter.
        methods: What its ``--speculative-config`` takes as method.
        modules: Those packages that some method needs and that are there.
    """

    python: str
    version: str
    platform: Platform
    methods: frozenset[str]
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where servers are to run.

    Attributes:
        engine: vLLM beside; None where only the image or another machine has it.
        gpus: Those that its tools list; None where no tool is there to ask.
        port_is_free: Whether nobody listens on a port of an address.
        env: Environment in which checkpoints are looked up.
    """

    platform: Platform
    engine: Engine | None = None
    gpus: tuple[Gpu, ...] | None = None
    port_is_free: Callable[[str, int], bool] = field(default=lambda _host, _port: True)
    env: Mapping[str, str] = field(default_factory=dict)


def port_is_free(host: str, port: int) -> bool:
    """Whether nobody listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) != 0


def gpus() -> tuple[Platform, tuple[Gpu, ...]] | None:
    """The GPUs that the vendor's tool lists; None where there is no such tool, or it fails."""
    if tool := shutil.which("rocm-smi"):
        shown = _output(tool, "--showproductname", "--showmeminfo", "vram", "--json")
        return None if shown is None else ("rocm", parse_rocm(shown))
    if tool := shutil.which("nvidia-smi"):
        shown = _output(
            tool, "--query-gpu=index,name,memory.total,memory.used", "--format=csv,noheader,nounits"
        )
        return None if shown is None else ("cuda", parse_nvidia(shown))
    return None


def parse_rocm(shown: str) -> tuple[Gpu, ...]:
    """GPUs of ``rocm-smi --json``; memory there is in bytes."""
    cards: dict[str, dict[str, Any]] = json.loads(shown)
    found = []
    for card, facts in cards.items():
        if not card.removeprefix("card").isdecimal():
            continue
        arch = facts.get("GFX Version", "")
        name = f"{facts.get('Card Series') or facts.get('Card series', 'AMD GPU')} {arch}".strip()
        total, used = (
            float(facts.get(f"VRAM Total {kind}", 0)) for kind in ("Memory (B)", "Used Memory (B)")
        )
        found.append(Gpu(int(card.removeprefix("card")), name, total / 2**20, used / 2**20))
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def parse_nvidia(shown: str) -> tuple[Gpu, ...]:
    """GPUs of ``nvidia-smi`` as CSV without units: index, name, total and used memory in MiB."""
    rows = csv.reader(shown.splitlines(), skipinitialspace=True)
    return tuple(Gpu(int(index), name, float(total), float(used)) for index, name, total, used in rows)


def _output(*words: str) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=True)  # noqa: S603 - the vendor's tool
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
