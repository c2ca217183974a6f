"""Running a fleet until told to stop: progress on the terminal, a fleet file, a look at it now and then."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

import httpx
from rich.console import Console

from backends.commands import Event
from backends.fleet_file import write_fleet
from backends.reach import client, disbelief
from backends.starting import commands
from backends.supervise import Supervisor
from backends.verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_STYLES = {Event.READY: "green", Event.FAILED: "red", Event.ENDED: "yellow", Event.UNLOGGED: "yellow"}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Terminal(Console):
    """What is said to whoever listens; if nobody does any more, the servers run on."""

    def on_broken_pipe(self) -> None:
        """Say no more."""
        self.quiet = True


class Launching:
    """One run of a fleet."""

    def __init__(
        self,
        specs: Sequence[LaunchSpec],
        machine: Machine,
        logs: Path,
        write: Path | None,
        *,
        verify_every: float,
        at_once: int,
        quiet: bool,
    ) -> None:
        """Prepare to run a fleet.

        Args:
            specs: The servers.
            machine: This machine, with its vLLM.
            logs: Folder for the logs.
            write: Fleet file to write.
            verify_every: Seconds between two looks at the servers.
            at_once: Servers that load at the same time.
            quiet: Whether the servers' output is kept to their logs.
        """
        self._specs = specs
        self._machine = machine
        self._logs = logs
        self._write = write
        self._verify_every = verify_every
        self._at_once = at_once
        self._quiet = quiet
        self._loading = True
        self._console = _Terminal(highlight=False, markup=False, soft_wrap=True)

    async def run(self) -> bool:
        """Run the fleet until SIGINT, SIGTERM or the terminal's end. Tells whether none failed to start."""
        stop = asyncio.Event()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        supervisor = Supervisor(
            commands(self._specs, self._machine, self._logs),
            tell=lambda *said: self._tell(supervisor, *said),
            line=self._line,
            at_once=self._at_once,
        )
        async with supervisor, asyncio.TaskGroup() as group:
            waiting = group.create_task(supervisor.ready())
            stopping = group.create_task(stop.wait())
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                waiting.cancel()
                return True
            running = [spec for spec in self._specs if spec.name in waiting.result()]
            if len(running) < len(self._specs):
                stopping.cancel()
                return False
            self._loading = False
            await self._hand_over(running)
            await self._watch(running, stop)
        return True

    async def _hand_over(self, running: Sequence[LaunchSpec]) -> None:
        for spec in running:
            if spec.certificate and await _is_private(spec):
                said = f"if SSL_CERT_FILE names {spec.certificate}, or who signed it"
                self._say(f"{spec.name}: a gateway believes its certificate {said}", "yellow")
        stand = ""
        if self._write is not None:
            try:
                _swap(self._write, write_fleet(running))
                stand = f" and stand in {self._write}"
            except OSError as error:
                self._say(f"{self._write} cannot be written: {error.strerror}", "red")
        self._say(f"All servers are ready{stand}; Ctrl-C stops them.")

    async def _watch(self, running: Sequence[LaunchSpec], stop: asyncio.Event) -> None:
        engine = self._machine.engine
        async with Verifier(launched=engine.version if engine else None) as verifier:
            said: dict[str, tuple[str, ...]] = {}
            while not stop.is_set():
                for spec in running:
                    found = tuple(map(str, await verifier.verify(spec)))
                    if found != said.get(spec.name, ()):
                        for line in found or (f"{spec.name}: is what it should be again",):
                            self._say(line, "yellow")
                    said[spec.name] = found
                try:
                    await asyncio.wait_for(stop.wait(), self._verify_every)
                except TimeoutError:
                    continue

    def _tell(self, supervisor: Supervisor, name: str, event: Event, detail: str) -> None:
        # A fleet that lacks a server is not handed over, so nobody need wait for the others.
        if event is Event.FAILED and self._loading:
            supervisor.stop()
        self._say(f"{name}: {event.value}: {detail}", _STYLES.get(event))

    def _line(self, name: str, line: str) -> None:
        if not self._quiet:
            self._say(f"{name} | {line}", "dim")

    def _say(self, text: str, style: str | None = None) -> None:
        # The terminal may be gone, or the disk full that the output goes to.
        with contextlib.suppress(OSError):
            self._console.print(text, style=style)


async def _is_private(spec: LaunchSpec) -> bool:
    """Whether the authorities that this machine knows do not vouch for a server's certificate."""
    async with client(timeout=5.0) as asking:
        try:
            await asking.get(f"{spec.url}/health")
        except httpx.HTTPError as error:
            return disbelief(error) is not None
    return False


def _swap(file: Path, text: str) -> None:
    """Replace a file as a whole: a gateway that watches it never reads half of it."""
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
