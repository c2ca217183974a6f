"""What a sweep found, in sentences: what to run, why, what it gains and what is not sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.sweep.choose import MOST_FAILURES
from backends.sweep.cost import late_share
from backends.sweep.mix import candidate, work
from backends.sweep.write import BASELINE_FROM, changed_by_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backends.sweep.choose import Choice, Winner
    from backends.sweep.fleetplan import FleetPlan
    from backends.sweep.model import Candidate
    from backends.sweep.roles import Role
    from gateway.policy.evidence import Evidence

LATE: float = 0.03
"""Share of the tokens below which late positions are said to bring nothing."""


def summary(evidence: Evidence, choice: Choice, plans: Sequence[FleetPlan]) -> list[str]:
    """The paragraphs at the top of a report."""
    return [
        paragraph
        for paragraph in (
            _run(choice, plans),
            _gain(choice),
            _by_load(choice),
            _fleet(evidence, choice, plans),
            _uncertain(evidence, choice),
            _broken(evidence, choice),
            _effort(evidence),
        )
        if paragraph
    ]


def _run(choice: Choice, plans: Sequence[FleetPlan]) -> str:
    usual = name(choice.everywhere)
    if choice.everywhere.is_baseline:
        return f"Run {usual}: no draft is faster beyond noise for this mix of workloads."
    mixed = [plan for plan in plans if not plan.is_homogeneous]
    if plans and not mixed:
        most = max(plan.gain for plan in plans)
        return (
            f"Run {usual} on every server{_other_loads(choice, plans)}. One configuration for everything is "
            f"the answer here: no fleet of two would give more than {max(0.0, most):.1%} on top, and no "
            "router gets all of that."
        )
    if mixed:
        most, loads = max(plan.gain for plan in mixed), listed([str(plan.load) for plan in mixed])
        return (
            f"Run {usual} if all servers are to be alike. A mixture, routed by workload, could give up to "
            f"{most:.1%} more with {loads} in flight a server."
        )
    if not choice.mixing_pays:
        return f"Run {usual} for everything: the best of each workload would gain next to nothing over it."
    return f"If all servers run the same, run {usual}; the best of each workload is faster, see below."


def _other_loads(choice: Choice, plans: Sequence[FleetPlan]) -> str:
    """Where a fleet of another configuration than the best one over all loads is planned."""
    loads: dict[Candidate, list[str]] = {}
    for plan in plans:
        (who,) = plan.chosen.servers
        if who != choice.everywhere:
            loads.setdefault(who, []).append(str(plan.load))
    parts = [f"{name(who)} where there are {listed(at)} in flight on each" for who, at in loads.items()]
    return f", or {listed(parts, 'or')}" if parts else ""


def _gain(choice: Choice) -> str:
    speedups = listed([f"{one.speedup:.2f}" for one in choice.singles])
    levels = listed([str(one.concurrency) for one in choice.singles])
    usual = {band.level: who for band, who in zip(choice.bands, choice.by_band, strict=True)}
    other = [
        f"{name(one.candidate)} at {one.concurrency}"
        + (
            ""
            if usual[one.concurrency] == one.candidate
            else f", where {name(choice.everywhere)} is as fast within noise"
        )
        for one in choice.singles
        if one.candidate != choice.everywhere
    ]
    said = f"The best single one gives {speedups} times the baseline's tokens/s with {levels} in flight"
    return f"{said}, over all workloads measured" + (f" ({'; '.join(other)})." if other else ".")


def _by_load(choice: Choice) -> str:
    by_level = {
        band: [
            one for workload in choice.workloads if (one := choice.winner(workload, band.level)) is not None
        ]
        for band in choice.bands
    }
    parts = []
    for band, winners in by_level.items():
        groups: dict[Candidate, list[str]] = {}
        for one in winners:
            groups.setdefault(one.candidate, []).append(one.workload)
        said = listed([f"{name(who)} for {listed(workloads)}" for who, workloads in groups.items()])
        parts.append(
            f"with {band} in flight {said if len(groups) > 1 else name(next(iter(groups)))}" if groups else ""
        )
    found = "The fastest ones measured were: " + "; ".join(part for part in parts if part) + "."
    if choice.schedule:
        rows = listed([f"{tokens} up to {last}" for _, last, tokens in choice.schedule])
        found += (
            " The best draft length falls with the load, and the engine can follow by itself: a schedule of "
            f"N = {rows} sequences in the batch beats servers of fixed lengths."
        )
    return found + "".join(f" Other requests change it: {one}." for one in changed_by_requests(choice))


def _fleet(evidence: Evidence, choice: Choice, plans: Sequence[FleetPlan]) -> str:
    parts = []
    for plan in plans:
        number = sum(plan.chosen.servers.values())
        servers = listed([f"{count} of {name(who)}" for who, count in plan.chosen.servers.items()])
        at = f"with {plan.load} in flight a server, {servers}"
        if plan.is_homogeneous:
            more = f"{max(0.0, plan.gain):.1%}"
            parts.append(f"{at}: a mixture could give {more} more at most, too little to be worth it")
        else:
            (best,) = plan.homogeneous.servers
            parts.append(f"{at}, which could give {plan.gain:.1%} over {number} of {name(best)}")
    if not parts:
        return ""
    total = sum(plans[0].chosen.servers.values())
    rest = _baseline_costs(choice, total) + _not_planned(evidence, choice)
    return f"For {total} servers: {'; '.join(parts)}.{rest}"


def _baseline_costs(choice: Choice, servers: int) -> str:
    """What it costs to keep one server without a draft, as the written fleet does."""
    if servers < BASELINE_FROM or choice.everywhere.is_baseline:
        return ""
    costs = [(1.0 - 1.0 / one.speedup) / servers for one in choice.singles]
    shares = listed([f"{max(0.0, cost):.0%}" for cost in costs])
    return (
        " One of them is better kept without a draft: it measures the gain and takes what drafts refuse, at "
        f"{shares} of the output; the figures here are without it."
    )


def _not_planned(evidence: Evidence, choice: Choice) -> str:
    """Which measurements a fleet plan leaves out of account."""
    left = [one for one in evidence.measurements if one.speedup is not None and work(one) not in choice.works]
    if not left:
        return ""
    what = listed(list(dict.fromkeys(work(one).label for one in left)))
    return (
        f" {len(left)} measurements, of {what}, are not in the plan: no draft was measured with all of them, "
        "so it rests on greedy answers to short prompts."
    )


def limited(found: Sequence[Role], servers: int) -> str:
    """What to keep for work with limits, and what that leaves."""
    parts = []
    for one in found:
        limit = f"{one.limit.tpot * 1e3:g} ms a token at {one.limit.rate:g} requests/s"
        asked = f"{one.limit.workload} within {limit}"
        if one.candidate is None:
            parts.append(f"nothing measured serves {asked}")
        else:
            many = f"{one.servers} of {name(one.candidate)}, at most {one.batch} in flight on each"
            parts.append(f"for {asked} keep {many}")
    left = servers - sum(one.servers for one in found)
    rest = f"{left} of {servers} servers are left for the rest"
    if left < 0:
        rest = f"That is more than the {servers} servers there are"
    return f"Limits: {'; '.join(parts)}. {rest}; a class with `tpot` in the policy keeps them apart."


def _uncertain(evidence: Evidence, choice: Choice) -> str:
    open_ones = [one for one in choice.winners if one.uncertain]
    said = []
    if open_ones:
        said.append(
            f"{len(open_ones)} of {len(choice.winners)} winners are not settled to {evidence.precision:.0%} "
            f"({'; '.join(map(_tie, open_ones))})"
        )
    bare = [one for one in evidence.measurements if one.speedup is not None and one.speedup.low is None]
    if bare:
        said.append(
            f"{len(bare)} measurements have no interval: their requests were too few, or the file does not "
            "list them (vllm bench serve does with --save-detailed), so they are not taken to be faster"
        )
    said += [
        f"{one.failures} of {one.failures + one.requests} requests of the baseline failed ({one.workload} at "
        f"{one.concurrency}), so speed-ups over it are not to be relied on"
        for one in evidence.measurements
        if one.is_baseline and one.failures > MOST_FAILURES * (one.failures + one.requests)
    ]
    if evidence.machine.simulated:
        said.append("the figures are a simulator's and say nothing of your servers")
    if not said:
        return "Every winner is settled: nothing measured may be faster by more than the precision asked for."
    return f"Not sure: {'; '.join(said)}."


def _tie(one: Winner) -> str:
    most = 2
    rivals = [name(who) for who in one.tied[:most]]
    rest = len(one.tied) - most
    others = listed([*rivals, *([f"{rest} more"] if rest > 0 else [])], "or")
    return f"{one.work.label} at {one.concurrency}: {name(one.candidate)}, perhaps {others}"


def _broken(evidence: Evidence, choice: Choice) -> str:
    said = [f"{name(one.candidate)}: {one.why}" for one in choice.excluded]
    for what, why in evidence.failures.items():
        said.append(f"{what} could not be measured: {why.splitlines()[0].removesuffix(':')}")
    return f"Left out: {'. '.join(said)}." if said else ""


def _effort(evidence: Evidence) -> str:
    effort = evidence.effort
    if not effort.rounds:
        return ""
    saved = 1.0 - effort.rounds / effort.grid_rounds if effort.grid_rounds else 0.0
    took = f"This took {effort.requests:,} requests in {effort.rounds} rounds and {duration(effort.seconds)}"
    if saved < 0.01:
        return f"{took}: nothing could be skipped."
    hours = effort.seconds / (1.0 - saved) * saved
    return (
        f"{took}. Measuring every configuration everywhere to the same precision would have taken about "
        f"{effort.grid_rounds:.0f} rounds: {saved:.0%} was saved, or {duration(hours)}."
    )


def late_positions(evidence: Evidence) -> dict[str, tuple[int, float]]:
    """By configuration, from which position on its drafts bring next to nothing, and what share that is."""
    found: dict[str, tuple[int, float]] = {}
    survivals: dict[str, list[tuple[float, ...]]] = {}
    for one in evidence.measurements:
        if one.by_position:
            survivals.setdefault(candidate(one).label, []).append(one.by_position)
    for label, curves in survivals.items():
        mean = [sum(values) / len(curves) for values in zip(*curves, strict=False)]
        for position in range(2, len(mean) + 1):
            if (share := late_share(mean, position)) < LATE:
                found[label] = position, share
                break
    return found


def name(who: Candidate) -> str:
    """A configuration in a sentence."""
    return "no speculation" if who.is_baseline else who.label


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words as a list in a sentence."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What was measured, on what, when: for the head of a report."""
    machine = evidence.machine
    yield "target", evidence.target
    yield "measured", f"{evidence.measured}, by {evidence.source}"
    if machine.simulated:
        yield "hardware", f"none: simulated {machine.hardware}"
    elif machine.hardware:
        number = f"{machine.accelerators} of " if machine.accelerators else ""
        yield "hardware", number + machine.hardware
    versions: Mapping[str, str] = {
        machine.platform: machine.platform_version,
        "driver": machine.driver,
        "vLLM": machine.vllm,
    }
    said = ", ".join(f"{what} {version}" for what, version in versions.items() if version)
    if said:
        yield "software", said
    if not machine.simulated:
        told = [one.memory for one in evidence.measurements if one.memory is not None]
        most = (
            f"{min(told) / 1024:.1f} to {max(told) / 1024:.1f} GiB in use"
            if told
            else "no tool or exporter told it"
        )
        yield "GPU memory", most
