"""``specroute serve``: run the gateway."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    fleet: Annotated[Path, typer.Option(help="Which backends exist.", envvar="SPECROUTE_FLEET")],
    policy: Annotated[Path, typer.Option(help="How requests are routed.", envvar="SPECROUTE_POLICY")],
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8000]")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port, one for each CPU to use. [default: 1]")
    ] = None,
    otlp_endpoint: Annotated[
        str | None, typer.Option(help="OTLP/HTTP collector, such as http://localhost:4318.")
    ] = None,
    decision_log: Annotated[
        Path | None, typer.Option(help="JSONL file with a line for each finished request.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run the gateway in front of the fleet.

    Every setting can also be given in the environment, as SPECROUTE_PORT=8000. Both files are watched: a
    change is in force at once, a broken file leaves the last good one in force.

    No key of a client is checked: where clients are not to be trusted, put a proxy in front that does.

    Example: **specroute serve --fleet policies/fleet.yaml --policy policies/policy.yaml --port 8000**
    """
    from pydantic import ValidationError

    from gateway.cli.running import run
    from gateway.settings import Settings

    given: dict[str, Any] = {
        "fleet": fleet,
        "policy": policy,
        "host": host,
        "port": port,
        "workers": workers,
        "otlp_endpoint": otlp_endpoint,
        "decision_log": decision_log,
        "log_level": log_level,
    }
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        for one in error.errors():
            words = one["msg"].removeprefix("Value error, ")
            print(f"specroute: {'.'.join(map(str, one['loc']))}: {words}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(run(settings))
