"""What follows from results of other benchmarks, in place of a sweep's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backends.methods import methods
from backends.sweep.imports import UnknownResultError, evidence, parse
from backends.sweep.model import Candidate
from gateway.cli import options
from gateway.cli.evidence_files import Fleet, folder, today, write
from gateway.cli.files import read_text, refuse
from gateway.policy.evidence import Machine
from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from gateway.cli.evidence_files import Files


def imported(
    results: list[str], model: str, out: Path, servers: int, mix: str, limits: list[str]
) -> Files | None:
    """Write what follows from results of other benchmarks.

    Args:
        results: Each with its configuration and workload: ``dflash-7:code=FILE``.
        model: The target; that of the first result if empty.
        out: Folder for the files.
        servers: To plan a fleet for.
        mix: Shares of requests, as the command line gives them.
        limits: Work with a limit on the time per token, likewise.
    """
    runs = []
    for one in results:
        what, _, file = one.partition("=")
        label, _, workload = what.partition(":")
        try:
            who = _known(Candidate.of(label))
            runs += [(who, workload, run) for run in parse(read_text(Path(file)))]
        except UnknownResultError as error:
            refuse(f"{file}: {error}")
        except ValueError as error:
            refuse(f"{one!r}: {error}; the whole is dflash-7:code=FILE")
    target = model or runs[0][2].model
    if not target or not all(workload for _, workload, _ in runs):
        refuse("name the target with --model, and a workload for each file: dflash-7:code=FILE")
    try:
        found = evidence(runs, target, Machine(), today())
    except UnknownResultError as error:
        refuse(str(error))
    names = dict.fromkeys(workload for _, workload, _ in runs)
    kept = [options.limit(one, names) for one in limits]
    wanted = Fleet(servers, options.mix(mix, names), {}, target, limits=kept)
    folder(out)
    return write(found, wanted, out)


def _known(who: Candidate) -> Candidate:
    """A configuration whose method there is: a policy with another one would not load."""
    if who.method not in methods():
        raise ValueError(f"there is no method {who.method!r}, {suggest(who.method, methods(), 'methods')}")
    return who
