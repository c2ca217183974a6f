"""What is run for each server of a fleet on this machine: its command line, environment, GPUs and log."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from backends import render
from backends.commands import Command
from backends.machine import allowed
from backends.placement import place
from backends.spec import API_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backends.machine import Machine
    from backends.spec import LaunchSpec


def commands(specs: Sequence[LaunchSpec], machine: Machine, logs: Path) -> list[Command]:
    """What starts servers that run together, in their order.

    Args:
        specs: The servers; the preflight found nothing wrong with them.
        machine: This machine, with its vLLM.
        logs: Folder for their logs.
    """
    engine = machine.engine
    if engine is None:
        raise AssertionError("without vLLM nothing is started")
    free = (
        (gpu.index for gpu in machine.gpus if gpu.free)
        if machine.gpus is not None
        else allowed(machine.platform, os.environ) or itertools.count()
    )
    gpus = {} if machine.platform == "cpu" else place(specs, free)
    return [
        Command(
            name=spec.name,
            argv=tuple(render.argv(spec, engine.python, version=engine.version, known=engine.flags or None)),
            env=_environment(spec, machine, gpus.get(spec.name, ())),
            url=spec.url,
            served_model=spec.served_model,
            log=logs / f"{spec.name}.log",
            key=os.environ.get(spec.api_key_env or "", ""),
            certificate=spec.certificate,
        )
        for spec in specs
    ]


def _environment(spec: LaunchSpec, machine: Machine, gpus: Sequence[int]) -> dict[str, str]:
    env = os.environ | render.environment(spec, machine.platform, gpus)
    if variable := render.key_from(spec):
        env[API_KEY] = os.environ[variable]
    return env
