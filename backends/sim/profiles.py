"""The calibrated configurations: every published target, method and draft length, and a few assumed ones."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from backends.sim.configuration import DATA_SETS, Cell, Configuration, Curve, Lengths
from backends.sim.profile_files import Assumptions, Entry, Profile, Transfer
from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOLDER: Final = files("backends.sim") / "profiles"
_SHARED: Final = ("assumptions.json", "transfer.json")


class UnknownConfigurationError(LookupError):
    """No profile exists for what was asked; the message lists what there is."""


@lru_cache(maxsize=1)
def assumptions() -> Assumptions:
    """Numbers that no measurement of these targets gives, each with its origin."""
    return Assumptions.model_validate_json((_FOLDER / "assumptions.json").read_bytes())


@lru_cache(maxsize=1)
def _transfer() -> Transfer:
    return Transfer.model_validate_json((_FOLDER / "transfer.json").read_bytes())


@lru_cache(maxsize=1)
def _profiles() -> Mapping[str, Profile]:
    names = sorted(file.name for file in _FOLDER.iterdir() if file.name.endswith(".json"))
    found = [
        Profile.model_validate_json((_FOLDER / name).read_bytes()) for name in names if name not in _SHARED
    ]
    return {profile.target: profile for profile in found}


def targets() -> tuple[str, ...]:
    """Hugging Face ids of the target models that have profiles."""
    return tuple(_profiles())


@lru_cache(maxsize=64)
def configurations(target: str) -> tuple[Configuration, ...]:
    """All configurations of a target: the baseline, the published ones, then the assumed ones.

    Raises:
        UnknownConfigurationError: There is no such target.
    """
    profile = _profiles().get(target)
    if profile is None:
        listed = ", ".join(targets())
        raise UnknownConfigurationError(f"no simulator profile for target {target!r}; there is {listed}")
    measured = tuple(_measured(profile, entry) for entry in profile.configurations)
    return measured + tuple(_assumed(profile, method) for method in assumptions().lookup.methods)


def configuration(target: str, method: str, draft_tokens: int) -> Configuration:
    """The configuration of a target with a method and N.

    Raises:
        UnknownConfigurationError: There is no such target, or not with this method and N.
    """
    known = configurations(target)
    for found in known:
        if (found.method, found.draft_tokens) == (method, draft_tokens):
            return found
    offered: dict[str, list[str]] = {}
    for other in known:
        offered.setdefault(other.method, []).append(str(other.draft_tokens))
    listed = "; ".join(f"{name} with N = {', '.join(numbers)}" for name, numbers in offered.items())
    raise UnknownConfigurationError(
        f"no simulator profile for {target} with method {method!r} and N = {draft_tokens}; there is {listed}"
    )


def lengths(workload: str) -> Lengths:
    """Assumed lengths of requests of a workload; a data set has those of its workload.

    Raises:
        UnknownConfigurationError: There is no such workload.
    """
    assumed = assumptions().lengths
    found = assumed.workloads.get(DATA_SETS.get(workload, workload))
    if found is None:
        listed = ", ".join(assumed.workloads)
        raise UnknownConfigurationError(f"no lengths for workload {workload!r}; there is {listed}")
    return Lengths(found.output, found.prompt, assumed.variation)


def _measured(profile: Profile, entry: Entry) -> Configuration:
    """A configuration of the article."""
    published = {name: cell.accepted_by_position for name, cell in entry.cells.items()}
    survival = dict(published)
    origins = dict(profile.origins)
    for workload in ("math", "code"):
        names = [name for name, of in DATA_SETS.items() if of == workload]
        survival[workload] = _mean([published[name] for name in names])
        origins[f"survival.{workload}"] = f"derived: mean of {' and '.join(names)} by position"
    if not entry.draft_tokens:
        return _configuration(profile, entry, survival | dict.fromkeys(WORKLOADS, ()), origins)
    base = _mean([survival["math"], survival["code"]])
    family = next(family for family in _transfer().families if entry.method in family.methods)
    for workload, factors in family.factors.items():
        survival[workload] = _transferred(base, factors)
        origins[f"survival.{workload}"] = family.origins[workload]
    return _configuration(profile, entry, survival, origins)


def _assumed(profile: Profile, method: str) -> Configuration:
    """A configuration that drafts by looking text up: no draft model, acceptance assumed."""
    lookup = assumptions().lookup
    entry = Entry(
        method=method,
        draft_tokens=lookup.draft_tokens,
        draft=None,
        verify_scale=1.0,
        draft_cost=0.0,
        cells={},
    )
    of_the_target = {name: origin for name, origin in profile.origins.items() if name.startswith("curve.")}
    return _configuration(
        profile, entry, _transfer().lookup, of_the_target | dict.fromkeys(_OF_LOOKUP, lookup.origin)
    )


_OF_LOOKUP: Final = ("survival", "draft_cost", "verify_scale")
_OF_ASSUMPTIONS: Final = (
    "draft_floor", "prefill_price", "prefill_surcharge", "request_spread", "kv_tokens",
)  # fmt: skip


def _configuration(
    profile: Profile,
    entry: Entry,
    survival: Mapping[str, tuple[float, ...]],
    origins: Mapping[str, str],
) -> Configuration:
    assumed = assumptions()
    curve = Curve(**profile.curve.model_dump())
    surcharge = assumed.prefill_surcharge.value if entry.draft_tokens else 0.0
    return Configuration(
        target=profile.target,
        method=entry.method,
        draft_tokens=entry.draft_tokens,
        draft=entry.draft,
        hardware=profile.hardware,
        curve=curve,
        verify_scale=entry.verify_scale,
        draft_cost=entry.draft_cost,
        draft_floor=assumed.draft_floor.value,
        prefill_seconds=curve.marginal * assumed.prefill_price.value * (1.0 + surcharge),
        request_spread=assumed.request_spread.value,
        kv_tokens=int(assumed.kv_tokens.value),
        survival=survival,
        cells={
            name: Cell(cell.tokens_per_second, cell.speedup, cell.mean_accepted_length, cell.step_scale)
            for name, cell in entry.cells.items()
        },
        origins={**origins, **{name: getattr(assumed, name).origin for name in _OF_ASSUMPTIONS}},
    )


def _mean(curves: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(values) / len(values) for values in zip(*curves, strict=True))


def _transferred(base: tuple[float, ...], factors: tuple[float, ...]) -> tuple[float, ...]:
    """Scale the conditional acceptance at each position; the last factor holds for all that follow."""
    curve: list[float] = []
    before = product = 1.0
    for position, value in enumerate(base):
        factor = factors[min(position, len(factors) - 1)]
        product *= min(1.0, value / before * factor) if before else 0.0
        before = value
        curve.append(product)
    return tuple(curve)
