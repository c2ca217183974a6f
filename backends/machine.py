"""What a machine has to run servers on: its platform, its vLLM, its GPUs, its free ports."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Final

from backends import hosts
from backends.hosts import port_is_free
from backends.render import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backends.flags import Kind
    from backends.methods import Platform

__all__ = ["Engine", "Gpu", "Look", "Machine", "allowed", "gpus", "look", "port_is_free", "visible"]

BUSY_SHARE: Final = 0.05
"""A GPU of which more memory than this is taken belongs to somebody else."""

_TIMEOUT: Final = 20.0
_DIGITS: Final = 9
_SILENT: Final = "it failed or took too long"
_SHOWN: Final = 60
"""Characters of a tool's answer in a message."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in MiB, 0 where it is not told, as of a partition or where it is the host's."""

    index: int
    name: str
    memory: float
    used: float

    @property
    def free(self) -> bool:
        """Whether nobody else computes on it, as far as its memory shows."""
        return self.memory == 0 or self.used <= BUSY_SHARE * self.memory


@dataclass(frozen=True, slots=True)
class Engine:
    """The vLLM of one environment.

    Attributes:
        python: Its interpreter.
        methods: What its ``--speculative-config`` takes as method.
        modules: Those packages that some method needs and that are there.
        flags: Its flags by name, and what follows each; empty where it was not asked.
        options: Keys of its ``--speculative-config``; empty where it was not asked.
    """

    python: str
    version: str
    platform: Platform
    methods: frozenset[str]
    modules: frozenset[str] = frozenset()
    flags: Mapping[str, Kind] = field(default_factory=dict)
    options: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where servers are to run.

    Attributes:
        engine: vLLM beside; None where only the image or another machine has it.
        gpus: Those that its tools list; None where no tool is there to ask.
        port_is_free: Whether nobody listens on a port of an address.
        is_here: Whether an address is one of this machine's.
        env: Environment in which checkpoints are looked up.
        trouble: Why GPUs are not known though there is a tool to ask, in words.
        features: Of its processor, as Linux names them; empty where they are not known.
        volumes: Beginnings of paths that it has and this machine need not have.
    """

    platform: Platform
    engine: Engine | None = None
    gpus: tuple[Gpu, ...] | None = None
    port_is_free: Callable[[str, int], bool] = field(default=lambda _host, _port: True)
    is_here: Callable[[str], bool] = hosts.is_here
    env: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    features: frozenset[str] = frozenset()
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What the vendor's tool says of GPUs.

    Attributes:
        platform: Of the tool; None where there is none.
        gpus: Those that it lists; None where there is no tool, or its answer cannot be read.
        trouble: Why not, in words; empty where all is well or there is no tool.
    """

    platform: Platform | None = None
    gpus: tuple[Gpu, ...] | None = None
    trouble: str = ""


class UnreadableToolError(ValueError):
    """A tool answered something that says nothing of GPUs."""


def look() -> Look:
    """Ask the vendor's tool what GPUs there are."""
    told = Look()
    for tool, platform, flags, parse in _TOOLS:
        path = shutil.which(tool)
        if path is None or told.gpus is not None:
            continue
        shown = _output(path, *flags)
        try:
            told = Look(platform, None, _SILENT) if shown is None else Look(platform, parse(shown))
        except UnreadableToolError as error:
            told = Look(platform, None, str(error))
        if told.trouble:
            told = replace(told, trouble=f"{tool} does not tell which GPUs there are: {told.trouble}")
    return told


def gpus() -> tuple[Platform, tuple[Gpu, ...]] | None:
    """The GPUs that the vendor's tool lists; None where there is no such tool, or it does not tell."""
    told = look()
    return None if told.platform is None or told.gpus is None else (told.platform, told.gpus)


def visible(found: tuple[Gpu, ...], platform: Platform, env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Those GPUs that a process may see which was started with an environment.

    Whoever started it may have given it some of the machine's alone, by their numbers.
    """
    numbers = allowed(platform, env)
    return found if numbers is None else tuple(gpu for gpu in found if gpu.index in numbers)


def allowed(platform: Platform, env: Mapping[str, str]) -> tuple[int, ...] | None:
    """Numbers of the GPUs that an environment leaves to a process; None where it names none by number."""
    numbers = [one.strip() for one in env.get(VISIBLE.get(platform, ""), "").split(",")]
    if not all(one.isascii() and one.isdecimal() and len(one) <= _DIGITS for one in numbers):
        return None
    return tuple(map(int, numbers))


def parse_rocm(shown: str) -> tuple[Gpu, ...]:
    """GPUs of ``rocm-smi --json``; memory there is in bytes.

    Raises:
        UnreadableToolError: It says nothing of GPUs.
    """
    try:
        cards = json.loads(shown)
    except (ValueError, RecursionError):
        raise UnreadableToolError(f"it answered {_beginning(shown)}") from None
    listed = cards.items() if isinstance(cards, dict) else ()
    found = []
    for card, facts in listed:
        number = card.removeprefix("card")
        if not (number.isascii() and number.isdecimal() and isinstance(facts, dict)):
            continue
        named = {key.lower(): value for key, value in facts.items()}
        name = f"{named.get('card series', 'AMD GPU')} {named.get('gfx version', '')}".strip()
        total, used = (named.get(f"vram total {kind}") for kind in ("memory (b)", "used memory (b)"))
        found.append(Gpu(int(number[:_DIGITS]), name, _mebibytes(total), _mebibytes(used)))
    if not found:
        raise UnreadableToolError(f"it answered {_beginning(shown)}")
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def parse_nvidia(shown: str) -> tuple[Gpu, ...]:
    """GPUs of ``nvidia-smi`` as CSV without units: index, name, total and used memory in MiB.

    Raises:
        UnreadableToolError: It says nothing of GPUs.
    """
    found = [
        Gpu(int(row[0][:_DIGITS]), row[1], _number(row[2]), _number(row[3]))
        for row in csv.reader(shown.splitlines(), skipinitialspace=True)
        if len(row) == len(_ASKED) and row[0].isascii() and row[0].isdecimal()
    ]
    if not found:
        raise UnreadableToolError(f"it answered {_beginning(shown)}")
    return tuple(found)


def _number(text: object) -> float:
    """A number as tools write it; 0 for what is none, such as N/A."""
    try:
        value = float(str(text))
    except ValueError:
        return 0.0
    return value if isfinite(value) else 0.0


def _mebibytes(text: object) -> float:
    return _number(text) / 2**20


def _beginning(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return repr(first if len(first) <= _SHOWN else f"{first[:_SHOWN]}…") if first else "nothing"


_ASKED: Final = ("index", "name", "memory.total", "memory.used")
_TOOLS: Final[tuple[tuple[str, Platform, tuple[str, ...], Callable[[str], tuple[Gpu, ...]]], ...]] = (
    ("rocm-smi", "rocm", ("--showproductname", "--showmeminfo", "vram", "--json"), parse_rocm),
    (
        "nvidia-smi",
        "cuda",
        (f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader,nounits"),
        parse_nvidia,
    ),
)


def _output(*words: str) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=True)  # noqa: S603 - the vendor's tool
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
