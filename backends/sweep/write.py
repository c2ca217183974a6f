"""From a choice to files that can be reviewed: a policy that routes by it and a fleet that serves it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from backends.fleet_file import write_fleet
from backends.manifests import to_yaml
from backends.preflight.schedule import KEY as SCHEDULE
from backends.sweep.model import BASELINE, Candidate
from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from backends.spec import LaunchSpec
    from backends.sweep.choose import Choice
    from backends.sweep.fleetplan import FleetPlan

_LEARNING: Final = (
    "# With mode auto in place of shadow the load of the moment decides too, by {prior} and what is learnt\n"
    "# in service; shadow only says in each decision what that would have done.\n"
)

_UNKNOWN: Final = (
    "# Other servers than the usual ones would suit {workloads}; a route wants a rule of classify for\n"
    "# the label, see the report for which servers.\n"
)

EVIDENCE: Final = "evidence.json"
PRIOR: Final = "learned.yaml"
BASELINE_FROM: Final = 4
"""Servers from which on one has no draft: it measures the gain, and takes what drafts refuse."""

_BASELINE_SHARE: Final = "2%"
_HEADER: Final = (
    "# yaml-language-server: $schema=policy.schema.json\n"
    "# Written by specroute sweep from the measurements in {evidence}; review it before it is in service.\n"
    "{learning}"
)


def policy(
    choice: Choice, plan: FleetPlan | None, names: Iterable[str], target: str, *, prior: bool = False
) -> str:
    """The policy file.

    Args:
        choice: What was chosen.
        plan: For the fleet that it is for; None to route by the choice alone.
        names: Further names of the target for clients.
        target: The target model.
        prior: Whether there is a file of what the gateway's learner may begin with.
    """
    routes, unknown = _all_routes(choice, plan)
    document: dict[str, Any] = {
        "version": 1,
        "evidence": EVIDENCE,
        "models": {name: target for name in names if name != target} or None,
        "defaults": {"baseline_share": _BASELINE_SHARE} if plan is None or _has_baseline(plan) else None,
        "learning": {"mode": "shadow", "file": PRIOR} if prior else None,
        "routes": routes,
    }
    written = {key: value for key, value in document.items() if value is not None}
    learning = _LEARNING.format(prior=PRIOR) if prior else ""
    if unknown:
        learning += _UNKNOWN.format(workloads=", ".join(unknown))
    return _HEADER.format(evidence=EVIDENCE, learning=learning) + to_yaml(written)


def needed(choice: Choice, plan: FleetPlan | None) -> list[Candidate]:
    """Configurations that the policy names, and the baseline where a share of the requests goes to it."""
    routes, _ = _all_routes(choice, plan)
    named = {
        Candidate(one["method"], one.get("draft_tokens", 0))
        for route in routes
        for one in route["prefer"]
        if one != "any"
    }
    return sorted(named | ({BASELINE} if plan is None or _has_baseline(plan) else set()))


def _all_routes(choice: Choice, plan: FleetPlan | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The routes, and workloads that would have one if the gateway knew them."""
    found = list(_routes(choice, plan))
    known = [one for workload, one in found if workload in WORKLOADS]
    return [*known, _default(choice, plan)], [name for name, _ in found if name not in WORKLOADS]


def _has_baseline(plan: FleetPlan) -> bool:
    servers = plan.chosen.servers
    return BASELINE in servers or sum(servers.values()) >= BASELINE_FROM


def _default(choice: Choice, plan: FleetPlan | None) -> dict[str, Any]:
    preferred = _usual(choice) if plan is None else _always(choice, _ordered(plan.chosen.servers))
    return {"name": "default", "prefer": [*_selectors(preferred), "any"]}


def _routes(choice: Choice, plan: FleetPlan | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each workload that other configurations than the usual ones serve better, with its route."""
    if plan is not None:
        if plan.is_homogeneous:
            return
        usual = _ordered(plan.chosen.servers)
        for workload, shares in plan.shares.items():
            ordered = sorted(shares, key=lambda one, by=shares: -by[one])  # type: ignore[misc]
            if ordered[0] != usual[0]:
                yield workload, _route(workload, _always(choice, ordered))
        return
    for workload in choice.workloads:
        preferred = by_load(choice, workload)
        if preferred != _usual(choice):
            rest = _always(choice, [choice.everywhere])
            yield workload, _route(workload, [*preferred, *(one for one in rest if one not in preferred)])


class Preference(NamedTuple):
    """A configuration, and up to how many requests on a server it is preferred."""

    candidate: Candidate
    upto: int


def by_load(choice: Choice, workload: str) -> list[Preference]:
    """What is preferred for a workload as the load of a server grows.

    The baseline where nothing is faster beyond noise; else what is usual at that load, or at all loads, or
    was preferred at the one before, if that may be as fast as the fastest.
    """
    picks: list[Candidate] = []
    for band, usual in zip(choice.bands, choice.by_band, strict=True):
        found = choice.winner(workload, band.level)
        if found is None or found.candidate.is_baseline:
            picks.append(usual if found is None else BASELINE)
            continue
        as_fast = (usual, choice.everywhere, *picks[-1:])
        picks.append(next((one for one in as_fast if one in found.tied), found.candidate))
    return _stepped(choice, picks)


def _usual(choice: Choice) -> list[Preference]:
    """What is preferred for everything as the load of a server grows."""
    return _stepped(choice, choice.by_band)


def _stepped(choice: Choice, picks: Sequence[Candidate]) -> list[Preference]:
    """One configuration after the other as the load grows; in the end those that are for lower loads."""
    steps: list[Preference] = []
    for band, who in zip(choice.bands, picks, strict=True):
        if steps and steps[-1].candidate == who:
            steps.pop()
        steps.append(Preference(who, band.last or band.level))
    lower = dict.fromkeys(one.candidate for one in steps if one.candidate != steps[-1].candidate)
    return [*steps, *_always(choice, lower)]


def _always(choice: Choice, ordered: Iterable[Candidate]) -> list[Preference]:
    """One configuration after the other, each up to the highest measured load: beyond it all share."""
    return [Preference(one, choice.bands[-1].level) for one in ordered]


def _route(workload: str, preferred: Sequence[Preference]) -> dict[str, Any]:
    return {
        "name": workload.replace("_", "-"),
        "match": {"workload": workload},
        "prefer": [*_selectors(preferred), "any"],
    }


def _selectors(preferred: Sequence[Preference]) -> list[dict[str, Any]]:
    return [
        {
            "method": one.method,
            **({"draft_tokens": one.draft_tokens} if one.draft_tokens else {}),
            "max_in_flight": upto,
        }
        for one, upto in preferred
    ]


def _ordered(servers: Mapping[Candidate, int]) -> list[Candidate]:
    return sorted(servers, key=lambda one: -servers[one])


def fleet(choice: Choice, plan: FleetPlan, spec: Callable[[Candidate], LaunchSpec]) -> str:
    """The fleet file of a plan, with how each server is launched.

    Args:
        choice: What was chosen; its schedule is used where it is of the one planned method.
        plan: How many servers of each configuration.
        spec: What is started for a candidate.
    """
    wanted = [who for who in _ordered(plan.chosen.servers) for _ in range(plan.chosen.servers[who])]
    if _has_baseline(plan) and BASELINE not in wanted:
        wanted[-1] = BASELINE
    specs: list[LaunchSpec] = []
    for place, who in enumerate(wanted):
        own = spec(who)
        own = replace(own, name=f"{who.label}-{place + 1}", port=specs[0].port + place if specs else own.port)
        specs.append(_scheduled(own, choice) if plan.is_homogeneous and who != BASELINE else own)
    return write_fleet(specs)


def _scheduled(spec: LaunchSpec, choice: Choice) -> LaunchSpec:
    """The server with an N that follows its load, where that was found to be better and vLLM can do it."""
    if not choice.schedule or spec.method != choice.everywhere.method or not spec.known.schedule:
        return spec
    most = max(tokens for _, _, tokens in choice.schedule)
    rows = [list(row) for row in choice.schedule]
    return replace(spec, draft_tokens=most, speculative={**spec.speculative, SCHEDULE: rows})


def changed_by_requests(choice: Choice) -> list[str]:
    """Workloads whose winner is another one with long prompts or sampled answers, in words."""
    found = []
    for one in choice.winners:
        plain = choice.winner(one.workload, one.concurrency)
        if plain is not None and plain.work.is_plain and plain.candidate != one.candidate:
            instead = f"{one.candidate.label} instead of {plain.candidate.label}"
            found.append(f"{one.work.label} at {one.concurrency}: {instead}")
    return found
