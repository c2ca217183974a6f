"""One run of a sweep at the terminal: resumed, with progress and time left, and its files in the end."""

from __future__ import annotations

import asyncio
import json
import math
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from backends.preflight import alone
from backends.sweep import here, log
from backends.sweep.drive import Driver, Limits
from backends.sweep.evidence import evidence
from backends.sweep.model import BASELINE, Candidate
from backends.sweep.plan import Plan
from backends.sweep.prompts import digest
from backends.sweep.results import Results
from backends.sweep.run import NoBaselineError, RealBench, Sweep, VirtualBench
from backends.sweep.servers import Given, Launched, NoServerError, spec_of
from backends.sweep.virtual import VirtualServers
from backends.sweep.words import duration
from gateway.cli.evidence_files import Fleet, complain, folder, today, write
from gateway.cli.files import refuse
from gateway.cli.launch import machine_here
from gateway.policy.evidence import Machine
from gateway.runtime import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from pathlib import Path

    from backends.machine import Machine as Place
    from backends.preflight import Finding
    from backends.sweep.model import Condition
    from backends.sweep.plan import Settings
    from backends.sweep.prompts import Prompt
    from backends.sweep.roles import Limit
    from backends.sweep.run import Bench
    from backends.sweep.run import Progress as Step
    from backends.sweep.setup import Setup
    from gateway.cli.evidence_files import Files

SAMPLES = "samples.jsonl"
SAID_EVERY = 30.0
"""Seconds between two lines of progress where no terminal shows a bar."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for.

    Attributes:
        prompts: By workload and prompt length.
        stall: Seconds without an event of any stream after which a server hangs.
        budget: Seconds.
        servers: To plan a fleet for.
        mix: Shares of requests by workload or kind of work; None for equal ones.
        python: Interpreter that has vLLM.
        simulated: Whether the simulator is measured, in virtual time.
        limits: Work that must be served within a time per token.
    """

    setup: Setup
    conditions: tuple[Condition, ...]
    prompts: Mapping[tuple[str, str], Sequence[Prompt]]
    settings: Settings
    max_tokens: int
    stall: float
    budget: float
    servers: int
    mix: Mapping[str, float] | None
    python: str
    simulated: bool
    limits: Sequence[Limit] = ()


@dataclass(slots=True)
class _Shown:
    """The progress of a sweep: a bar on a terminal, elsewhere a line now and then and one in the end."""

    quiet: bool
    simulated: bool
    bar: Progress = field(init=False)
    _began: float = 0.0
    _before: int | None = None
    _said_at: float = -math.inf
    _unsaid: str = ""

    def __post_init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (BarColumn(20), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=console, disable=self.quiet or not console.is_terminal)
        self.bar.add_task("starting", total=None)

    def tell(self, step: Step) -> None:
        """Show how far it is."""
        seconds = self._on_the_wall(step) if self.simulated else step.seconds_left
        left = "" if seconds is None else f", about {duration(seconds)} left"
        saved = f", of {step.grid:.0f} in a full grid" if step.rounds else ""
        said = f"{step.doing} | {step.rounds} rounds{saved}{left}"
        self.bar.update(
            self.bar.task_ids[0], description=said, completed=step.rounds, total=step.rounds + step.left
        )
        self._unsaid = said
        if clock.monotonic() - self._said_at >= SAID_EVERY:
            self.say()

    def say(self) -> None:
        """Write a line, if nothing else shows what it says."""
        if self._unsaid and not self.bar.console.is_terminal and not self.quiet:
            self.bar.console.print(self._unsaid, soft_wrap=True)
        self._said_at, self._unsaid = clock.monotonic(), ""

    def _on_the_wall(self, step: Step) -> float | None:
        """Time left where that of the servers is virtual: by how fast rounds were simulated in this run."""
        if self._before is None:
            self._began, self._before = clock.monotonic(), step.rounds
        made = step.rounds - self._before
        return step.left * (clock.monotonic() - self._began) / made if made else None


def sweeping(asked: Asked, out: Path, *, quiet: bool) -> Files | None:
    """Measure and write; None where there is no answer, which was said on stderr.

    Args:
        asked: What to measure.
        out: Folder for the files.
        quiet: Whether to show no progress.
    """
    folder(out)
    results = Results()
    made = Plan(asked.conditions, asked.setup.families, results, asked.settings)
    shown = _Shown(quiet, asked.simulated)
    try:
        with shown.bar:
            settled, sweep, machine = asyncio.run(_run(asked, out, made, shown))
        shown.say()
    except log.UnusableLogError as error:
        refuse(str(error))
    except log.DiskError as error:
        complain(
            f"{error.strerror}: {results.total_rounds} rounds are safe; free some space and run it again"
        )
        return None
    except OSError as error:
        complain(f"{error}: {results.total_rounds} rounds are safe; mend it and run it again")
        return None
    except (NoBaselineError, NoServerError) as error:
        complain(f"nothing can be compared: {error}")
        return None
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain(
            f"interrupted: {results.total_rounds} rounds are safe in {out / SAMPLES}; run it again to go on"
        )
        return None
    return _written(asked, out, sweep, machine, settled=settled)


async def _run(asked: Asked, out: Path, made: Plan, shown: _Shown) -> tuple[bool, Sweep, Machine]:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
    with log.Log(out / SAMPLES) as file:
        read = log.read(out / SAMPLES)
        async with _bench(asked, out, shown) as (bench, machine):
            header = _header(asked, machine)
            spent = (lambda: made.results.seconds) if asked.simulated else loop.time
            sweep = Sweep(made, bench, file, spent, asked.budget, shown.tell)
            if read is None:
                file.begin(header)
            elif changed := _changed(read.header, header):
                refuse(f"{out} holds measurements of {changed}; name another folder with --out")
            else:
                file.go_on(header["prompts"])
                sweep.resume(read)
                if read.lost:
                    many = "1 round of it does" if read.lost == 1 else f"{read.lost} rounds of it do"
                    complain(f"{out / SAMPLES} is damaged: {many} not count")
            settled = await sweep.run()
    return settled, sweep, machine


def _header(asked: Asked, machine: Machine) -> dict[str, Any]:
    return {
        "target": asked.setup.target,
        "max_tokens": asked.max_tokens,
        "machine": machine.model_dump(),
        "prompts": {" ".join(what): digest(texts) for what, texts in asked.prompts.items()},
    }


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What a file was begun with that is another now; "" if nothing is."""
    for what, told in before.get("prompts", {}).items():
        if now["prompts"].get(what, told) != told:
            return f"other prompts of {what}"
    for key, value in now.items():
        if key != "prompts" and before.get(key) != value:
            return f"another {key.replace('_', ' ')} ({json.dumps(before.get(key))})"
    return ""


@asynccontextmanager
async def _bench(asked: Asked, out: Path, shown: _Shown) -> AsyncIterator[tuple[Bench, Machine]]:
    """Where candidates are measured, and on what."""
    setup = asked.setup
    if asked.simulated:
        hardware = _simulated_hardware(setup.target)
        yield VirtualBench(VirtualServers(setup.target)), Machine(hardware=hardware, simulated=True)
        return
    async with Driver(asked.prompts, _limits(asked)) as driver:
        if setup.specs:
            where, findings = await _machine(asked)
            _say(findings, shown)
            refused = {one.server: str(one) for one in findings if not one.warning}
            logs = out / "logs"
            logs.mkdir(exist_ok=True)
            servers = Launched(setup.specs, where, logs, lambda _name, _event: None, refused=refused)
            version = where.engine.version if where.engine else ""
            yield RealBench(servers, driver, _memory_here), here.here(version)
            return
        baseline = setup.places[BASELINE]
        machine = here.here(await here.version_of(baseline.url))
        if not baseline.url.startswith(("http://127.0.0.1", "http://localhost")):
            machine = Machine(vllm=machine.vllm)  # nothing is known of the machine behind a URL
        if await here.simulated(baseline):
            machine = Machine(hardware=_simulated_hardware(setup.target), simulated=True)
        sources = {
            Candidate(one.method, one.draft_tokens): one.gpus for one in reversed(setup.backends) if one.gpus
        }

        async def memory(candidate: Candidate) -> float | None:
            return await here.exported(sources[candidate]) if candidate in sources else None

        yield RealBench(Given(setup.places), driver, memory), machine


def _limits(asked: Asked) -> Limits:
    # A long answer of a busy server takes long: a second a token is slower than anybody serves.
    usual = Limits(asked.max_tokens, asked.stall)
    return replace(usual, timeout=max(usual.timeout, asked.max_tokens))


async def _memory_here(_: Candidate) -> float | None:
    return await asyncio.to_thread(here.memory)


async def _machine(asked: Asked) -> tuple[Place, tuple[Finding, ...]]:
    """This machine, and what is wrong with candidates or could not be looked at, before any is started."""
    from backends import engine

    if not asked.python:
        raise NoServerError(engine.HOW_TO_GET)
    setup = asked.setup
    specs = [spec_of(setup.specs, one) for one in setup.startable()]
    try:
        answer = await engine.ask(asked.python, specs)
    except engine.NoEngineError as error:
        raise NoServerError(str(error)) from error
    machine = machine_here(answer, answer.engine.platform)
    # They run one after the other, so the port of each is free when its turn comes.
    free = replace(machine, port_is_free=lambda _host, _port: True)
    ours = [found for spec in specs for found in alone(spec, free)]
    known = {one.server for one in ours if not one.warning}
    return machine, (*ours, *(one for one in answer.findings if one.server not in known))


def _say(findings: Iterable[Finding], shown: _Shown) -> None:
    """Say what was found, first what keeps candidates from starting; what several have in common once."""
    said: set[str] = set()
    for one in sorted(findings, key=lambda one: (one.warning, one.unchecked)):
        if one.wrong not in said:
            shown.bar.console.print(str(one), soft_wrap=True, markup=False)
        said.add(one.wrong)


def _simulated_hardware(target: str) -> str:
    from backends.sim import profiles

    try:
        return profiles.configurations(target)[0].hardware
    except profiles.UnknownConfigurationError:
        return "servers"


def _written(asked: Asked, out: Path, sweep: Sweep, machine: Machine, *, settled: bool) -> Files | None:
    found = evidence(
        sweep.plan, asked.setup.target, machine, measured=today(), failures=sweep.failures,
        seconds=sweep.plan.results.seconds,
    )  # fmt: skip
    setup = asked.setup
    fleet = Fleet(asked.servers, asked.mix, setup.specs, setup.served_model, setup.backends, asked.limits)
    return write(found, fleet, out, measured=[out / SAMPLES], settled=settled)
