"""``specroute simulate``: a fleet under a policy on a virtual clock, beside simpler policies and fleets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.files import load_backends, load_config, read_text, refuse
from gateway.cli.scenes import Asked, limited, service_of, times, unmeasured
from gateway.cli.scenes import sources as wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.fleetsim.compare import Result
    from backends.fleetsim.fleet import Setup
    from backends.fleetsim.gateway import GatewayRouter
    from backends.fleetsim.model import Model
    from backends.fleetsim.view import Router
    from gateway.core.fleet import Backend
    from gateway.core.policy import Policy

FELL_SHORT = 1
"""Exit code where nothing was answered, or a source kept its limits for fewer than nine of ten requests."""

KEPT = 0.9
LEAST_SCRAPE = 0.01
"""Virtual seconds; with shorter ones the scrapes would be all that is simulated."""

OURS = "this policy"
LEAST = "least requests"
WIDTH = 100
"""Columns that the table needs; a narrower terminal wraps its lines."""

FLEETS = 2
"""Results that are about the fleet that was given; the others are about other fleets."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    fleet: Annotated[Path, typer.Argument(help="The fleet file; its servers need not run.")],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(help="The policy file; if left out, what is learnt decides alone.", show_default=False),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            help="chat70, code60, rag, equal, or math=2,code=1; several take turns.", show_default="chat70"
        ),
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Seconds of each --mix, where there are several.", show_default="60")
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option(
            help="Closed loop: requests open at a time, as 64 or 0:16,60:128/120.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Open loop: requests a second, written alike.", show_default=False)
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="Several kinds of clients: 'name=chat;mix=chat70;rate=4;ttft=1;tpot=0.03'. A policy's class "
            "of that name takes them.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="JSON lines: at, workload, prompt_tokens, output_tokens.", show_default=False),
    ] = None,
    events: Annotated[
        Path | None, typer.Option(help="YAML: servers that fall, slow down or change.", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target model, where the fleet has several.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Virtual seconds measured.", show_default="180, or to the end of the trace"),
    ] = None,
    warm_up: Annotated[
        float | None, typer.Option(help="Virtual seconds before them.", show_default="60, or 0 with a trace")
    ] = None,
    label_errors: Annotated[
        float | None, typer.Option(help="Share of wrong labels.", show_default="0")
    ] = None,
    scrape: Annotated[float, typer.Option(help="Seconds between scrapes; 0 for none.")] = 1.0,
    kv_limit: Annotated[bool, typer.Option("--kv-limit", help="Let a full KV cache preempt.")] = False,
    cache_tokens: Annotated[int, typer.Option(help="Prefix cache of each server, tokens.", min=0)] = 0,
    graph_tokens: Annotated[
        int,
        typer.Option(
            help="Largest captured graph; steps beyond take 1.4 times as long. 0 for no end.", min=0
        ),
    ] = 0,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Begin with what a sweep would have told, not with nothing.")
    ] = False,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Simulate each configuration on all servers, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of requests, lengths and acceptance.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Simulate a fleet: what this policy gives, against least requests and against servers without a draft.

    Step times and acceptance are those of the calibrated profiles (`specroute sim` uses the same).

    Example: `specroute simulate fleet.yaml --mix equal --clients 64`

    Example: `specroute simulate fleet.yaml --policy policy.yaml --rate 0:2,120:8 --events faults.yaml --json`

    Exit codes: 0 simulated, 1 a source kept its limits for fewer than nine of ten requests or nothing was
    answered, 2 bad input.
    """
    from backends.fleetsim import scenario
    from backends.fleetsim.fleet import Setup

    backends, rules = _files(fleet, policy, target)
    kinds = [(one.target, one.method, one.draft_tokens) for one in backends]
    *models, baseline = _models([*kinds, (backends[0].target, "none", 0)], graph_tokens)
    names = [backend.name for backend in backends]
    try:
        traced = scenario.trace(read_text(trace), str(trace)) if trace else []
        asked = Asked(mix, every, clients, rate, source, label_errors)
        sources = limited(wanted(asked, len(models), traced=bool(traced)), rules)
        happens = scenario.events(read_text(events), str(events), names, models) if events else []
        before, measured = times(warm_up, seconds, traced)
        every_scrape = scenario.within(scrape, "--scrape", LEAST_SCRAPE if scrape else 0.0, scenario.LONGEST)
    except scenario.ScenarioError as error:
        refuse(str(error))
    if unseen := unmeasured(traced, before, measured):
        typer.echo(f"{trace}: {unseen} of {len(traced)} requests are not in the measured seconds", err=True)
    setup = Setup(
        models,
        sources,
        warm_up=before,
        window=measured,
        drain=60.0 if traced or any(one.rate for one in sources) else 0.0,
        seed=seed,
        events=happens,
        scrape_seconds=every_scrape,
        kv_limit=kv_limit,
        cache_tokens=cache_tokens,
        trace=traced,
    )
    router = _router(setup, backends, rules, sweep=sweep)
    results = _run(setup, backends, router, baseline, alternatives=alternatives)
    if as_json:
        typer.echo(json.dumps(_as_json(results, names), indent=2))
    else:
        _print(results, names)
    short = not results[0].answered or any(one.share < KEPT for one in results[0].kept)
    raise typer.Exit(FELL_SHORT if short else 0)


def _files(fleet: Path, policy: Path | None, target: str | None) -> tuple[list[Backend], Policy | None]:
    """The backends of one target, and the policy where there is one."""
    from gateway.policy.problems import suggest

    if policy is None:
        found, rules = load_backends(fleet).backends, None
    else:
        both = load_config(fleet, policy)
        found, rules = both.fleet.backends, both.policy
    targets = sorted({backend.target for backend in found})
    if target is None:
        if len(targets) > 1:
            refuse(f"the fleet has several targets, give one with --target: {', '.join(targets)}")
        target = targets[0]
    if target not in targets:
        refuse(f"--target: no backend serves {target!r}; {suggest(target, targets, 'targets')}")
    return [backend for backend in found if backend.target == target], rules


def _models(kinds: Sequence[tuple[str, str, int]], graph_tokens: int) -> list[Model]:
    """Engines by target, method and N."""
    from backends.fleetsim import catalogue
    from backends.fleetsim.model import with_cliff
    from backends.sim.profiles import UnknownConfigurationError

    try:
        made = [catalogue.engine(*kind) for kind in kinds]
    except UnknownConfigurationError as error:
        refuse(str(error))
    return [with_cliff(model, graph_tokens, 1.4) for model in made] if graph_tokens else made


def _router(setup: Setup, backends: Sequence[Backend], rules: Policy | None, *, sweep: bool) -> GatewayRouter:
    """The gateway with its policy, and a planner where a source has limits."""
    from dataclasses import replace

    from backends.fleetsim.beliefs import ALIAS, believed, policy
    from backends.fleetsim.gateway import GatewayRouter
    from gateway.runtime.planner import Planner

    own = policy(target=backends[0].target)
    if rules is not None:
        served = {alias: of for alias, of in rules.aliases.items() if of == backends[0].target}
        own = replace(rules, aliases=served or {ALIAS: backends[0].target})
    services = [service_of(source, own) for source in setup.sources]
    return GatewayRouter(
        setup.models,
        own,
        backends=backends,
        priors=[believed(model) for model in setup.models] if sweep else None,
        seed=setup.seed,
        services=services,
        planner=Planner() if any(one.limits.any for one in services) else None,
    )


def _run(
    setup: Setup, backends: Sequence[Backend], router: GatewayRouter, baseline: Model, *, alternatives: bool
) -> list[Result]:
    """The policy first, then what it is compared with."""
    from rich.console import Console
    from rich.progress import Progress

    from backends.fleetsim import compare
    from backends.fleetsim.beliefs import running

    def least(one: Setup, fleet: Sequence[Backend]) -> Router:
        return compare.least_requests(one.models, one.seed, backends=fleet, queue=router.policy.queue)

    runs: list[tuple[str, Setup, Router]] = [(OURS, setup, router), (LEAST, setup, least(setup, backends))]
    for name, other in compare.alternatives(setup, baseline, drafts=alternatives):
        fleet = [running(one, model) for one, model in zip(backends, other.models, strict=True)]
        runs.append((name, other, least(other, fleet)))
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(runs))
        found = []
        for at, (name, one, of) in enumerate(runs):

            def tell(share: float, at: int = at) -> None:
                progress.update(task, completed=at + share)

            found.append(compare.run(name, one, of, on_progress=tell))
            progress.update(task, completed=at + 1)
    return found


def _as_json(results: Sequence[Result], names: Sequence[str]) -> list[dict[str, Any]]:
    """Each run with its gain; shares by backend, where the fleet is the one that was given."""
    found = []
    for at, result in enumerate(results):
        one = asdict(result)
        one["shares"] = dict(zip(names, result.shares, strict=True)) if at < FLEETS else None
        one["kept"] = {kept.name: kept.share for kept in result.kept}
        one["gain"] = _gain(results[0], result)
        found.append(one)
    return found


def _gain(ours: Result, other: Result) -> float | None:
    """By how much ours gives more tokens a second than the other; None for ours itself."""
    if other is ours or not other.tokens_per_second:
        return None
    return ours.tokens_per_second / other.tokens_per_second - 1.0


def _print(results: Sequence[Result], names: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Simulated", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("policy or fleet", no_wrap=True)
    kept = [one.name for one in results[0].kept]
    for heading in (
        "tokens/s", "gain\nover it", "of the\noptimum", "first\ntoken", "mean\nseconds", "\np99", "answers",
        "failed", *(f"{name}\nkept" for name in kept),
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for result in results:
        gain = _gain(results[0], result)
        table.add_row(
            result.name,
            f"{result.tokens_per_second:,.0f}",
            "" if gain is None else f"{gain:+.1%}",
            "" if result.share is None else f"{result.share:.1%}",
            f"{result.first:.2f}", f"{result.mean:.2f}", f"{result.p99:.2f}",
            f"{result.answered:,}", str(result.failed),
            *(f"{one.share:.1%}" for one in result.kept),
        )  # fmt: skip
    parts = Table(title="Shares of the answers", title_justify="left", box=SIMPLE_HEAD)
    parts.add_column("backend", no_wrap=True)
    for result in results[:FLEETS]:
        parts.add_column(result.name, justify="right")
    for at, name in enumerate(names):
        parts.add_row(name, *(f"{result.shares[at]:.1%}" for result in results[:FLEETS]))
    console = Console(highlight=False, width=max(Console().width, WIDTH))
    console.print(table, parts)
    ours = results[0]
    if ours.preemptions or ours.waiting:
        console.print(f"{ours.preemptions} preemptions, {ours.waiting} requests still waiting in the gateway")
