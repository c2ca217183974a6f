"""``specroute sim``: simulated vLLM servers, one or a whole fleet, until told to stop."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from backends.sim.fleet import Member, Running
    from backends.sim.server import Options
    from gateway.core.fleet import Backend


class Acceptance(StrEnum):
    """How much a server tells about the acceptance of each request."""

    OFF = "off"
    SUMMARY = "summary"
    DETAILED = "detailed"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sim")(sim)


def sim(
    *,
    fleet: Annotated[
        Path | None,
        typer.Option(help="A fleet file: every server in it, on its own port.", show_default=False),
    ] = None,
    target: Annotated[str, typer.Option(help="Target model of a single server.")] = "google/gemma-4-31B-it",
    method: Annotated[str, typer.Option(help="Its speculative decoding method.")] = "none",
    draft_tokens: Annotated[int, typer.Option("--draft-tokens", "-n", help="N, draft tokens a step.")] = 0,
    port: Annotated[int, typer.Option(help="Port of a single server; 0 for a free one.")] = 8101,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    served_model_name: Annotated[
        str, typer.Option(help="What a single server answers to; the target if left out.", show_default=False)
    ] = "",
    max_model_len: Annotated[int, typer.Option(help="Context length in tokens.", min=16)] = 32_768,
    max_num_seqs: Annotated[int, typer.Option(help="Sequences in the batch at most.", min=1)] = 256,
    acceptance: Annotated[
        Acceptance,
        typer.Option(
            "--per-request-spec-decode-metrics", help="Acceptance in each answer; baselines have none."
        ),
    ] = Acceptance.SUMMARY,
    timings: Annotated[
        bool, typer.Option("--enable-per-request-metrics", help="Timings in each answer.")
    ] = False,
    speed: Annotated[float, typer.Option(help="Times as fast as the modelled machine.", min=0.01)] = 1.0,
    seed: Annotated[int, typer.Option(help="Of answers, lengths and acceptance.")] = 0,
) -> None:
    """Run simulated vLLM servers: their HTTP, metrics and speed, and texts instead of a model.

    Every answer says that it is simulated in `system_fingerprint`.

    Example: `specroute sim --target google/gemma-4-31B-it --method dflash -n 7 --port 8101`

    Example: `specroute sim --fleet fleet.yaml --speed 4`

    Exit codes: 0 stopped by a signal, 2 bad input or a port that is taken.
    """
    from backends.sim.exchange import Reporting
    from backends.sim.fleet import Member
    from backends.sim.server import Options

    options = Options(
        served_model=served_model_name,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        reporting=Reporting(timings=timings, acceptance=acceptance.value),
        speed=speed,
        seed=seed,
    )
    if fleet is not None:
        members = [_member(backend, options) for backend in _backends(fleet)]
    else:
        members = [Member(target, method, draft_tokens, port=port, options=options)]
    _run([_without_acceptance(member) for member in members], host)


def _backends(path: Path) -> tuple[Backend, ...]:
    from gateway.policy.load import Invalid, load_fleet

    loaded = load_fleet(read_text(path), str(path))
    if isinstance(loaded, Invalid):
        refuse("\n".join(map(str, loaded.problems)))
    return loaded.value.backends


def _member(backend: Backend, options: Options) -> Member:
    """The server that a backend of a fleet file stands for."""
    from dataclasses import replace
    from urllib.parse import urlsplit

    from backends.sim.fleet import Member

    url = urlsplit(backend.url)
    own = replace(
        options,
        served_model=backend.served_model,
        max_model_len=backend.max_model_len or options.max_model_len,
    )
    port = url.port or (443 if url.scheme == "https" else 80)
    return Member(backend.target, backend.method, backend.draft_tokens, backend.name, port, own)


def _without_acceptance(member: Member) -> Member:
    """A baseline does not start with ``--per-request-spec-decode-metrics``."""
    from dataclasses import replace

    from backends.sim.exchange import Reporting

    if member.draft_tokens:
        return member
    reporting = Reporting(timings=member.options.reporting.timings)
    return replace(member, options=replace(member.options, reporting=reporting))


def _run(members: Sequence[Member], host: str) -> NoReturn:
    import asyncio

    import uvloop

    from backends.sim.profiles import UnknownConfigurationError

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(members, host))
    except UnknownConfigurationError as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot listen on {host}: {error.strerror or error}")
    raise typer.Exit


async def _serve(members: Sequence[Member], host: str) -> None:
    import asyncio
    import signal

    from rich.console import Console

    from backends.sim.fleet import run_fleet

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with run_fleet(members, host=host) as fleet:
        console = Console(highlight=False)
        console.print(table(fleet))
        console.print("Simulated servers are up; Ctrl-C stops them.")
        await stop.wait()


def table(fleet: Sequence[Running]) -> Table:
    """The servers of a running fleet, a line each."""
    from rich.table import Table

    found = Table(title="Simulated fleet", title_justify="left")
    for name in ("server", "url", "target", "method", "N", "machine"):
        found.add_column(name, no_wrap=name in ("server", "url"))
    for running in fleet:
        what = running.simulator.configuration
        draft_tokens = str(what.draft_tokens or "")
        found.add_row(
            running.member.label, running.url, what.target, what.method, draft_tokens, what.hardware
        )
    return found
