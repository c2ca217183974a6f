"""``specroute check``: are the fleet and policy files right, and do they fit together?"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.files import FLEET, POLICY, read_text

if TYPE_CHECKING:
    from rich.table import Table

    from gateway.core.fleet import Backend
    from gateway.core.policy import Policy, Route
    from gateway.policy.compile import Fleet
    from gateway.policy.load import Config, Invalid, Loaded

NOT_RIGHT = 1
"""Exit code where the files can be read and are wrong."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    fleet: Annotated[Path | None, typer.Option(help="The fleet file.", show_default=False)] = None,
    policy: Annotated[Path | None, typer.Option(help="The policy file.", show_default=False)] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as mistakes.")] = False,
    env: Annotated[
        bool,
        typer.Option("--env/--no-env", help="Whether the variables that hold API keys must be set here."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check fleet.yaml and policy.yaml, each by itself and one against the other.

    Without --fleet and --policy the two files of this folder; with one of them only that file.

    Example: `specroute check --fleet fleet.yaml --policy policy.yaml`

    Exit codes: 0 the files are right, 1 they are not, 2 a file cannot be read.
    """
    from gateway.policy.load import Loaded

    result = _load(fleet, policy, dict(os.environ) if env else None)
    wrong = not isinstance(result, Loaded) or (strict and bool(result.warnings))
    if as_json:
        _print_json(result, ok=not wrong)
    else:
        _print_text(result)
    raise typer.Exit(NOT_RIGHT if wrong else 0)


def _load(
    fleet: Path | None, policy: Path | None, env: dict[str, str] | None
) -> Loaded[Config] | Loaded[Fleet] | Loaded[Policy] | Invalid:
    from gateway.policy.load import load, load_fleet, load_policy

    if fleet is not None and policy is None:
        return load_fleet(read_text(fleet), str(fleet), env)
    if policy is not None and fleet is None:
        return load_policy(read_text(policy), str(policy), folder=policy.parent)
    fleet, policy = fleet or FLEET, policy or POLICY
    texts = read_text(fleet), read_text(policy)
    return load(*texts, fleet_file=str(fleet), policy_file=str(policy), folder=policy.parent, env=env)


def _parts(value: Config | Fleet | Policy) -> tuple[Fleet | None, Policy | None]:
    from gateway.policy.compile import Fleet
    from gateway.policy.load import Config

    if isinstance(value, Config):
        return value.fleet, value.policy
    return (value, None) if isinstance(value, Fleet) else (None, value)


def _print_json(result: Loaded[Any] | Invalid, *, ok: bool) -> None:
    import json

    from gateway.policy.load import Invalid

    problems = result.problems if isinstance(result, Invalid) else ()
    fleet, policy = (None, None) if isinstance(result, Invalid) else _parts(result.value)
    document = {
        "ok": ok,
        "problems": [one.as_json() for one in problems],
        "warnings": [one.as_json() for one in result.warnings],
        "fleet": fleet
        and {
            "revision": fleet.revision,
            "backends": [one.name for one in fleet.backends],
            "stand_ins": [one.name for one in fleet.stand_ins],
        },
        "policy": policy and {"revision": policy.revision, "routes": [one.name for one in policy.routes]},
    }
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _print_text(result: Loaded[Any] | Invalid) -> None:
    from rich.console import Console

    from gateway.policy.load import Invalid

    console = Console(highlight=False, markup=False)
    if isinstance(result, Invalid):
        for problem in sorted((*result.problems, *result.warnings)):
            typer.echo(str(problem))
        typer.echo(f"{_count(len(result.problems), 'mistake')}, {_count(len(result.warnings), 'warning')}")
        return
    fleet, policy = _parts(result.value)
    if fleet is not None:
        for target in dict.fromkeys(backend.target for backend in fleet.backends):
            console.print(_target_table(target, fleet))
    if policy is not None:
        console.print(_policy_table(policy, fleet.backends if fleet else ()))
    for warning in result.warnings:
        typer.echo(str(warning))
    revisions = [f"fleet {fleet.revision}"] if fleet else []
    revisions += [f"policy {policy.revision}"] if policy else []
    typer.echo(f"Right: {', '.join(revisions)}; {_count(len(result.warnings), 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _target_table(target: str, fleet: Fleet) -> Table:
    from rich.table import Table

    table = Table("backend", "method", "N", "in flight", "url", title=target, title_justify="left")
    for one in (*fleet.backends, *fleet.stand_ins):
        if one.target == target:
            tokens = "" if one.is_baseline or one.stands_in else str(one.draft_tokens)
            table.add_row(one.name, one.method, tokens, str(one.max_in_flight), one.url)
    return table


def _policy_table(policy: Policy, backends: tuple[Backend, ...]) -> Table:
    from rich.table import Table

    from gateway.policy.conditions import describe

    title = f"{_count(len(policy.routes), 'route')}, first match wins"
    table = Table("route", "takes", "prefers", "baseline", title=title, title_justify="left")
    for route in policy.routes:
        prefers = _preferred(route, policy, backends)
        table.add_row(route.name, describe(route.match), prefers, f"{route.baseline_share * 100:g} %")
    return table


def _preferred(route: Route, policy: Policy, backends: tuple[Backend, ...]) -> str:
    """The first choices of a route, a line for each target that it can take."""
    from gateway.core.selectors import rank
    from gateway.policy.conditions import spell_selector

    if not backends:
        return "\n".join(map(spell_selector, route.prefer))
    models = {policy.aliases.get(name, name) for name in route.match.models}
    lines = []
    for target in sorted({one.target for one in backends if not models or one.target in models}):
        pool = [one for one in backends if one.target == target]
        ranking = rank(route.prefer, pool)
        groups: list[list[str]] = [[] for _ in range(ranking.unnamed)]
        for at, (one, idle) in enumerate(zip(pool, ranking.ranks, strict=True)):
            for most, place in ranking.limited.get(at, ((math.inf, idle),)):
                if place < ranking.unnamed:
                    upto = f" (up to {most:g} in flight)" if most < math.inf else ""
                    groups[place].append(one.name + upto)
        said = [" or ".join(names) if len(names) < 3 else f"one of {len(names)}" for names in groups]
        lines.append(", then ".join(said) or f"none of {target}")
    return "\n".join(lines)
