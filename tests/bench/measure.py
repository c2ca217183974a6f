"""One case at one gateway: what the load saw and what the gateway used meanwhile."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.bench import processes
from tests.bench.cases import Case
from tests.bench.contenders import Place
from tests.bench.load import as_argument

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.bench.contenders import Contender

_READY_SECONDS: Final = 90.0
_PROBE: Final = Case("probe", "one request", 1)


class NoAnswerError(Exception):
    """A gateway that gave no answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that answers completions.

    Attributes:
        leader: Process that leads its session; None where there is no gateway between load and mock.
    """

    name: str
    port: int
    headers: tuple[str, ...] = ()
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The mock, and the CPU that the gateways share."""

    folder: Path
    search: Sequence[Path]
    gateway_cpu: int
    load_cpu: int
    mock: int
    ports: Sequence[int]

    @property
    def direct(self) -> Target:
        """The mock without a gateway."""
        return Target("direct", self.ports[0])

    def place(self, name: str) -> Place:
        """A new place for a gateway."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return Place(folder, processes.free_port(), self.ports, self.search)

    @contextmanager
    def gateway(self, contender: Contender) -> Iterator[Target | None]:
        """Run a gateway; None if it is not installed.

        Raises:
            NoAnswerError: It is, and gives no answer.
        """
        place = self.place(contender.name)
        command = contender.command(place)
        if command is None:
            yield None
            return
        with self.running(command, place, contender) as (target, _):
            yield target

    @contextmanager
    def running(
        self, command: Sequence[str], place: Place, contender: Contender
    ) -> Iterator[tuple[Target, subprocess.Popen[str]]]:
        """Run a gateway by a command of one's own."""
        log = place.folder / "log"
        with log.open("wb") as sink:
            process = processes.start(command, self.gateway_cpu, env=contender.env, log=sink)
            target = Target(contender.name, place.port, contender.headers, process.pid)
            try:
                self._await(target, process, log)
                yield target, process
            finally:
                processes.stop(process)

    def _await(self, target: Target, process: subprocess.Popen[str], log: Path) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                self.run(target, _PROBE, loaded=False)
            except NoAnswerError:
                time.sleep(0.1)
            else:
                return
        raise NoAnswerError(f"{target.name} gave no answer: {log.read_text(errors='replace')[-500:].strip()}")

    def run(
        self,
        target: Target,
        case: Case,
        *,
        loaded: bool = True,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Load a target.

        Args:
            target: What to load.
            case: How.
            loaded: Load it; otherwise only make the requests that warm it up.
            before: Called when it is warm.
            after: Called after the last answer.

        Returns:
            What :mod:`tests.bench.load` prints, and the CPU times in seconds: ``gateway_cpu``, ``mock_cpu`` and
            what other programs took of both CPUs, as shares of the time.

        Raises:
            NoAnswerError: The requests that warm up failed.
        """
        command = [
            sys.executable,
            "-m",
            "tests.bench.load",
            "--port",
            str(target.port),
            "--case",
            as_argument(case),
        ]
        for header in target.headers:
            command += ["--header", header]
        load = processes.start(command, self.load_cpu)
        assert load.stdin is not None
        assert load.stdout is not None
        try:
            ready = load.stdout.readline()
            if troubles := json.loads(ready)["troubles"]:
                raise NoAnswerError(f"{target.name}, {case.name}: {troubles}")
            if not loaded:
                return {}
            before()
            used = self._used(target)
            load.stdin.write("\n")
            load.stdin.flush()
            figures: dict[str, Any] = json.loads(load.stdout.readline())
            spent = {name: value - used[name] for name, value in self._used(target).items()}
            after()
        finally:
            processes.stop(load)
        ours = {"gateway": spent["gateway_cpu"], "load": spent["mock_cpu"] + figures["load_cpu"]}
        return {
            **figures,
            "gateway_cpu": round(spent["gateway_cpu"], 3),
            "mock_cpu": round(spent["mock_cpu"], 3),
            "others_on_gateway_cpu": round((spent["busy0"] - ours["gateway"]) / spent["wall"], 3),
            "others_on_load_cpu": round((spent["busy1"] - ours["load"]) / spent["wall"], 3),
        }

    def _used(self, target: Target) -> dict[str, float]:
        busy = processes.busy_seconds()
        return {
            "wall": time.monotonic(),
            "gateway_cpu": processes.cpu_seconds(target.leader) if target.leader else 0.0,
            "mock_cpu": processes.cpu_seconds(self.mock),
            "busy0": busy[self.gateway_cpu],
            "busy1": busy[self.load_cpu],
        }


@contextmanager
def bench(folder: Path, search: Sequence[Path]) -> Iterator[Bench]:
    """Start the mock."""
    gateway_cpu, load_cpu = processes.cpus()
    with ExitStack() as stack:
        mock = processes.start([sys.executable, "-m", "tests.bench.mock"], load_cpu)
        stack.callback(processes.stop, mock)
        assert mock.stdout is not None
        ports = json.loads(mock.stdout.readline())["ports"]
        yield Bench(folder, search, gateway_cpu, load_cpu, mock.pid, ports)
