"""``specroute learned``: what a running gateway has learnt of its servers, as a file or in words."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from gateway.cli.asking import GATEWAY, WITHIN, status
from gateway.cli.files import refuse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learned")(learned)


def learned(
    gateway: Annotated[str, typer.Argument(help="Address of the gateway.", metavar="URL")] = GATEWAY,
    *,
    words: Annotated[
        bool,
        typer.Option("--words", help="Say who decides, which roles servers have and what would be better."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Print what was learnt as YAML that a policy can name: `learning: {mode: frozen, file: learned.yaml}`.

    Example: `specroute learned http://127.0.0.1:8000 > learned.yaml`

    Example: `specroute learned --words`

    Exit codes: 0 printed, 2 the gateway cannot be asked.
    """
    if as_json or words:
        found = status(gateway, "learning")
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else _said(found))
        return
    typer.echo(_file(gateway), nl=False)


def _file(gateway: str) -> str:
    import httpx

    url = f"{gateway.rstrip('/')}/-/learned"
    try:
        answer = httpx.get(url, timeout=WITHIN, trust_env=False)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refuse(f"{url}: {error}; give the address of a running gateway")
    return answer.text


def _said(found: dict[str, object]) -> str:
    lines = [f"mode {found['mode']}; {found['explored']} requests explored"]
    statements = found["statements"]
    if isinstance(statements, dict):
        for target, sentences in statements.items():
            lines += ["", target, *(f"  {sentence}" for sentence in sentences)]
    return "\n".join(lines)
