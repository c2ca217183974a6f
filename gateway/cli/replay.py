"""``specroute replay``: what another policy would have done with the requests of a decision log."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.files import FLEET, POLICY, load_config, refuse

if TYPE_CHECKING:
    from gateway.cli.replaying import Read
    from gateway.core.replay import Estimate

WORSE = 1
"""Exit code where the other policy is slower, beyond doubt."""

UNTOLD = 3
"""Exit code where the log does not tell."""

ROLES = (
    "keeps servers for classes with limits, and which those are is not known here: requests of every class "
    "may go everywhere. `specroute simulate` plans them."
)
"""What is said of a policy that plans roles, after what it is called."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay)


def replay(
    log: Annotated[list[Path], typer.Argument(help="Files of the decision log, the oldest first.")],
    *,
    policy: Annotated[Path, typer.Option(help="The other policy file.")] = POLICY,
    fleet: Annotated[Path, typer.Option(help="The fleet file; names say which servers are which.")] = FLEET,
    target: Annotated[
        str | None, typer.Option(help="Target model, where the log has several.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Estimate from logged requests what a policy would do to the mean seconds of a request.

    What the servers can do is learnt from the same log. The estimate is doubly robust: what the model gets
    wrong is mended by requests that went where the policy would send them, as far as the log has such; the
    errors count what it may be wrong by where the log has few.

    Example: `specroute replay decisions.jsonl --policy new.yaml --fleet fleet.yaml`

    Exit codes: 0 estimated, 1 the policy is slower beyond doubt, 2 bad input, 3 the log does not tell, or the
    policy keeps servers for classes.
    """
    from gateway.cli.replaying import TooLittleError, learnt, read
    from gateway.core.replay import estimate
    from gateway.core.roles import keeps_servers
    from gateway.policy.problems import suggest

    config = load_config(fleet, policy)
    try:
        found = read(log, config.fleet, config.policy.classes)
    except TooLittleError as error:
        refuse(str(error))
    targets = sorted(found)
    if target is None and len(targets) != 1:
        refuse(f"the log has several targets, give one with --target: {', '.join(targets)}")
    if target is not None and target not in found:
        refuse(f"--target: no request of the log is for {target!r}; {suggest(target, targets, 'targets')}")
    of = found[target or targets[0]]
    try:
        said = estimate(of.logged, config.policy, learnt(of))
    except ValueError as error:
        refuse(str(error))
    roles = keeps_servers(config.policy)
    if as_json:
        typer.echo(json.dumps({**_as_json(said), "roles": roles, "left_out": of.left_out}, indent=2))
    else:
        _print(said, of)
        if roles:
            typer.echo(f"Not what the policy would do: it {ROLES}")
    if roles or not said.told:
        raise typer.Exit(UNTOLD)
    raise typer.Exit(WORSE if said.slower else 0)


def _as_json(said: Estimate) -> dict[str, object]:
    found = {**asdict(said), "told": said.told}
    for name in ("logged", "seconds", "difference"):
        value, error = getattr(said, name)
        found[name] = {"value": value, "error": error}
    return found


def _print(said: Estimate, of: Read) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Estimated from {said.requests} requests", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("backend", no_wrap=True)
    table.add_column("share as logged", justify="right")
    table.add_column("under the policy", justify="right")
    for name in sorted({*said.were, *said.shares}):
        table.add_row(name, f"{said.were.get(name, 0.0):.1%}", f"{said.shares.get(name, 0.0):.1%}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"seconds a request, as logged   {said.logged}")
    console.print(f"seconds under the policy       {said.seconds}")
    console.print(f"difference                     {said.difference}")
    console.print(
        f"{said.same:.0%} go where they went; the evidence is worth {said.evidence:.0%} of the requests, "
        f"the rest is the model's word."
    )
    if said.untold:
        console.print(
            f"{said.untold} of {said.requests} would go to a server at a load of which the log has few, "
            f"where the model may be wrong by half; the errors count that."
        )
    if not said.told:
        console.print(
            "So it cannot be told from this log whether the policy is slower: "
            "log with more exploration, or with a baseline share."
        )
    if said.refused:
        console.print(f"The policy has no server for {said.refused:.1%} of the requests.")
    if of.left_out:
        named = ", ".join(f"{count} {why}" for why, count in of.left_out.items())
        console.print(f"Left out: {named}.")
