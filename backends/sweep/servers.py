"""The servers of a sweep, one at a time: those that run already, or our own, started for a candidate."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import httpx

from backends.commands import Command, Event
from backends.preflight import alone
from backends.starting import commands
from backends.supervise import Patience, Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from backends.machine import Machine
    from backends.spec import LaunchSpec
    from backends.sweep.model import Candidate


_WITH_PARENT: Final = (
    "import ctypes, os, signal, sys; "
    "ctypes.CDLL(None).prctl(1, signal.SIGTERM); "  # PR_SET_PDEATHSIG
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Runs a command that is told to stop when this process dies: a killed sweep leaves no server behind."""

_POLL: Final = 0.5
_SLOWER: Final = 5.0
_LEAST: Final = 900.0


def ready_within(most: float, slowest: float) -> float:
    """Seconds that a server may take to be ready, where others of the same target were.

    Args:
        most: What the first one may take.
        slowest: What the slowest one took; 0 if none was ready yet.
    """
    return min(most, max(_LEAST, _SLOWER * slowest)) if slowest else most


class NoServerError(RuntimeError):
    """There is no server for a candidate; the text says why."""


class Place(NamedTuple):
    """Where a server is, what it answers to, and the API key that it asks for, if it asks."""

    url: str
    model: str
    key: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What each request says of who asks."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


class Servers(Protocol):
    """Gives a server for a candidate."""

    def open(self, candidate: Candidate) -> AbstractAsyncContextManager[Place]:
        """A server that is ready, for as long as the context lasts.

        Raises:
            NoServerError: There is none.
        """
        ...


class Given:
    """Servers that run already and go on running."""

    def __init__(self, places: Mapping[Candidate, Place], *, patience: float = 60.0) -> None:
        """Name the servers.

        Args:
            places: Where each candidate is served.
            patience: Seconds that one which does not answer is waited for: whoever runs it may start it anew.
        """
        self._places = places
        self._patience = patience

    @contextlib.asynccontextmanager
    async def open(self, candidate: Candidate) -> AsyncIterator[Place]:
        """The server of a candidate."""
        if candidate not in self._places:
            raise NoServerError(f"no server of {candidate.label} was named")
        place = self._places[candidate]
        async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
            try:
                async with asyncio.timeout(self._patience):
                    while not await _healthy(client, place.url):  # noqa: ASYNC110 - only asking tells
                        await asyncio.sleep(_POLL)
            except TimeoutError:
                raise NoServerError(f"{place.url} does not answer") from None
        yield place


async def _healthy(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/health")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def spec_of(specs: Mapping[str, LaunchSpec], candidate: Candidate) -> LaunchSpec:
    """What is started for a candidate.

    Args:
        specs: One for each method; N is the candidate's.
        candidate: Whose server it is.

    Raises:
        NoServerError: Its method is not among those that can be started.
    """
    spec = specs.get(candidate.method)
    if spec is None:
        raise NoServerError(f"there is no way to start {candidate.method}")
    return replace(spec, name=candidate.label, draft_tokens=candidate.draft_tokens)


class Launched:
    """Servers that are started here for a candidate and stopped after it."""

    def __init__(
        self,
        specs: Mapping[str, LaunchSpec],
        machine: Machine,
        logs: Path,
        tell: Callable[[str, str], None],
        *,
        refused: Mapping[str, str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Prepare to start servers.

        Args:
            specs: One for each method; N is the candidate's.
            machine: This machine, with its vLLM.
            logs: Folder for their logs; it must be there.
            tell: Called with a server's name and what happens to it.
            refused: Candidates that vLLM does not take, by label, and why.
            patience: How long starts and stops may take.
        """
        self._specs = specs
        self._machine = machine
        self._logs = logs
        self._tell = tell
        self._refused = refused or {}
        self._patience = patience or Patience()
        self._slowest = 0.0

    @contextlib.asynccontextmanager
    async def open(self, candidate: Candidate) -> AsyncIterator[Place]:
        """Check a server, start it, and stop it in the end."""
        spec = spec_of(self._specs, candidate)
        await self._port(spec)
        wrong = [str(one) for one in alone(spec, self._machine) if not one.warning]
        if wrong or spec.name in self._refused:
            raise NoServerError("; ".join(wrong) or self._refused[spec.name])
        said: list[str] = []

        def tell(name: str, event: Event, detail: str) -> None:
            if event is Event.FAILED:
                said.append(detail)
            self._tell(name, f"{event.value} {detail.splitlines()[0] if detail else ''}".strip())

        command = self._command(spec)
        patience = replace(self._patience, ready=ready_within(self._patience.ready, self._slowest))
        supervisor = Supervisor([command], tell=tell, patience=patience)
        clock = asyncio.get_running_loop()
        began = clock.time()
        async with supervisor:
            if not await supervisor.ready():
                raise NoServerError("; ".join(said) or "it did not start")
            self._slowest = max(self._slowest, clock.time() - began)
            yield Place(spec.url, spec.served_model, command.key)

    async def _port(self, spec: LaunchSpec) -> None:
        """Wait until the server before, or that of a sweep that was killed, has left the port."""
        for _ in range(round(self._patience.stop / _POLL)):
            if self._machine.port_is_free(spec.host, spec.port):
                return
            await asyncio.sleep(_POLL)

    def _command(self, spec: LaunchSpec) -> Command:
        (command,) = commands([spec], self._machine, self._logs)
        return replace(command, argv=(*_with_parent(), *command.argv))


def _with_parent() -> tuple[str, ...]:
    return (sys.executable, "-c", _WITH_PARENT) if sys.platform == "linux" else ()
