"""Faults of vLLM builds themselves, whatever method they run: told before a start and in docs/methods.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.versions import release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Engine
    from backends.methods import Platform

CPU_INFO: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one build.

    Attributes:
        version: Of vLLM.
        wrong: What happens, in words that end a sentence about the build.
        right: What helps; an instruction.
        feature: Of the processor without which it does not show, as Linux names it; empty for none.
        drafts: Whether it shows where there is a draft alone.
    """

    platform: Platform
    version: str
    wrong: str
    right: str
    feature: str = ""
    drafts: bool = False

    @property
    def build(self) -> str:
        """The build in words."""
        return f"vLLM {self.version} for {self.platform.upper()}"


FAULTS: Final = (
    Fault(
        "cpu",
        "0.32.0",
        "ends with an illegal instruction at its first request where the processor has AMX tiles, as it does "
        "not ask Linux for them",
        "let a plugin of vLLM call torch.cpu._init_amx(), or use another build",
        feature="amx_tile",
    ),
    Fault(
        "cpu",
        "0.32.0",
        "verifies drafts of requests with a temperature above 0 with settings that were never written, so "
        "that sampled answers are of another distribution",
        "send greedy requests, or use another build",
        drafts=True,
    ),
)


def features() -> frozenset[str]:
    """What the first processor of this machine has, as Linux names it; empty where that cannot be read."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def faults_of(engine: Engine, found: frozenset[str]) -> Iterator[Fault]:
    """Faults of a build on a processor with these features."""
    for one in FAULTS:
        if (
            one.platform == engine.platform
            and release(one.version) == release(engine.version)
            and (not one.feature or one.feature in found)
        ):
            yield one
