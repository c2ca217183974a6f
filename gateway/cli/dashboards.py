"""``specroute dashboards``: write Grafana dashboards and Prometheus rules."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.files import load_backends, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

STALE = 1
"""Exit code of ``--check`` where a file is missing or differs."""

_NOTE = "# Made by `specroute dashboards`; see docs/observability.md. Changes here are lost.\n"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dashboards")(dashboards)


def dashboards(
    out: Annotated[Path, typer.Option(help="Folder to write into.", file_okay=False)] = Path("deploy"),
    fleet: Annotated[
        Path | None,
        typer.Option(help="Fleet file: writes its servers as scrape targets, too.", show_default=False),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; 1 if a file is missing or differs.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the list of files as JSON.")] = False,
) -> None:
    """Write Grafana dashboards and Prometheus rules, made from the names that the gateway emits.

    OUT/grafana/dashboards/*.json are dashboards, OUT/prometheus/specroute.rules.yaml holds recording and
    alert rules, OUT/prometheus/targets.json (with --fleet) the vLLM servers for file_sd_configs, with the
    labels that the dashboards show them by.

    Exit code 0: written, or as they should be; 1: --check found a difference; 2: bad input.

    Example: **specroute dashboards --out deploy --fleet deploy/compose/fleet.yaml**
    """
    written = {out / name: text for name, text in _files(fleet)}
    stale = [path for path, text in written.items() if not _holds(path, text)]
    if not check:
        for path in stale:
            _write(path, written[path])
    if json_:
        found = {"files": list(map(str, written)), "changed": list(map(str, stale))}
        print(json.dumps(found))
    else:
        for path in stale:
            print(f"{path} {'is not up to date' if check else 'written'}")
    raise typer.Exit(STALE if check and stale else 0)


def _files(fleet: Path | None) -> Iterator[tuple[str, str]]:
    from gateway.telemetry.dashboards import DASHBOARDS
    from gateway.telemetry.dashboards.rules import rule_file

    for board in DASHBOARDS:
        text = json.dumps(board.grafana(), indent=2, ensure_ascii=False)
        yield f"grafana/dashboards/specroute-{board.name}.json", f"{text}\n"
    yield "prometheus/specroute.rules.yaml", _NOTE + _yaml(rule_file())
    if fleet is not None:
        yield "prometheus/targets.json", _targets(fleet)


def _yaml(content: object) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 1000  # an expression is one line
    text = io.StringIO()
    yaml.dump(content, text)
    return text.getvalue()


def _targets(path: Path) -> str:
    from gateway.telemetry.dashboards.vllm import targets

    return f"{json.dumps(targets(load_backends(path).backends), indent=2)}\n"


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"{path}: {error.strerror}")
