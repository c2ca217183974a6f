"""``specroute advise``: what to change about a gateway in service, from what it has measured itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.asking import status
from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from backends.sweep.advice import Advice
    from gateway.policy.evidence import Evidence


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise")(advise)


def advise(
    url: Annotated[str, typer.Argument(help="The gateway.")] = "http://127.0.0.1:8000",
    *,
    metrics: Annotated[
        Path | None, typer.Option(help="A saved page of its /metrics instead.", show_default=False)
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="What a sweep measured: tells what other draft lengths cost.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Say what the traffic of a gateway shows: draft lengths to try, whether routing pays, stale evidence.

    Example: `specroute advise http://gateway:8000 --evidence sweep/evidence.json`

    Example: `curl gateway:8000/metrics > page; specroute advise --metrics page`

    Exit codes: 0 said what there is to say, 2 the gateway or a file cannot be read.
    """
    from datetime import UTC, datetime

    from backends.sweep import advice
    from backends.sweep.seen import NotAGatewayError, read

    page = read_text(metrics) if metrics is not None else _page(url)
    try:
        servers = read(page)
    except NotAGatewayError as error:
        refuse(f"{metrics or url}: {error}")
    learnt = {} if metrics is not None else status(url, "learning")["statements"]
    found = advice.advise(servers, _evidence(evidence), datetime.now(UTC).date(), learnt)
    if as_json:
        _print_json(found)
        return
    for one in found:
        typer.echo(f"- {one.words}")
    if not found:
        typer.echo("Nothing to advise: too little traffic was measured, or all is as it should be.")


def _page(url: str) -> str:
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/metrics", timeout=10.0, trust_env=False)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refuse(f"{url}: {error}")
    return answer.text


def _evidence(path: Path | None) -> Evidence | None:
    from gateway.policy.evidence import UnusableEvidenceError, parse

    if path is None:
        return None
    try:
        return parse(read_text(path))
    except UnusableEvidenceError as error:
        refuse(f"{path}: {error}")


def _print_json(found: list[Advice]) -> None:
    import json

    document = [
        {
            "kind": one.kind,
            "about": list(one.about),
            "words": one.words,
            "expected": one.expected._asdict() if one.expected is not None else None,
        }
        for one in found
    ]
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
