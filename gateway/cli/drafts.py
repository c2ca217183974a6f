"""``specroute drafts``: how much of a step do the drafts of a running gateway's servers take?"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gateway.cli.asking import GATEWAY, status

UNKNOWN = 1
"""Exit code where it can be told of no server."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("drafts")(drafts)


def drafts(
    gateway: Annotated[str, typer.Argument(help="Address of the gateway.", metavar="URL")] = GATEWAY,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show how much of a step the draft takes on each server, by the number of sequences in the batch.

    No vLLM tells, so it is an estimate: a step with a draft less a step of the baseline that computes as
    many tokens. The range is a 95 % interval as far as chance goes. `at most` is what drafting and verifying
    drafts take together: what a step takes beyond one of the baseline with as many sequences. Both servers
    have to be seen for a minute at a batch, and the baseline at as many sequences as the draft makes tokens:
    at 7 drafted tokens 8 sequences for each one. Where they were not, it says what is missing.

    Example: `specroute drafts http://127.0.0.1:8000`

    Exit codes: 0 it is known of a server, 1 of none so far, 2 the gateway cannot be asked.
    """
    found: dict[str, list[dict[str, Any]]] = status(gateway, "draft_latency")
    known = any(one["draft"] is not None for each in found.values() for one in each)
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(found, status(gateway, "draft_latency_wanting"))
    raise typer.Exit(0 if known else UNKNOWN)


def _print(found: dict[str, list[dict[str, Any]]], wanting: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "server", "batch", "step", "draft", "share", "95 %", "at most",
        title="What drafting takes of a step, estimated, ms", title_justify="left",
    )  # fmt: skip
    for server, estimates in found.items():
        for one in estimates:
            draft = one["draft"]
            if draft is None and one["most"] is None:
                continue
            table.add_row(
                server,
                f"{one['batch']:.1f}",
                _ms(one["step"]),
                _ms(draft),
                "" if draft is None else f"{draft / one['step']:.0%}",
                "" if draft is None else f"{_ms(one['low'])} to {_ms(one['high'])}",
                _ms(one["most"]),
            )
    if table.row_count:
        Console(highlight=False, markup=False).print(table)
    for server, words in wanting.items():
        typer.echo(f"What drafting takes on {server} cannot be told yet: {words}.")
    if not found and not wanting:
        typer.echo("The fleet has no server with a draft.")


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.2f}"
