"""The gateway in front of simulated servers, all in one thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import uvicorn

from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.policy.load import Loaded, load_fleet
from gateway.runtime.reload import load_files
from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from backends.sim.fleet import Running
    from backends.sim.server import Simulator
    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record

    Application = Callable[..., Awaitable[None]]

T = TypeVar("T")

POLICIES = Path(__file__).parents[2] / "policies"
SECONDS = 20.0
"""How long anything may take before a test gives up waiting for it."""

SERVER = Options(max_model_len=4096, speed=100.0, store_responses=True)
_URL = re.compile(r"(?<=url: )(?!\"?litellm:)[^\s,}]+")


def eventually(read: Callable[[], T], wanted: Callable[[T], bool], within: float = SECONDS) -> T:
    """What is read, as soon as it is as wanted."""
    deadline = time.monotonic() + within
    while not wanted(value := read()):
        assert time.monotonic() < deadline, f"still {value!r} after {within:g} s"
        time.sleep(0.01)
    return value


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stack", daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine in the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    @contextmanager
    def entered(self, context: Any) -> Iterator[Any]:
        """Enter an asynchronous context in the loop, leave it at the end."""
        value = self.run(context.__aenter__())
        try:
            yield value
        finally:
            self.run(context.__aexit__(None, None, None))

    def close(self) -> None:
        """Stop the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


class Records:
    """The records of a gateway by request id."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._records: dict[str, Record] = {}

    def add(self, record: Record) -> None:
        """Take a record, as a consumer of the gateway."""
        with self._arrived:
            self._records[record.request_id] = record
            self._arrived.notify_all()

    def __contains__(self, identity: str) -> bool:
        with self._arrived:
            return identity in self._records

    def of(self, identity: str) -> Record:
        """The record of a request, once it has ended."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: identity in self._records, SECONDS), f"no {identity}"
            return self._records[identity]


class Server:
    """A simulated server that can be stopped and started again on its port."""

    running: Running

    def __init__(self, member: Member) -> None:
        self.member = member
        self._stack = AsyncExitStack()

    @property
    def simulator(self) -> Simulator:
        return self.running.simulator

    @property
    def url(self) -> str:
        return self.running.url

    async def start(self) -> None:
        (self.running,) = await self._stack.enter_async_context(run_fleet([self.member]))
        self.member = replace(self.member, port=int(self.url.rsplit(":", 1)[1]))

    async def stop(self) -> None:
        await self._stack.aclose()


@dataclass(frozen=True)
class Stack:
    """A gateway and its fleet.

    Attributes:
        loop: Runs them all.
        url: The gateway's address.
        http: A client of it.
        fleet: The fleet file.
        policy: The policy file.
        servers: The simulated servers by name.
        records: What became of each request.
    """

    loop: Loop
    url: str
    http: httpx.Client
    fleet: Path
    policy: Path
    servers: Mapping[str, Server]
    records: Records

    def backends(self) -> dict[str, dict[str, Any]]:
        """Every backend as the gateway sees it now."""
        found = self.http.get("/status").json()["fleet"]["backends"]
        return {backend["name"]: backend for backend in found}

    def until(self, name: str, **wanted: Any) -> dict[str, Any]:
        """A backend, as soon as the gateway sees it so."""
        return eventually(lambda: self.backends()[name], lambda backend: wanted.items() <= backend.items())

    def until_idle(self) -> None:
        """Wait until the gateway knows that no server has anything to do."""
        eventually(
            lambda: {
                name: (backend["in_flight"], backend["running"], backend["waiting"])
                for name, backend in self.backends().items()
            },
            lambda loads: all(load == (0, 0, 0) for load in loads.values()),
        )


def member(backend: Backend, changes: Mapping[str, Any]) -> Member:
    """The server a backend of a fleet file stands for; one with a draft reports its acceptance."""
    reporting = Reporting(acceptance="summary" if backend.draft_tokens else "off")
    options = {"served_model": backend.served_model, "reporting": reporting, **changes}
    return Member(
        backend.target,
        backend.method,
        backend.draft_tokens,
        backend.name,
        options=replace(SERVER, **options),
    )


@asynccontextmanager
async def _running(
    fleet: str,
    settings: Settings,
    changes: Mapping[str, Mapping[str, Any]],
    applications: Mapping[str, Application],
    records: Records,
) -> AsyncIterator[tuple[str, dict[str, Server]]]:
    declared = load_fleet(fleet)
    assert isinstance(declared, Loaded), declared
    servers: dict[str, Server] = {}
    urls = []
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_stop, servers)
        for backend in declared.value.backends:
            if application := applications.get(backend.name):
                urls.append(await stack.enter_async_context(listening(application)))
                continue
            servers[backend.name] = server = Server(member(backend, changes.get(backend.name, {})))
            await server.start()
            urls.append(server.url)
        settings.fleet.write_text(_URL.sub(lambda _: urls.pop(0), fleet))
        loaded = load_files(settings.fleet, settings.policy, {})
        assert isinstance(loaded, Loaded), loaded
        gateway = Gateway(settings, loaded, on_record=[records.add])
        yield await stack.enter_async_context(serving(gateway, settings)), servers


async def _stop(servers: Mapping[str, Server]) -> None:
    """All at once, as each takes its time."""
    await asyncio.gather(*(server.stop() for server in servers.values()))


@contextmanager
def running(
    loop: Loop,
    folder: Path,
    fleet: str,
    policy: str,
    *,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    applications: Mapping[str, Application] | None = None,
    scrape_interval: float = 0.2,
    given: Mapping[str, Any] | None = None,
) -> Iterator[Stack]:
    """Run the servers of a fleet on free ports, and a gateway in front of them.

    Args:
        loop: Runs them all.
        folder: Where the files are put.
        fleet: Text of the fleet file; its addresses are replaced.
        policy: Text of the policy file.
        changes: Options of single simulated servers by name.
        applications: Servers that are not simulated, by name.
        scrape_interval: Seconds between two looks at a server, be it its load or its health.
        given: Further settings of the gateway.
    """
    settings = Settings(
        fleet=folder / "fleet.yaml",
        policy=folder / "policy.yaml",
        port=0,
        scrape_interval=scrape_interval,
        probe_interval=scrape_interval,
        **(given or {}),
    )
    settings.policy.write_text(policy)
    records = Records()
    context = _running(fleet, settings, changes or {}, applications or {}, records)
    with (
        loop.entered(context) as (url, servers),
        httpx.Client(base_url=url, trust_env=False, timeout=SECONDS) as http,
    ):
        stack = Stack(loop, url, http, settings.fleet, settings.policy, servers, records)
        stack.until_idle()
        yield stack


@asynccontextmanager
async def listening(application: Application) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port. Gives its address."""
    server = uvicorn.Server(
        uvicorn.Config(application, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
