"""``specroute launch``: check a fleet of vLLM servers, write what starts it, or run it here."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.engine import Answer
    from backends.machine import Machine
    from backends.methods import Platform
    from backends.preflight import Finding
    from backends.spec import LaunchSpec

PYTHON = "SPECROUTE_VLLM_PYTHON"
NOT_RIGHT = 1
"""Exit code where the fleet cannot be started as it is."""


class On(StrEnum):
    """Platforms."""

    ROCM = "rocm"
    CUDA = "cuda"
    CPU = "cpu"


class Printed(StrEnum):
    """What can be written instead of started."""

    FLEET = "fleet"
    ARGV = "argv"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("launch")(launch)


def launch(
    *,
    recipe: Annotated[
        str, typer.Option(help="A published target, such as qwen3.6-35b-a3b.", show_default=False)
    ] = "",
    methods: Annotated[
        str,
        typer.Option(
            help="Methods of the recipe, with commas; mtp:3 asks for 3 draft tokens. All if left out.",
            show_default=False,
        ),
    ] = "",
    fleet: Annotated[
        Path | None, typer.Option(help="A fleet file instead of a recipe.", show_default=False)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check.")] = False,
    show: Annotated[
        Printed | None,
        typer.Option("--print", help="Only write what would start it to stdout.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what --check found as JSON.")] = False,
    platform: Annotated[
        On | None, typer.Option(help="What it is to run on; found out if left out.", show_default=False)
    ] = None,
    python: Annotated[
        str, typer.Option(envvar=PYTHON, help="Interpreter that has vLLM.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option(help="Port of a recipe's first server.", min=1, max=65000)] = 8101,
    logs: Annotated[Path, typer.Option(help="Folder for the servers' logs.")] = Path("logs"),
    write: Annotated[
        Path | None,
        typer.Option(
            help="Fleet file to write once the servers are ready; a gateway that serves it takes them in.",
            show_default=False,
        ),
    ] = None,
    at_once: Annotated[int, typer.Option(help="Servers that load at the same time.", min=1)] = 1,
    verify_every: Annotated[
        float,
        typer.Option(help="Seconds between two looks at whether servers are what they should be.", min=1),
    ] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Keep the servers' output to their logs.")] = False,
) -> None:
    """Start the vLLM servers of a fleet on this machine, after checking that they can run.

    Example: `specroute launch --recipe qwen3.6-35b-a3b --methods none,mtp,dflash --check`

    Example: `specroute launch --recipe qwen3-8b --print compose > compose.yaml`

    Example: `specroute launch --fleet fleet.yaml --python /opt/vllm/bin/python`

    Exit codes: 0 right, or stopped by a signal; 1 the fleet is not right or did not start; 2 bad input.
    """
    import asyncio

    specs = _specs(recipe, methods, fleet, port)
    if show is not None:
        target: Platform = platform.value if platform else "rocm"
        _report(findings := _findings_anywhere(specs, target, show), as_json=False)
        if any(not one.warning for one in findings):
            raise typer.Exit(NOT_RIGHT)
        typer.echo(_shown(show, specs, target, python or "python3"), nl=False)
        return
    answer = _asked(python, specs)
    if answer is None and not check:
        from backends.engine import HOW_TO_GET

        refuse(HOW_TO_GET)
    machine = machine_here(answer, platform.value if platform else None)
    findings = _findings(specs, machine, answer)
    _report(findings, as_json=as_json)
    if any(not one.warning for one in findings):
        raise typer.Exit(NOT_RIGHT)
    if check:
        if not as_json:
            typer.echo(_verdict(specs, machine, findings))
        return
    _writable(logs, write)
    from gateway.cli.launching import Launching

    launching = Launching(
        specs, machine, logs, write, verify_every=verify_every, at_once=at_once, quiet=quiet
    )
    raise typer.Exit(0 if asyncio.run(launching.run()) else NOT_RIGHT)


def _writable(logs: Path, write: Path | None) -> None:
    """Refuse what would only fail once the servers have loaded."""
    if write is not None and not write.parent.is_dir():
        refuse(f"{write.parent}: there is no such folder")
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"{logs}: {error.strerror}")


def _specs(recipe: str, methods: str, fleet: Path | None, port: int) -> tuple[LaunchSpec, ...]:
    from backends.fleet_file import read_fleet
    from backends.recipes import recipes
    from backends.spec import UnknownMethodError, from_recipe
    from gateway.policy.load import Invalid
    from gateway.policy.problems import suggest

    if bool(recipe) == bool(fleet):
        refuse("name a recipe with --recipe, or a fleet file with --fleet")
    if fleet is not None:
        found = read_fleet(read_text(fleet), str(fleet))
        if isinstance(found, Invalid):
            refuse("\n".join(map(str, found.problems)))
        return found
    if recipe not in recipes():
        refuse(f"there is no recipe {recipe!r}; {suggest(recipe, recipes(), 'recipes')}")
    chosen = recipes()[recipe]
    names = [one.strip() for one in methods.split(",") if one.strip()] or list(chosen.methods)
    try:
        return tuple(from_recipe(chosen, names, first_port=port))
    except UnknownMethodError as error:
        refuse(str(error))


def _shown(what: Printed, specs: Sequence[LaunchSpec], platform: Platform, python: str) -> str:
    import itertools

    from backends import manifests, render
    from backends.fleet_file import write_fleet
    from backends.placement import place

    try:
        match what:
            case Printed.FLEET:
                return write_fleet(specs)
            case Printed.COMPOSE:
                return manifests.compose(specs, platform)
            case Printed.KUBERNETES:
                return manifests.kubernetes(specs, platform)
            case Printed.ARGV:
                gpus = {} if platform == "cpu" else place(specs, itertools.count())
                lines = (render.shell(spec, platform, python, gpus.get(spec.name, ())) for spec in specs)
                return "".join(f"{line}\n" for line in lines)
    except manifests.NotRenderableError as error:
        refuse(str(error))


def _asked(python: str, specs: Sequence[LaunchSpec]) -> Answer | None:
    """What vLLM says of itself; None where no interpreter is named."""
    import asyncio

    from backends.engine import NoEngineError, ask

    if not python:
        return None
    try:
        return asyncio.run(ask(python, specs))
    except NoEngineError as error:
        refuse(str(error))


def machine_here(answer: Answer | None, platform: Platform | None) -> Machine:
    """This machine as far as its tools and vLLM tell.

    Args:
        answer: Of vLLM, if it was asked.
        platform: What servers are to run on; found out if None.
    """
    from backends import faults, machine

    found = machine.look()
    here = answer.engine.platform if answer else found.platform
    chosen = platform or here or "rocm"
    listed = found.gpus if found.platform == chosen else None
    return machine.Machine(
        platform=chosen,
        engine=answer.engine if answer else None,
        gpus=None if listed is None else machine.visible(listed, chosen, os.environ),
        port_is_free=machine.port_is_free,
        env=os.environ,
        trouble=found.trouble if found.platform == chosen else "",
        features=faults.features(),
    )


def _findings_anywhere(specs: Sequence[LaunchSpec], platform: Platform, show: Printed) -> list[Finding]:
    """What is wrong with a fleet on whatever machine it will run."""
    from backends import manifests
    from backends.machine import Machine
    from backends.preflight import preflight

    claim = (f"{manifests.MODELS}/",) if show is Printed.KUBERNETES else ()
    anywhere = Machine(platform, is_here=lambda _host: True, env=os.environ, volumes=claim)
    return [one for one in preflight(specs, anywhere) if not one.unchecked]


def _findings(specs: Sequence[LaunchSpec], machine: Machine, answer: Answer | None) -> list[Finding]:
    from backends.preflight import preflight
    from backends.preflight.finding import unchecked

    findings = preflight(specs, machine)
    if answer is None:
        wrong = "vLLM was not asked whether its flags go together"
        findings.append(unchecked(specs[0].name, wrong, f"name its interpreter with --python or in {PYTHON}"))
        return findings
    # What the preflight says better is not said again in vLLM's words.
    known = {one.server for one in findings if not one.warning}
    return findings + [one for one in answer.findings if one.server not in known]


def _report(findings: Sequence[Finding], *, as_json: bool) -> None:
    import json

    if as_json:
        wrong = any(not one.warning for one in findings)
        document = {"ok": not wrong, "findings": [one.as_json() for one in findings]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    # What is wrong first, then what is odd, then what could not be looked at.
    for one in sorted(findings, key=lambda one: (one.warning, one.unchecked)):
        typer.echo(str(one), err=True)


def _verdict(specs: Sequence[LaunchSpec], machine: Machine, findings: Sequence[Finding]) -> str:
    engine = f"vLLM {machine.engine.version}" if machine.engine else "no vLLM here to ask"
    gpus = f"{len(machine.gpus)} GPUs" if machine.gpus is not None else "no GPU here to look at"
    names = ", ".join(spec.name for spec in specs)
    unchecked = sum(one.unchecked for one in findings)
    known = [engine, gpus, *([f"what could not be checked is said above: {unchecked}"] if unchecked else ())]
    right = "Right as far as could be checked" if unchecked else "Right"
    return f"{right} for {machine.platform}: {names} ({', '.join(known)})"
