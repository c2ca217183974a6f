"""``specroute diff``: what a change of the policy does, in words and in shares of the servers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gateway.cli.files import FLEET, load_config, refuse
from gateway.cli.replay import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from backends.prompts import Prompt
    from gateway.core.fleet import Snapshot
    from gateway.core.moves import Moves, Reading
    from gateway.core.policy import Learning, Policy
    from gateway.policy.compile import Fleet

DIFFERENT = 1
"""Exit code where the policies differ, as that of ``diff``."""

EACH = 16
"""Requests that each server has open in the busy fleet."""

OF_LOG = "at the times of the log"
"""Where requests of a log go by each policy, at the load that comes of its choices: not where they went."""

NO_SERVER = "no server"


LEARNS = (
    "What a gateway has learnt decides under these policies, and it is not in the files: the shares are "
    "those of a gateway that has just begun. A decision log (--log) says more."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)


def diff(
    old: Annotated[Path, typer.Argument(help="The policy file that is in force.")],
    new: Annotated[Path, typer.Argument(help="The one that is to take its place.")],
    *,
    fleet: Annotated[Path, typer.Option(help="The fleet file.")] = FLEET,
    log: Annotated[
        list[Path] | None,
        typer.Option(
            help="Files of a decision log, the oldest first: its requests in place of the shipped prompts.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say what tells two policies apart, and which requests go elsewhere for it.

    The requests are the prompts that this package ships for each workload, sent to an idle fleet and to a
    busy one on which all servers take the same time; or those of a log, at their times, on servers as fast as
    the log says. What a gateway has learnt is not in the files, except for `learning.file`.

    Example: `specroute diff policy.yaml new.yaml --fleet fleet.yaml`

    Example: `specroute diff policy.yaml new.yaml --log decisions.jsonl`

    Exit codes: 0 nothing differs, 1 something does, 2 bad input.
    """
    from gateway.core.roles import keeps_servers
    from gateway.policy.differences import differences

    before, after = load_config(fleet, old), load_config(fleet, new)
    words = differences(before.policy, after.policy)
    policies = before.policy, after.policy
    found = _logged(log, before.fleet, policies) if log else _shipped(before.fleet, policies)
    roles = [str(file) for file, policy in zip((old, new), policies, strict=True) if keeps_servers(policy)]
    if as_json:
        moves = [one.as_json() for one in found]
        said = {"differences": words, "roles": roles, "moves": moves}
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        _print(words, found)
        if not log and any(learns(one.policy.learning) for one in (before, after)):
            typer.echo(f"\n{LEARNS}")
        for name in roles:
            typer.echo(f"\nNot what {name} would do: it {ROLES}")
    raise typer.Exit(DIFFERENT if words or any(one.whole.moved for one in found) else 0)


def learns(learning: Learning) -> bool:
    """Whether a policy decides by what is learnt, without a file of it."""
    return learning.share > 0.0 and not learning.known


class Seen(NamedTuple):
    """What becomes of the requests for one target at one load, in all and by label."""

    target: str
    load: str
    whole: Moves
    by_label: dict[str, Moves]

    @classmethod
    def of(cls, target: str, load: str, labels: Sequence[str], went: Sequence[Sequence[str]]) -> Seen:
        """From the labels of requests and the servers under both policies."""
        from gateway.core.moves import Moves, compare

        return cls(target, load, Moves.of(*went), compare(labels, *went))

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        by_label = {label: asdict(moves) for label, moves in self.by_label.items()}
        return {"target": self.target, "load": self.load, **asdict(self.whole), "by_label": by_label}


def _shipped(fleet: Fleet, policies: Sequence[Policy]) -> list[Seen]:
    from gateway.core.moves import sent

    found = []
    for target in sorted({backend.target for backend in fleet.backends}):
        servers = sum(backend.target == target for backend in fleet.backends)
        names = _asked_for(target, policies)
        read = [_read(name, policy) for name, policy in zip(names, policies, strict=True)]
        labels = [one.classification.label for one in read[0]]
        for load, open_ in (("idle", 1), (f"{EACH} open on each server", EACH * servers)):
            went = [
                sent(requests, _knowing(fleet.idle(), policy), policy, open_)
                for requests, policy in zip(read, policies, strict=True)
            ]
            found.append(Seen.of(target, load, labels, went))
    return found


def _asked_for(target: str, policies: Sequence[Policy]) -> list[str]:
    """The model that prompts ask for under each policy: the same one where they share a name."""
    names = [[name for name, of in policy.aliases.items() if of == target] for policy in policies]
    both = next((name for name in names[0] if name in names[1]), None)
    return [both or next(iter(own), target) for own in names]


def _read(model: str, policy: Policy) -> list[Reading]:
    """The shipped prompts for a model as a policy reads them, of all workloads in turn."""
    from backends import prompts
    from gateway.core.classes import service_of
    from gateway.core.classify import classify
    from gateway.core.features import WORKLOADS, extract
    from gateway.core.moves import Reading
    from gateway.models import trained
    from gateway.wire.endpoints import path_of
    from gateway.wire.inbound import Malformed, view

    requests = []
    for prompt in _in_turn([prompts.load(workload) for workload in WORKLOADS]):
        body = json.dumps({"model": model, **prompt.request}).encode()
        seen = view("chat", body, {}, path_of("chat"))
        if isinstance(seen, Malformed):
            raise TypeError(seen.message)
        features = extract(seen)
        label = classify(seen, features, policy.classifier, trained())
        service = service_of(seen, policy.classes, trust=policy.trust_class)
        requests.append(Reading(features, label, service))
    return requests


def _in_turn(lists: Sequence[Sequence[Prompt]]) -> Iterator[Prompt]:
    """The first of each, then the second of each, and so on."""
    from itertools import chain, zip_longest

    return filter(None, chain.from_iterable(zip_longest(*lists)))


def _knowing(idle: Snapshot, policy: Policy) -> Snapshot:
    """The fleet with what the policy's file has learnt of its servers."""
    known = policy.learning.known
    return replace(
        idle, states=tuple(replace(state, model=known.get(state.backend.name)) for state in idle.states)
    )


def _logged(log: list[Path], fleet: Fleet, policies: Sequence[Policy]) -> list[Seen]:
    from gateway.cli.replaying import TooLittleError, learnt, read
    from gateway.core.replay import destinations

    try:
        logs = [read(log, fleet, policy.classes) for policy in policies]
    except TooLittleError as error:
        refuse(str(error))
    found = []
    for target, of in sorted(logs[0].items()):
        models = learnt(of)
        went = [
            destinations(one[target].logged, policy, models)
            for one, policy in zip(logs, policies, strict=True)
        ]
        labels = [one.classification.label for one in of.logged]
        found.append(Seen.of(target, OF_LOG, labels, went))
    return found


def _print(words: Sequence[str], found: Sequence[Seen]) -> None:
    from itertools import groupby

    from rich.console import Console

    console = Console(highlight=False)
    for line in words or ("No setting differs.",):
        console.print(f"- {line}" if words else line, markup=False)
    for target, of in groupby(found, key=lambda one: one.target):
        loads = list(of)
        console.print(_table(target, loads))
        for one in loads:
            console.print(_moved(one), markup=False)


def _table(target: str, loads: Sequence[Seen]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=f"\nShares of {target}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("backend", no_wrap=True)
    for one in loads:
        table.add_column(f"{one.load}\nold", justify="right")
        table.add_column("\nnew", justify="right")
    shares = [of for one in loads for of in (one.whole.were, one.whole.become)]
    for name in sorted({name for of in shares for name in of}):
        table.add_row(name or NO_SERVER, *(f"{of.get(name, 0.0):.1%}" for of in shares))
    return table


def _moved(seen: Seen) -> str:
    """Which servers gain and lose, a line for each label."""
    whole = seen.whole
    if not any(moves.moved for moves in seen.by_label.values()):
        return f"{seen.load}: the {whole.requests} requests go where they went."
    lines = [f"{seen.load}, of {whole.requests} requests:"]
    for label, moves in seen.by_label.items():
        changes = {
            name: moves.become.get(name, 0.0) - moves.were.get(name, 0.0)
            for name in {*moves.were, *moves.become}
        }
        order = sorted(changes, key=lambda name: (changes[name], name))
        spelt = ", ".join(f"{name or NO_SERVER} {changes[name]:+.0%}" for name in order if changes[name])
        lines.append(f"  {label}: {spelt or 'as before'}")
    return "\n".join(lines)
