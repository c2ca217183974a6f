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

READY_SECONDS = 60.0
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
    port: Annotated[int, typer.Option(help="Port of the gateway; 0 takes a free one.")] = 8000,
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
            raise typer.Exit(runner.run(show.run(once=once)))


class DemoError(Exception):
    """The demo cannot go on; the message is for the person at the terminal."""


class Demo:
    """One showing: a fleet in a process of its own, the gateway here, a client in a third process."""

    def __init__(self, folder: Path, *, requests: int, concurrency: int, port: int, speed: float) -> None:
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

    async def run(self, *, once: bool) -> int:
        """Show it. Returns the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        showing = loop.create_task(self._show(stop, once=once), name="demo")
        stopped = loop.create_task(stop.wait(), name="stop")
        await asyncio.wait((showing, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not showing.done():
            showing.cancel()
        try:
            return await showing
        except asyncio.CancelledError:
            return 0 if not once else 130
        except DemoError as error:
            self._console.print(f"[red]{error}")
            return 1

    async def _show(self, stop: asyncio.Event, *, once: bool) -> int:
        fleet, policy = self._files()
        self._console.print(f"Fleet and policy of this demo: {fleet} and {policy}", soft_wrap=True)
        async with self._fleet(fleet), self._gateway(fleet, policy) as url:
            await self._ready(url)
            failures = await self._drive(url)
            self._report(failures)
            if not once:
                self._invite(url, policy)
                await stop.wait()
            return 1 if failures else 0

    def _files(self) -> tuple[Path, Path]:
        """The sample fleet on free ports, and the demo's policy, where they can be edited."""
        text = sample("fleet.yaml").read_text()
        address = re.compile(r"(?<=url: http://127\.0\.0\.1:)\d+")
        fleet, policy = self._folder / "fleet.yaml", self._folder / "policy.yaml"
        fleet.write_text(address.sub(lambda _: str(_free_port()), text))
        policy.write_text(sample("demo.yaml").read_text())
        return fleet, policy

    @asynccontextmanager
    async def _fleet(self, file: Path) -> AsyncIterator[None]:
        command = ("-m", "gateway.cli", "sim", "--fleet", str(file), "--speed", str(self._speed))
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield
        finally:
            await _end(process)

    @asynccontextmanager
    async def _gateway(self, fleet: Path, policy: Path) -> AsyncIterator[str]:
        from gateway.app import Gateway
        from gateway.cli.running import serving
        from gateway.policy.load import Loaded
        from gateway.runtime.reload import load_files
        from gateway.settings import Settings

        settings = Settings(fleet=fleet, policy=policy, port=self._port, log_level="warning")
        loaded = load_files(fleet, policy, os.environ)
        if not isinstance(loaded, Loaded):
            raise DemoError("\n".join(map(str, loaded.problems)))
        try:
            async with serving(Gateway(settings, loaded, on_record=[self._record]), settings) as url:
                yield url
        except OSError as error:
            raise DemoError(f"port {self._port}: {error.strerror}; choose another with --port") from None

    def _record(self, record: Record) -> None:
        self._routes.add(record)
        self._labels[record.request_id] = record.classification.label
        if len(self._labels) >= self._requests:
            self._recorded.set()

    async def _ready(self, url: str) -> None:
        """Wait until the gateway has seen every server."""
        import httpx

        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(READY_SECONDS):
            with self._console.status("Starting eight simulated servers …"):
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
                failures.append(
                    f"the client ended with code {code} after {ended} of {self._requests} prompts"
                )
        finally:
            await _end(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                await self._recorded.wait()
        return failures

    def _report(self, failures: list[str]) -> None:
        from gateway.cli.route_table import TOO_FEW

        console = self._console
        console.print("\nWhat was routed where, on simulated servers with the speeds published for MI300X")
        for table in self._routes.tables():
            console.print(table)
        console.print(f"[dim]{TOO_FEW}")
        for line in self._routes.totals():
            console.print(f"• {line}")
        right = sum(self._labels.get(identity) == label for identity, label in self._expected.items())
        console.print(
            f"• {right} of {len(self._expected)} prompts were given the workload they were written for"
        )
        console.print(
            "• The gain is over no speculation. Whether routing by workload beats one good configuration "
            "everywhere is another question, which this short run does not answer."
        )
        for line in failures:
            console.print(f"[red]failed: {line}")
        if not failures:
            console.print(f"• all {self._requests} requests succeeded")

    def _invite(self, url: str, policy: Path) -> None:
        from rich.syntax import Syntax

        self._console.print(f"\n[bold]The gateway stays up at {url} until Ctrl-C.[/bold] Try:")
        self._console.print(
            Syntax(_TRY.format(url=url, policy=policy, model=MODELS[0]), "text", word_wrap=True)
        )


_TRY = """\
curl {url}/v1/chat/completions -H 'content-type: application/json' -i \\
  -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "What is 17 * 23?"}}]}}'

from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="any")
print(client.chat.completions.create(model="{model}", messages=[{{"role": "user", "content": "Hi"}}]))

curl {url}/-/decide -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Fix this SQL"}}]}}'
curl {url}/status          what is in force and how every server is
curl {url}/metrics         everything measured, for Prometheus
edit {policy}   a change is in force at once; /-/policy says what is wrong with it
"""


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
