"""``specroute learned``: what a running gateway has learnt of its servers, as a file or in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.asking import GATEWAY, WITHIN, status
from gateway.cli.files import FLEET, load_backends, read_text, refuse
from gateway.core.policy import STATIC

_NOT_LEARNT = """\
Whether routing pays here is not said, as nothing is learnt in this mode. Give the policy
`learning: {mode: shadow}`: it decides as before, and this says what was learnt after a minute of requests."""

_NO_REQUESTS = "Whether routing pays here is not said yet: it takes some seconds of requests."


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
    evidence: Annotated[
        Path | None,
        typer.Option(help="Take what a sweep measured instead of what a gateway learnt.", show_default=False),
    ] = None,
    fleet: Annotated[Path, typer.Option(help="The fleet file, for --evidence.")] = FLEET,
) -> None:
    """Print what was learnt as YAML that a policy can name: `learning: {mode: frozen, file: learned.yaml}`.

    Example: `specroute learned http://127.0.0.1:8000 > learned.yaml`

    Example: `specroute learned --words`

    Example: `specroute learned --evidence sweep/evidence.json --fleet fleet.yaml > learned.yaml`

    Exit codes: 0 printed, 1 none of the fleet was measured, 2 the gateway or a file cannot be read.
    """
    if evidence is not None:
        typer.echo(_of_a_sweep(evidence, fleet), nl=False)
        return
    if as_json or words:
        found = status(gateway, "learning")
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else _said(found))
        return
    typer.echo(_file(gateway), nl=False)


def _of_a_sweep(evidence: Path, fleet: Path) -> str:
    from gateway.policy.evidence import UnusableEvidenceError, parse
    from gateway.policy.learned import dump
    from gateway.policy.prior import priors

    backends = load_backends(fleet).backends
    try:
        found = priors(parse(read_text(evidence)), backends)
    except UnusableEvidenceError as error:
        refuse(f"{evidence}: {error}")
    if not found:
        typer.echo(f"no backend of {fleet} runs what {evidence} measured", err=True)
        raise typer.Exit(1)
    return dump(found)


def _file(gateway: str) -> str:
    import httpx

    url = f"{gateway.rstrip('/')}/-/learned"
    try:
        answer = httpx.get(url, timeout=WITHIN, trust_env=False)
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        refuse(f"{url}: {error}; give the address of a running gateway")
    return answer.text


def _said(found: dict[str, Any]) -> str:
    mode, statements = found["mode"], found["statements"]
    lines = [f"mode {mode}; {found['explored']} requests explored"]
    for target, sentences in statements.items():
        lines += ["", target, *(f"  {sentence}" for sentence in sentences)]
    if not statements:
        lines += ["", _NOT_LEARNT if mode == STATIC else _NO_REQUESTS]
    return "\n".join(lines)
