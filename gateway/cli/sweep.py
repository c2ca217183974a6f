"""``specroute sweep``: measure which speculative configuration serves which work best, and what follows."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import options
from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from backends.recipes import Recipe
    from backends.sweep.model import Condition
    from backends.sweep.prompts import Prompt
    from backends.sweep.setup import Setup
    from gateway.cli.evidence_files import Files

PYTHON = "SPECROUTE_VLLM_PYTHON"
NO = 1
"""Exit code where there is no answer: nothing to compare, no disk, interrupted."""


class Sampling(StrEnum):
    """How tokens are drawn."""

    GREEDY = "greedy"
    SAMPLED = "sampled"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sweep")(sweep)


def sweep(
    *,
    recipe: Annotated[
        str, typer.Option(help="A published target; its servers are started here.", show_default=False)
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Methods of the recipe, with commas; mtp:3 pins N.", show_default=False)
    ] = "",
    fleet: Annotated[
        Path | None, typer.Option(help="A fleet file of servers that run already.", show_default=False)
    ] = None,
    launch: Annotated[
        bool, typer.Option("--launch", help="Start the fleet's servers here, one at a time.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="Target of the fleet, where it has several.", show_default=False)
    ] = "",
    simulate: Annotated[
        str,
        typer.Option(
            help="A target with a simulator profile: no server; minutes of CPU time.", show_default=False
        ),
    ] = "",
    result: Annotated[
        list[str],
        typer.Option(
            help="A result of vllm bench serve or guidellm instead: dflash-7:code=FILE; needs --model.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer's way of saying that none is given
    out: Annotated[Path, typer.Option(help="Folder for all that is measured and written.")] = Path("sweep"),
    workloads: Annotated[
        str, typer.Option(help="With commas; all that come with prompts if left out.", show_default=False)
    ] = "",
    prompts: Annotated[
        Path | None, typer.Option(help="Prompts of your own, as JSON lines.", show_default=False)
    ] = None,
    concurrency: Annotated[str, typer.Option(help="Requests open at a time.")] = "1,8,32",
    lengths: Annotated[str, typer.Option(help="Prompt lengths: short, 8k, 32k.")] = "short",
    sampling: Annotated[Sampling, typer.Option(help="How tokens are drawn.")] = Sampling.GREEDY,
    max_tokens: Annotated[int, typer.Option(help="Longest answer.", min=16)] = 256,
    stall: Annotated[
        float,
        typer.Option(
            help="Seconds without a token of any answer after which a server hangs; a first one may take "
            "three times as long.",
            min=1,
        ),
    ] = 120.0,
    precision: Annotated[str, typer.Option(help="Half-width of an interval that is narrow enough.")] = "3%",
    requests: Annotated[int, typer.Option(help="Requests of a round at least.", min=8)] = 16,
    rounds: Annotated[int, typer.Option(help="Rounds of one cell at most.", min=1)] = 12,
    budget: Annotated[
        str, typer.Option(help="Time for all of it, such as 2h; measuring then stops.", show_default=False)
    ] = "",
    servers: Annotated[int, typer.Option(help="Servers to plan a fleet for.", min=1)] = 8,
    mix: Annotated[
        str,
        typer.Option(
            help="Shares of requests, such as code=3,chat=1,chat 8k=1; equal if left out.", show_default=False
        ),
    ] = "",
    limit: Annotated[
        list[str],
        typer.Option(
            help="Work with a limit on the time per token: chat=40ms@2.5, at 2.5 requests/s.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - as above
    python: Annotated[
        str, typer.Option(envvar=PYTHON, help="Interpreter that has vLLM.", show_default=False)
    ] = "",
    port: Annotated[int, typer.Option(help="Port of servers started here.", min=1, max=65000)] = 8101,
    as_json: Annotated[bool, typer.Option("--json", help="Print the choice as JSON.")] = False,
) -> None:
    """Measure speculative configurations under your own workloads and loads, and write a policy from it.

    Run again with the same --out it goes on where it was. Written are samples.jsonl (every request),
    evidence.json, policy.yaml, report.md and report.html, and fleet.yaml where it is known how the servers
    are started: with --recipe or --launch. With --simulate or --result the report names the servers that the
    policy wants.

    Example: `specroute sweep --recipe qwen3-8b --methods dflash,dspark --workloads code,math --budget 2h`

    Example: `specroute sweep --fleet fleet.yaml --prompts mine.jsonl --concurrency 1,8`

    Example: `specroute sweep --fleet fleet.yaml --launch --python /opt/vllm/bin/python`

    Example: `specroute sweep --simulate google/gemma-4-31B-it`

    Example: `specroute sweep --model some/model --result none:code=a.json --result mtp-3:code=b.json`

    Exit codes: 0 done; 1 no answer: no baseline, no disk, interrupted; 2 bad input.
    """
    _go_together(result, recipe, methods, fleet, simulate, launch=launch)
    if result:
        from gateway.cli.imported import imported

        _say(imported(result, model, out, servers, mix, limit), as_json=as_json)
        return
    from backends.sweep.plan import Settings
    from backends.sweep.setup import SetupError, conditions, too_long
    from gateway.cli.sweeping import Asked, sweeping

    if simulate and sampling is not Sampling.GREEDY:
        refuse("the simulator's acceptance is that of greedy answers; leave --sampling out")
    try:
        setup = _setup(recipe, methods, fleet, model, simulate, port, launch=launch)
        texts = _prompts(prompts, options.listed(workloads), simulated=bool(simulate))
        samplings = ("greedy", "sampled") if sampling is Sampling.BOTH else (sampling.value,)
        under = conditions(
            list(texts),
            options.numbers(concurrency),
            options.listed(lengths),
            samplings,
            most=setup.max_model_len,
        )
        long = too_long(options.listed(lengths), setup.max_model_len)
    except SetupError as error:
        refuse(str(error))
    if long:
        left = f"prompts of {', '.join(long)} do not fit the context of {setup.max_model_len} tokens"
        typer.echo(f"{left}: they are left out", err=True)
    asked = Asked(
        setup=setup,
        conditions=under,
        prompts=_filled(texts, under) if not simulate else {},
        settings=Settings(options.share(precision), requests, rounds),
        max_tokens=max_tokens,
        stall=stall,
        budget=options.seconds(budget),
        servers=servers,
        mix=options.mix(mix, dict.fromkeys([*texts, *(one.work.label for one in under)])),
        python=python,
        simulated=bool(simulate),
        limits=[options.limit(one, texts) for one in limit],
    )
    _say(sweeping(asked, out, quiet=as_json), as_json=as_json)


def _go_together(
    result: list[str], recipe: str, methods: str, fleet: Path | None, simulate: str, *, launch: bool
) -> None:
    """Refuse options that would be passed over in silence."""
    if result and (recipe or fleet or simulate):
        refuse("--result stands in place of measuring: leave --recipe, --fleet and --simulate out")
    if not result and sum(map(bool, (recipe, fleet, simulate))) != 1:
        refuse("name what to measure: --recipe, --fleet or --simulate")
    if methods and not recipe:
        refuse("--methods are those of a --recipe; a fleet has its servers, the simulator its profiles")
    if launch and fleet is None:
        refuse("--launch starts the servers of a --fleet; those of a recipe are started anyway")


def _setup(
    recipe: str, methods: str, fleet: Path | None, model: str, simulate: str, port: int, *, launch: bool
) -> Setup:
    from backends.fleet_file import read_fleet
    from backends.sim.profiles import UnknownConfigurationError
    from backends.spec import UnknownMethodError
    from backends.sweep import setup
    from gateway.policy.load import Invalid, load_fleet

    if recipe:
        try:
            return setup.of_recipe(_recipe(recipe), options.listed(methods), first_port=port)
        except UnknownMethodError as error:
            refuse(str(error))
    if fleet is not None and launch:
        specs = read_fleet(read_text(fleet), str(fleet))
        if isinstance(specs, Invalid):
            refuse("\n".join(map(str, specs.problems)))
        return setup.of_specs(specs, model)
    if fleet is not None:
        loaded = load_fleet(read_text(fleet), str(fleet), os.environ)
        if isinstance(loaded, Invalid):
            refuse("\n".join(map(str, loaded.problems)))
        return setup.of_fleet(loaded.value.backends, model)
    try:
        return setup.of_simulator(simulate)
    except UnknownConfigurationError as error:
        refuse(str(error))


def _recipe(name: str) -> Recipe:
    from backends.recipes import recipes
    from gateway.policy.problems import suggest

    if name not in recipes():
        refuse(f"there is no recipe {name!r}; {suggest(name, recipes(), 'recipes')}")
    return recipes()[name]


def _prompts(path: Path | None, wanted: list[str], *, simulated: bool) -> dict[str, tuple[Prompt, ...]]:
    """Prompts by workload; those wanted, or all there are. The simulator needs the names alone."""
    from backends.sim.configuration import DATA_SETS
    from backends.sweep.prompts import PromptError, parse, usual
    from gateway.core.features import WORKLOADS

    if simulated:
        unknown = [one for one in wanted if one not in (*WORKLOADS, *DATA_SETS)]
        if unknown:
            refuse(
                f"the simulator knows no workload {unknown[0]!r}, only {', '.join((*WORKLOADS, *DATA_SETS))}"
            )
        return dict.fromkeys(wanted or WORKLOADS, ())
    if path is None:
        try:
            return usual(wanted or WORKLOADS)
        except ValueError as error:
            refuse(f"{error}; give your own with --prompts")
    try:
        found = parse(read_text(path), str(path))
    except PromptError as error:
        refuse(str(error))
    missing = [one for one in wanted if one not in found]
    if missing:
        refuse(f"{path}: no prompt is of workload {missing[0]!r}; there is {', '.join(found)}")
    return {name: prompts for name, prompts in found.items() if not wanted or name in wanted}


def _filled(
    texts: dict[str, tuple[Prompt, ...]], under: tuple[Condition, ...]
) -> dict[tuple[str, str], tuple[Prompt, ...]]:
    from backends.sweep.prompts import filled

    wanted = dict.fromkeys((one.workload, one.prompt) for one in under)
    return {(workload, length): filled(texts[workload], length) for workload, length in wanted}


def _say(files: Files | None, *, as_json: bool) -> None:
    import json

    if files is None:
        raise typer.Exit(NO)

    if as_json:
        typer.echo(json.dumps(files.as_json(), indent=2, ensure_ascii=False))
        return
    for paragraph in files.summary:
        typer.echo(f"{paragraph}\n")
    typer.echo("Written: " + ", ".join(map(str, files.written)))
