"""The files that follow from evidence: policy, fleet and reports, beside the evidence itself."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backends.sweep.choose import NothingMeasuredError, choose
from backends.sweep.fleetplan import plan_fleet
from backends.sweep.report import Report
from backends.sweep.roles import roles
from backends.sweep.words import limited, listed, name, summary
from backends.sweep.write import EVIDENCE, PRIOR, fleet, needed, policy
from gateway.cli.files import refuse
from gateway.policy.learned import dump
from gateway.policy.load import Invalid, load_fleet
from gateway.policy.prior import priors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backends.spec import LaunchSpec
    from backends.sweep.choose import Choice
    from backends.sweep.fleetplan import FleetPlan
    from backends.sweep.roles import Limit, Role
    from gateway.core.fleet import Backend
    from gateway.policy.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a fleet is planned for.

    Attributes:
        servers: How many.
        mix: Shares of requests by workload or kind of work; None for equal ones.
        specs: How a server of each method is started; empty to write no fleet file.
        served_model: What they answer to.
        backends: Of a fleet that is there already.
        limits: Work that must be served within a time per token.
    """

    servers: int
    mix: Mapping[str, float] | None
    specs: Mapping[str, LaunchSpec]
    served_model: str
    backends: Sequence[Backend] = ()
    limits: Sequence[Limit] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """What a sweep wrote.

    Attributes:
        settled: False where the budget ended before the plan.
        roles: What to keep for work with limits.
    """

    choice: Choice
    plans: tuple[FleetPlan, ...]
    summary: list[str]
    written: list[Path]
    settled: bool
    roles: Sequence[Role] = ()

    def as_json(self) -> dict[str, Any]:
        """The choice for scripts."""
        return {
            "ok": True,
            "settled": self.settled,
            "everywhere": self.choice.everywhere.label,
            "mixing_pays": self.choice.mixing_pays,
            "winners": [
                {**asdict(one), "candidate": one.candidate.label, "tied": [who.label for who in one.tied]}
                for one in self.choice.winners
            ],
            "excluded": {one.candidate.label: one.why for one in self.choice.excluded},
            "schedule": [list(row) for row in self.choice.schedule],
            "fleet": [
                {
                    "in_flight": plan.load,
                    "servers": {who.label: number for who, number in plan.chosen.servers.items()},
                    "homogeneous": plan.is_homogeneous,
                    "gain_of_a_mixture": round(plan.gain, 4),
                }
                for plan in self.plans
            ],
            "roles": [
                {
                    "workload": one.limit.workload,
                    "tpot_ms": round(one.limit.tpot * 1e3, 3),
                    "requests_per_second": one.limit.rate,
                    "configuration": one.candidate.label if one.candidate else None,
                    "servers": one.servers,
                    "in_flight": one.batch,
                }
                for one in self.roles
            ],
            "summary": self.summary,
            "written": list(map(str, self.written)),
        }


def today() -> str:
    """The day, as ISO 8601 has it."""
    return datetime.now(UTC).date().isoformat()


def folder(out: Path) -> None:
    """Make the folder for the files; the command ends with exit code 2 where it cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"{out} cannot be the folder for the files: {error.strerror}; name another with --out")


def complain(text: str) -> None:
    """Say on stderr why there is no answer."""
    print(text, file=sys.stderr)


def _to_start(
    choice: Choice, plans: Sequence[FleetPlan], wanted: Fleet
) -> tuple[FleetPlan | None, list[str]]:
    """The plan that is written as a fleet, None where there is no way to start it, and which one in words."""
    middle = plans[len(plans) // 2] if plans else None
    methods = {who.method for who in middle.chosen.servers} if middle else set()
    unknown = sorted(methods - wanted.specs.keys())
    if middle is not None and not unknown:
        return middle, [f"fleet.yaml and policy.yaml are for {middle.load} in flight a server."]
    if wanted.backends:
        return None, []
    servers = listed([name(who) for who in needed(choice, None)])
    why = "no configuration was measured with every workload"
    if unknown:
        why = f"this run was not told how to start {listed(unknown)}"
    return None, [
        f"policy.yaml wants servers of {servers} in your fleet.yaml; `specroute check` says which it lacks.",
        f"No fleet.yaml was written: {why}.",
    ]


def write(
    found: Evidence, wanted: Fleet, out: Path, *, measured: Sequence[Path] = (), settled: bool = True
) -> Files | None:
    """Choose, plan and write; None where there is no answer, which was said on stderr.

    Args:
        found: All measurements.
        wanted: What a fleet is planned for.
        out: Folder for the files.
        measured: Files that are there already, to be listed with the others.
        settled: Whether the measurements are complete.
    """
    try:
        choice = choose(found, wanted.mix)
    except NothingMeasuredError as error:
        failures = "; ".join(f"{what}: {why}" for what, why in found.failures.items())
        complain(f"{error}{'; ' if failures else ''}{failures}")
        return None
    loads = [band.level for band in choice.bands]
    planned = (plan_fleet(found, choice, wanted.servers, load, wanted.mix) for load in loads)
    plans = tuple(one for one in planned if one is not None)
    said = summary(found, choice, plans)
    kept = roles(found, wanted.limits, {one.candidate for one in choice.excluded})
    if kept:
        said.append(limited(kept, wanted.servers))
    if not settled:
        said.append("The budget ended before the plan did: run it again with more to go on.")
    middle, why = _to_start(choice, plans, wanted)
    said += why
    report = Report(found, choice, plans, said)
    texts = {EVIDENCE: found.to_json(), "report.md": report.markdown(), "report.html": report.html()}
    backends = wanted.backends
    if middle is not None:
        specs = wanted.specs
        texts["fleet.yaml"] = fleet(
            choice, middle, lambda who: replace(specs[who.method], draft_tokens=who.draft_tokens)
        )
        loaded = load_fleet(texts["fleet.yaml"])
        backends = () if isinstance(loaded, Invalid) else loaded.value.backends
    learned = priors(found, backends)
    whole = bool(learned) and len(learned) == len(backends)
    if whole:
        texts[PRIOR] = dump(learned, PRIOR)
    texts["policy.yaml"] = policy(choice, middle, [wanted.served_model], found.target, prior=whole)
    beside = [out / f"{name}.new" for name in texts]
    try:
        for path, text in zip(beside, texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        for path in beside:
            path.replace(path.with_suffix(""))
    except OSError as error:
        for path in beside:
            with suppress(OSError):
                path.unlink()
        complain(f"{out}: {error.strerror}; what was measured is safe: free some space and run it again")
        return None
    return Files(choice, plans, said, [*measured, *(out / name for name in texts)], settled, kept)
