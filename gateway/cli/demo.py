"""``specroute demo``: a simulated fleet, the gateway and real prompts, then a table of what was gained."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.samples import sample

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    from gateway.cli.route_table import Routes
    from gateway.core.outcome import Record

USUAL_PORT = 8000
READY_SECONDS = 60.0
_ADDRESS = re.compile(r"(?<=url: http://127\.0\.0\.1:)\d+")
MODELS = ("gemma-4-31b", "qwen3.6-35b")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the table; exit 0 only if every request succeeded.")
    ] = False,
    requests: Annotated[int, typer.Option(help="Prompts to send.", min=1)] = 1000,
    concurrency: Annotated[int, typer.Option(help="Requests open at once.", min=1)] = 64,
    port: Annotated[
        int | None,
        typer.Option(help="Port of the gateway. [default: 8000, or a free one]", show_default=False),
    ] = None,
    speed: Annotated[float, typer.Option(help="Times as fast as the modelled GPUs.", min=0.1)] = 1.0,
) -> None:
    """Show the whole product on this machine, without a GPU.

    Starts eight simulated vLLM servers (Gemma 4 31B and Qwen3.6 35B-A3B on MI300X, each with several
    speculative methods and one with none), the gateway in front of them, and sends prompts of every workload
    through the OpenAI SDK. Prints what was routed where, how fast and with what gain, then stays up for you
    to try.

    Example: `specroute demo --once --requests 200`
    """
    try:
        import openai  # noqa: F401 - only the driver's process uses it
    except ModuleNotFoundError:
        print(
            "the demo drives the gateway with the OpenAI SDK: pip install 'specroute[demo]'", file=sys.stderr
        )
        raise typer.Exit(2) from None
    import uvloop

    with tempfile.TemporaryDirectory(prefix="specroute-demo-") as folder:
        show = Demo(Path(folder), requests=requests, concurrency=concurrency, port=port, speed=speed)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(show.run(once=once))
    raise typer.Exit(code)


class DemoError(Exception):
    """The demo cannot go on; the message is for the person at the terminal."""


class Demo:
    """One showing: a fleet in a process of its own, the gateway here, a client in a third process."""

    def __init__(
        self, folder: Path, *, requests: int, concurrency: int, port: int | None, speed: float
    ) -> None:
        from rich.console import Console

        from gateway.cli.route_table import WIDTH, Routes

        console = Console()
        self._console = console if console.width >= WIDTH else Console(width=WIDTH)
        self._folder = folder
        self._requests = requests
        self._concurrency = concurrency
        self._port = port
        self._speed = speed
        self._routes: Routes = Routes()
        self._labels: dict[str, str] = {}
        self._expected: dict[str, str] = {}
        self._recorded = asyncio.Event()
        self._shown = False
        self._ports: list[int] = []

    async def run(self, *, once: bool) -> int:
        """Show it. Returns the exit code."""
        loop = asyncio.get_running_loop()
        showing = loop.create_task(self._show(once=once), name="demo")
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, showing.cancel)
        try:
            return await showing
        except asyncio.CancelledError:
            self._console.print("stopped")
            return 0 if self._shown else 130
        except DemoError as error:
            self._console.print(f"[red]{error}")
            return 1

    async def _show(self, *, once: bool) -> int:
        fleet, policy = self._files()
        self._console.print(f"Fleet and policy of this demo: {fleet} and {policy}", soft_wrap=True)
        async with self._fleet(fleet), self._gateway(fleet, policy) as url:
            await self._ready(url)
            failures = await self._drive(url)
            self._report(failures)
            self._shown = True
            if not once:
                self._invite(url, policy)
                await asyncio.Event().wait()  # until the signal cancels it
            return 1 if failures else 0

    def _files(self) -> tuple[Path, Path]:
        """The sample fleet on free ports, and the demo's policy, where they can be edited."""
        text = sample("fleet.yaml").read_text()
        fleet, policy = self._folder / "fleet.yaml", self._folder / "policy.yaml"
        self._ports = [_free_port() for _ in _ADDRESS.findall(text)]
        taken = iter(self._ports)
        fleet.write_text(_ADDRESS.sub(lambda _: str(next(taken)), text))
        policy.write_text(sample("demo.yaml").read_text())
        for schema in ("fleet.schema.json", "policy.schema.json"):  # for editors
            (self._folder / schema).write_text(sample(schema).read_text())
        return fleet, policy

    @asynccontextmanager
    async def _fleet(self, file: Path) -> AsyncIterator[None]:
        command = ("-m", "gateway.cli", "sim", "--fleet", str(file), "--speed", str(self._speed))
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        try:
            await self._listening(process)
            yield
        finally:
            await _end(process)

    async def _listening(self, process: Process) -> None:
        """Wait until every server of the fleet takes connections."""
        with self._console.status("Starting the simulated servers …"):
            async with asyncio.timeout(READY_SECONDS):
                for port in self._ports:
                    while not await _accepts(port):
                        if process.returncode is not None:
                            raise DemoError("the simulated servers did not start")
                        await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _gateway(self, fleet: Path, policy: Path) -> AsyncIterator[str]:
        from gateway.app import Gateway
        from gateway.cli.otel import with_standard
        from gateway.cli.running import serving
        from gateway.policy.load import Loaded
        from gateway.runtime.reload import load_files
        from gateway.settings import Settings

        settings = Settings(fleet=fleet, policy=policy, port=self._free(), log_level="warning")
        settings, unheeded = with_standard(settings, os.environ)
        self._console.print(*(f"{words}\n" for words in unheeded), sep="", end="", markup=False)
        loaded = load_files(fleet, policy, os.environ)
        if not isinstance(loaded, Loaded):
            raise DemoError("\n".join(map(str, loaded.problems)))
        async with serving(Gateway(settings, loaded, on_record=[self._record]), settings) as url:
            yield url

    def _free(self) -> int:
        """The port that was asked for; if none was, the usual one or, where that is taken, any."""
        port = USUAL_PORT if self._port is None else self._port
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if self._port is not None:
                raise DemoError(f"port {port}: {error.strerror}; choose another with --port") from None
            self._console.print(f"Port {port} is taken; the gateway takes another.")
            return 0

    def _record(self, record: Record) -> None:
        self._routes.add(record)
        self._labels[record.request_id] = record.classification.label
        if len(self._labels) >= self._requests:
            self._recorded.set()

    async def _ready(self, url: str) -> None:
        """Wait until the gateway has seen every server."""
        import httpx

        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(READY_SECONDS):
            while True:
                backends = (await client.get(f"{url}/status")).json()["fleet"]["backends"]
                if all(backend["running"] is not None for backend in backends):
                    return
                await asyncio.sleep(0.2)

    async def _drive(self, url: str) -> list[str]:
        """Send the prompts from a process of its own. Returns what went wrong, a line each."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway.cli.demo_driver", url, str(self._requests), str(self._concurrency),
            *MODELS, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        failures = []
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        try:
            with Progress(*columns, console=self._console) as progress:
                task = progress.add_task("Prompts through the OpenAI SDK", total=self._requests)
                ended = 0
                async for line in process.stdout:
                    told = json.loads(line)
                    ended += 1
                    self._expected[told["id"]] = told["workload"]
                    if told["error"]:
                        failures.append(f"{told['id']} ({told['workload']}): {told['error']}")
                    progress.advance(task)
            if (code := await process.wait()) or ended < self._requests:
                failures.append(f"the client ended with code {code} after {ended} of {self._requests}")
        finally:
            await _end(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                await self._recorded.wait()
        return failures

    def _report(self, failures: list[str]) -> None:
        from gateway.cli.route_table import NOTES

        console = self._console
        console.print("\nWhat was routed where, on simulated servers with the speeds published for MI300X")
        for table in self._routes.tables():
            console.print(table)
        for note in NOTES:
            console.print(f"[dim]{note}")
        for line in self._routes.totals():
            console.print(f"• {line}")
        right = sum(self._labels.get(identity) == label for identity, label in self._expected.items())
        console.print(
            f"• {right} of {len(self._expected)} prompts got the label they were written for; the model "
            "was trained with them too, so this says nothing of others"
        )
        console.print(
            "• A quarter of the requests went to the baselines, to measure the gain over no speculation. "
            "Whether routing by workload beats one good configuration everywhere this run does not answer."
        )
        for line in failures:
            console.print(f"[red]failed: {line}")
        if not failures:
            console.print(f"• all {self._requests} requests succeeded")

    def _invite(self, url: str, policy: Path) -> None:
        self._console.print(f"\n[bold]The gateway stays up at {url} until Ctrl-C.[/bold] Try:")
        python = os.path.relpath(sys.executable)
        specroute = Path(python).with_name("specroute")
        text = _TRY.format(url=url, policy=policy, model=MODELS[0], python=python, specroute=specroute)
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


_TRY = """\
curl {url}/v1/chat/completions -H 'content-type: application/json' -i \\
  -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "What is 7 * 8?"}}]}}'

{python}
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="any")
print(client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "Hi"}}]))

curl -s {url}/-/decide \\
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Fix SQL"}}]}}' | python3 -m json.tool
open {url}/ui              in a browser: the traffic, each decision and why, the fleet
{specroute} top {url}   the same in a terminal
curl {url}/status          what is in force and how every server is
curl {url}/metrics         everything measured, for Prometheus
edit {policy}   a change is in force at once; /-/policy says what is wrong with it
"""


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


async def _end(process: Process) -> None:
    """Stop a process that was started here, unless it has ended."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
