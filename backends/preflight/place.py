"""Whether the machine has what the fleet needs: GPUs that are there, free and not given twice, and ports."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from backends.faults import faults_of
from backends.hosts import overlap
from backends.preflight.finding import Finding, unchecked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.machine import Gpu, Machine
    from backends.spec import LaunchSpec

MOST_GPUS: Final = 1024
"""GPUs of one server that nobody has on one machine."""
_FIRST_FREE_PORT: Final = 1024


def check_fleet(specs: Sequence[LaunchSpec], machine: Machine) -> Iterator[Finding]:
    """Findings about servers side by side."""
    yield from _ports(specs, machine)
    yield from _gpus(specs, machine)
    yield from _build(specs, machine)


def check_compared(specs: Sequence[LaunchSpec]) -> Iterator[Finding]:
    """Whether a fleet tells what speculation gains."""
    targets = {spec.target for spec in specs}
    for target in sorted(targets):
        own = [spec for spec in specs if spec.target == target]
        if all(spec.speculates for spec in own):
            wrong = f"no server runs {target} without speculation, so nothing tells what speculation gains"
            yield Finding(own[0].name, wrong, "add one with method none", warning=True)


def _build(specs: Sequence[LaunchSpec], machine: Machine) -> Iterator[Finding]:
    """Faults of the vLLM that is here, each told of the first server that has it."""
    for fault in faults_of(machine.engine, machine.features) if machine.engine else ():
        one = next((spec for spec in specs if spec.speculates or not fault.drafts), None)
        if one is not None:
            yield Finding(one.name, f"{fault.build} {fault.wrong}", fault.right, warning=True)


def _ports(specs: Sequence[LaunchSpec], machine: Machine) -> Iterator[Finding]:
    names: set[str] = set()
    before: list[LaunchSpec] = []
    for spec in specs:
        if spec.name in names:
            yield Finding(spec.name, "two servers have this name", "give each its own name")
        names.add(spec.name)
        if not machine.is_here(spec.host):
            wrong = f"its address {spec.url} is not on this machine"
            yield Finding(spec.name, wrong, "start it there, and write 127.0.0.1 for what is started here")
            continue
        taker = next((one for one in before if one.port == spec.port and overlap(one.host, spec.host)), None)
        if taker is not None:
            yield Finding(
                spec.name, f"port {spec.port} is also that of {taker.name}", "give each its own port"
            )
        elif not machine.port_is_free(spec.host, spec.port):
            yield Finding(
                spec.name,
                f"somebody listens on port {spec.port} already",
                "stop that, or choose another port",
            )
        elif spec.port < _FIRST_FREE_PORT:
            wrong = f"port {spec.port} is one that only the administrator may listen on"
            yield Finding(spec.name, wrong, f"choose one from {_FIRST_FREE_PORT} on", warning=True)
        before.append(spec)


def _gpus(specs: Sequence[LaunchSpec], machine: Machine) -> Iterator[Finding]:
    if machine.platform == "cpu":
        return
    yield from _given(specs)
    if machine.gpus is not None:
        given = {index for spec in specs for index in spec.gpus or ()}
        yield from _there(specs, machine.gpus)
        yield from _enough(specs, [gpu for gpu in machine.gpus if gpu.free and gpu.index not in given])
        yield from _measured(specs, {gpu.name for gpu in machine.gpus})
    if specs and machine.trouble:
        yield unchecked(specs[0].name, machine.trouble, "see to it that the tool runs, to have GPUs checked")
    if specs and (silent := [str(gpu.index) for gpu in machine.gpus or () if not gpu.memory]):
        wrong = f"no memory is told of GPU {', '.join(silent)}, so whether somebody uses it is not known"
        right = "see that it is free; of a partitioned GPU only the first part tells"
        yield unchecked(specs[0].name, wrong, right)


def _given(specs: Sequence[LaunchSpec]) -> Iterator[Finding]:
    """Whether each server is given as many GPUs as it takes, and none is given twice."""
    takers: dict[int, str] = {}
    for spec in specs:
        if spec.gpu_count > MOST_GPUS:
            wrong = f"it is spread over {spec.gpu_count} GPUs, more than any machine has"
            yield Finding(
                spec.name, wrong, "lower launch.tensor_parallel, or how it is spread in launch.args"
            )
        elif spec.gpus is not None and len(spec.gpus) != spec.gpu_count:
            wrong = f"it is spread over {spec.gpu_count} GPUs and is given {len(spec.gpus)}"
            yield Finding(spec.name, wrong, f"name {spec.gpu_count} in launch.gpus")
        for index, times in Counter(spec.gpus or ()).items():
            if times > 1:
                yield Finding(spec.name, f"GPU {index} is given to it {times} times", "name it once")
            if other := takers.get(index):
                wrong = f"GPU {index} is also given to {other}"
                yield Finding(spec.name, wrong, "give each server its own GPUs")
            takers.setdefault(index, spec.name)


def _there(specs: Sequence[LaunchSpec], gpus: Sequence[Gpu]) -> Iterator[Finding]:
    there = {gpu.index: gpu for gpu in gpus}
    for spec in specs:
        for index in dict.fromkeys(spec.gpus or ()):
            gpu = there.get(index)
            if gpu is None:
                right = f"name some of {', '.join(map(str, there))}" if there else "use a machine with GPUs"
                yield Finding(spec.name, f"this machine has no GPU {index}", right)
            elif not gpu.free:
                wrong = f"of GPU {index} {gpu.used:.0f} of {gpu.memory:.0f} MiB are taken"
                yield Finding(spec.name, wrong, "stop what runs there, or name another")


def _enough(specs: Sequence[LaunchSpec], free: Sequence[Gpu]) -> Iterator[Finding]:
    unplaced = [spec for spec in specs if spec.gpus is None and spec.gpu_count <= MOST_GPUS]
    taken = list(accumulate(spec.gpu_count for spec in unplaced))
    first = next((spec for spec, upto in zip(unplaced, taken, strict=True) if upto > len(free)), None)
    if first is not None:
        wrong = f"the fleet needs {taken[-1]} GPUs and {len(free)} are free"
        yield Finding(first.name, wrong, "start fewer methods, or spread each over fewer GPUs")


def _measured(specs: Sequence[LaunchSpec], names: set[str]) -> Iterator[Finding]:
    for spec in specs:
        if spec.hardware and not any(_same(spec.hardware, name) for name in names):
            here = ", ".join(sorted(names)) or "no GPU"
            wrong = f"its values were measured on {spec.hardware}, and this machine has {here}"
            right = "sweep the draft lengths here before relying on them"
            yield Finding(spec.name, wrong, right, warning=True)


def _same(measured: str, gpu: str) -> bool:
    """Whether a GPU is the one measured on: by its name or by its architecture."""
    words = measured.replace("(", " ").replace(")", " ").lower().split()
    return any(word in gpu.lower() for word in words)
