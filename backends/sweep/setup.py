"""What is to be swept: candidates of a recipe, of a fleet that runs, or of the simulator, and conditions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from backends.methods import Rule, methods
from backends.sim import profiles
from backends.spec import from_recipe
from backends.sweep.model import BASELINE, SAMPLINGS, Candidate, Condition
from backends.sweep.plan import families
from backends.sweep.prompts import tokens_of
from backends.sweep.servers import Place
from gateway.core.fleet import Backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backends.recipes import Recipe, Variant
    from backends.spec import LaunchSpec
    from backends.sweep.plan import Family
_ROOM: Final = 512
"""Tokens of the context that prompt text beside the filling and the answer may need."""


class SetupError(ValueError):
    """What was asked for cannot be swept; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is compared.

    Attributes:
        target: The target model.
        served_model: What servers answer to.
        specs: How a server of each method is started; empty where servers run already.
        places: Where servers run; empty where they are started.
        backends: Those that run; empty where they are started.
        max_model_len: Context length, where it is known.
    """

    target: str
    served_model: str
    families: tuple[Family, ...]
    specs: Mapping[str, LaunchSpec] = field(default_factory=dict)
    places: Mapping[Candidate, Place] = field(default_factory=dict)
    backends: tuple[Backend, ...] = ()
    max_model_len: int | None = None

    def startable(self) -> list[Candidate]:
        """All candidates that may be started here, those included that other lengths may lead to."""
        found = {
            Candidate(one.method, tokens) for one in self.families for tokens in (*one.lengths, *one.between)
        }
        return [BASELINE, *sorted(found)]


def of_recipe(recipe: Recipe, asked: Sequence[str], *, first_port: int) -> Setup:
    """Candidates of a recipe.

    Args:
        recipe: The target.
        asked: Methods, such as ``mtp``, or with an N, such as ``mtp:3``; all if empty.
        first_port: Of the servers.

    Raises:
        SetupError: There is no baseline, or nothing but.
        backends.spec.UnknownMethodError: The recipe has no such method.
    """
    wanted = list(asked) or list(recipe.methods)
    if BASELINE.method not in wanted:
        wanted = [BASELINE.method, *wanted]
    specs = {one.method: one for one in from_recipe(recipe, wanted, first_port=first_port)}
    specs = {name: _at(spec, first_port) for name, spec in specs.items()}
    starts, lengths, legal = {}, {}, {}
    for name in specs:
        pinned = sorted({int(one.partition(":")[2]) for one in wanted if one.startswith(f"{name}:")})
        if name == BASELINE.method:
            continue
        variant = recipe.methods[name]
        starts[name] = variant.draft_tokens or methods()[name].draft_tokens.default
        lengths[name] = pinned or _sweep(name, variant)
        legal[name] = () if pinned else range(min(lengths[name]), max(lengths[name]))
    if not lengths:
        raise SetupError(
            f"there is nothing to compare with the baseline; methods: {', '.join(recipe.methods)}"
        )
    return Setup(
        recipe.target,
        recipe.served_model,
        families(starts, lengths, legal),
        specs=specs,
        max_model_len=recipe.max_model_len,
    )


def _at(spec: LaunchSpec, port: int) -> LaunchSpec:
    """All servers have one port: only one runs at a time."""
    return replace(spec, port=port)


def _sweep(name: str, variant: Variant) -> list[int]:
    """N to try, those that the draft's block has no room for left out."""
    known = methods()[name].draft_tokens
    most = {Rule.BELOW_BLOCK: -1, Rule.WITHIN_BLOCK: 0}.get(known.rule)
    if most is None or variant.block_size is None:
        return sorted(known.sweep or (variant.draft_tokens,))
    kept = [tokens for tokens in known.sweep if tokens <= variant.block_size + most]
    return sorted(kept or [variant.block_size + most])


def of_fleet(backends: Iterable[Backend], model: str) -> Setup:
    """Candidates that run already.

    Args:
        backends: Of a fleet file.
        model: Which target, where the fleet has several; "" for the only one.

    Raises:
        SetupError: The target is not clear, or there is no baseline, or nothing but.
    """
    listed = list(backends)
    targets = sorted({one.target for one in listed})
    if not model and len(targets) > 1:
        raise SetupError(f"the fleet has several targets; name one with --model: {', '.join(targets)}")
    target = model or targets[0]
    own = [one for one in listed if one.target == target]
    if not own:
        raise SetupError(f"the fleet has no server of {target!r}; it has {', '.join(targets)}")
    places = {
        Candidate(one.method, one.draft_tokens): Place(one.url, one.served_model, one.api_key or "")
        for one in reversed(own)
    }
    if BASELINE not in places:
        raise SetupError(
            f"the fleet has no server of {target} without speculation; add one: it is the measure"
        )
    lengths: dict[str, list[int]] = {}
    for one in sorted(places):
        if not one.is_baseline:
            lengths.setdefault(one.method, []).append(one.draft_tokens)
    if not lengths:
        raise SetupError(f"the fleet has only baselines of {target}; add a server with a draft")
    starts = {name: methods()[name].draft_tokens.default for name in lengths}
    limits = [one.max_model_len for one in own if one.max_model_len is not None]
    return Setup(
        target,
        own[0].served_model,
        families(starts, lengths, {}),
        places=places,
        backends=tuple(own),
        max_model_len=min(limits, default=None),
    )


def of_specs(specs: Iterable[LaunchSpec], model: str) -> Setup:
    """Candidates of a fleet file that are started here, one at a time and on one port.

    Args:
        specs: Servers of the fleet; of each method the first one says how it is started.
        model: Which target, as for :func:`of_fleet`.

    Raises:
        SetupError: As :func:`of_fleet`.
    """
    listed = list(specs)
    found = of_fleet([_backend(one) for one in listed], model)
    own = [one for one in listed if one.target == found.target]
    by_method = {one.method: _at(one, own[0].port) for one in reversed(own)}
    return replace(found, specs=by_method, places={}, backends=())


def _backend(spec: LaunchSpec) -> Backend:
    return Backend(
        spec.name, spec.url, spec.target, spec.served_model, spec.method, spec.draft_tokens,
        max_model_len=spec.max_model_len,
    )  # fmt: skip


def of_simulator(target: str) -> Setup:
    """The published candidates of a target with a profile.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: It has none.
    """
    lengths: dict[str, list[int]] = {}
    for one in profiles.configurations(target):
        if one.cells and one.draft_tokens:
            lengths.setdefault(one.method, []).append(one.draft_tokens)
    starts = {name: methods()[name].draft_tokens.default for name in lengths}
    return Setup(target, target, families(starts, lengths, {}))


def too_long(lengths: Iterable[str], most: int | None) -> list[str]:
    """Prompt lengths that do not fit a context of so many tokens; none where it is not known.

    Raises:
        SetupError: One of them is no length.
    """
    try:
        tokens = {one: tokens_of(one) for one in lengths}
    except ValueError as error:
        raise SetupError(str(error)) from None
    return [one for one, number in tokens.items() if most is not None and number + _ROOM > most]


def conditions(
    workloads: Sequence[str],
    concurrency: Sequence[int],
    lengths: Sequence[str],
    samplings: Sequence[str],
    *,
    most: int | None = None,
) -> tuple[Condition, ...]:
    """All combinations, prompts that do not fit the context left out.

    Args:
        workloads: Names.
        concurrency: Requests open at a time.
        lengths: Prompt lengths.
        samplings: Of :data:`backends.sweep.model.SAMPLINGS`.
        most: Context length in tokens, None if it is not known.

    Raises:
        SetupError: One of them cannot be; the text says what can.
    """
    for one in samplings:
        if one not in SAMPLINGS:
            raise SetupError(f"{one!r} is no sampling; there is {', '.join(SAMPLINGS)}")
    if not lengths:
        raise SetupError("no prompt length is named; write short, 8k or 32k")
    long = too_long(lengths, most)
    fitting = [one for one in dict.fromkeys(lengths) if one not in long]
    if not fitting:
        raise SetupError(f"no prompt length fits the context of {most} tokens; write short")
    return tuple(
        Condition(workload, level, length, sampling)
        for level in concurrency
        for length in fitting
        for sampling in samplings
        for workload in workloads
    )
