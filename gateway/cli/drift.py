"""``specroute drift``: are requests of a running gateway still what they are taken for?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.asking import GATEWAY, status

if TYPE_CHECKING:
    from rich.table import Table

DRIFTED = 1
"""Exit code where fewer answers agree with their labels than did at first."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("drift")(drift)


def drift(
    gateway: Annotated[str, typer.Argument(help="Address of the gateway.", metavar="URL")] = GATEWAY,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare what requests were taken for with what the beginnings of their answers show.

    The first 500 answers of a workload tell how many usually agree, each 200 after them are compared with
    those. Answers cannot tell chat from text made from a given text: both show as text.

    Example: `specroute drift http://127.0.0.1:8000`

    Exit codes: 0 as usual, 1 fewer agree than did at first, 2 the gateway cannot be asked.
    """
    found = status(gateway, "classifier")
    agreement: dict[str, dict[str, Any]] = found["agreement"]
    drifted = [label for label, one in agreement.items() if one["drifted"]]
    if as_json:
        typer.echo(json.dumps(found | {"drifted": drifted}, indent=2, ensure_ascii=False))
    else:
        _print(found["answers"], agreement, drifted)
    raise typer.Exit(DRIFTED if drifted else 0)


def _print(
    answers: dict[str, dict[str, int]], agreement: dict[str, dict[str, Any]], drifted: list[str]
) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not answers:
        typer.echo("No answer has been judged yet.")
        return
    console.print(_matrix(answers))
    if agreement:
        console.print(_watched(agreement))
    typer.echo(_verdict(agreement, drifted))


def _verdict(agreement: dict[str, dict[str, Any]], drifted: list[str]) -> str:
    from gateway.core.agreement import BLOCK, REFERENCE

    compared = [label for label, one in agreement.items() if one["last"]["share"] is not None]
    if drifted:
        return f"Drifted: {', '.join(drifted)}."
    if compared:
        return f"As many answers agree with their labels as usually do: {', '.join(sorted(compared))}."
    return (
        f"Nothing to compare yet: the first {REFERENCE} answers of a workload that was guessed tell how many "
        f"usually agree, and each {BLOCK} after them are compared with those."
    )


def _matrix(answers: dict[str, dict[str, int]]) -> Table:
    from rich.table import Table

    from gateway.core.answer import NATURES

    table = Table("taken for", title="What answers show", title_justify="left")
    for nature in NATURES:
        table.add_column(nature, justify="right")
    for label, counts in sorted(answers.items()):
        table.add_row(label, *(str(counts.get(nature, 0)) for nature in NATURES))
    return table


def _watched(agreement: dict[str, dict[str, Any]]) -> Table:
    from rich.table import Table

    from gateway.core.agreement import BLOCK

    table = Table("taken for")
    for name in ("usually agree", f"of the last {BLOCK}", "fall in standard errors"):
        table.add_column(name, justify="right")
    table.add_column("")
    for label, one in sorted(agreement.items()):
        usual, last = one["reference"], one["last"]
        table.add_row(
            label,
            f"{usual['share']:.1%} of {usual['answers']}",
            "–" if last["share"] is None else f"{last['share']:.1%}",
            "–" if last["share"] is None else f"{one['standard_errors']:.1f}",
            "drifted" if one["drifted"] else "",
        )
    return table
