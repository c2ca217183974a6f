"""What tells one policy from another, in words: one sentence a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from re import Pattern
from typing import TYPE_CHECKING, Any, Final

from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.core.classes import ClassMatch, ServiceClass
from gateway.core.examples import LearntLabels
from gateway.core.plan import Limits
from gateway.core.policy import (
    ClassifierSettings,
    Learning,
    Match,
    Policy,
    Resume,
    Route,
    Selector,
    Timeouts,
    Waiting,
    WeightedScorer,
)
from gateway.core.predict import ServerModel
from gateway.policy.conditions import describe, spell_selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_YAML: Final = {
    "classifier": "classify", "scorers": "score", "known": "file", "limits": "", "keys": "key_sha256",
    "headers": "header", "models": "model", "workloads": "workload", "languages": "language",
    "endpoints": "endpoint", "tenants": "tenant",
}  # fmt: skip
"""Names in the file for those of the compiled policy, where they differ; "" where there is no such level."""

_APART: Final = frozenset({"revision", "routes", "aliases", "classes"})
_PARTS: Final = (
    Route, Match, ServiceClass, ClassMatch, Limits, Timeouts, Waiting, Resume, BreakerSettings,
    BudgetSettings, ClassifierSettings, Learning,
)  # fmt: skip
"""What is told apart setting by setting; of anything else the whole is named."""

_MOST: Final = 8
"""Entries of a list that are spelt out."""


def differences(old: Policy, new: Policy) -> tuple[str, ...]:
    """Every setting that differs, defaults included, by its place in the file.

    The text of a file may differ where this says nothing: comments, order of keys, defaults written out.
    """
    classes = [{one.name: one for one in policy.classes} for policy in (old, new)]
    settings = [one.name for one in fields(Policy) if one.name not in _APART]
    return (
        *_named("models", old.aliases, new.aliases),
        *_routes(old.routes, new.routes),
        *_named("classes", *classes),
        *_order("classes", *classes),
        *(line for name in settings for line in _pair(_at("", name), getattr(old, name), getattr(new, name))),
    )


def _at(place: str, name: str) -> str:
    return ".".join(filter(None, (place, _YAML.get(name, name))))


def _named(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Entries that came, went or changed."""
    for name in old:
        if name not in new:
            yield f"{place}.{name}: taken out"
    for name, value in new.items():
        if name not in old:
            yield f"{place}.{name}: new, {_spell(value)}"
        else:
            yield from _pair(f"{place}.{name}", old[name], value)


def _routes(old: Sequence[Route], new: Sequence[Route]) -> Iterator[str]:
    before, after = ({route.name: route for route in routes} for routes in (old, new))
    yield from (f"routes.{name}: taken out" for name in before if name not in after)
    for place, (name, route) in enumerate(after.items(), 1):
        if name in before:
            yield from _pair(f"routes.{name}", before[name], route)
        else:
            uses = f"prefers {_spell(route.prefer)}, score {_spell(route.scorers)}"
            uses += ", asks for stand-ins" if route.stand_ins else ""
            yield f"routes.{name}: new, number {place} of {len(after)}: takes {describe(route.match)}, {uses}"
    yield from _order("routes", before, after)


def _order(place: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    """Whether those that both have come in another order, where the first that fits takes a request."""
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield f"{place}: tried in another order, {', '.join(new)}"


def _pair(place: str, old: object, new: object) -> Iterator[str]:
    """What differs between two values of one setting."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _named(place, old, new)
    elif type(old) is type(new) and isinstance(new, _PARTS):
        for name in (one.name for one in fields(new)):
            yield from _pair(_at(place, name), getattr(old, name), getattr(new, name))
    elif (before := _spell(old)) == (after := _spell(new)):
        yield f"{place}: its content changed"
    else:
        yield f"{place}: {before} → {after}"


@singledispatch
def _spell(value: object) -> str:
    """A value as a reader of the file would write it."""
    if value is None or value == "":
        return "none"
    if not is_dataclass(value):
        return str(value)
    given = ((_YAML.get(one.name, one.name), getattr(value, one.name), one.default) for one in fields(value))
    spelt = (
        f"{name} {_spell(one)}".strip()
        for name, one, usual in given
        if (one or one is False) and one != usual
    )
    return ", ".join(filter(None, spelt))


_spell.register(bool)(lambda value: str(value).lower())
_spell.register(float)(lambda value: f"{value:g}")
_spell.register(Selector)(spell_selector)
_spell.register(WeightedScorer)(lambda value: f"{value.name} {value.weight:g}")
_spell.register(Match)(describe)
_spell.register(ServerModel)(lambda _: "as learnt")
_spell.register(LearntLabels)(lambda value: f"labels {_listed(value.names, ', ')}")
_spell.register(Pattern)(lambda value: f"/{_text(value.pattern)}/")
_spell.register(tuple)(lambda value: _listed(list(map(_spell, value)), ", then "))


@_spell.register
def _(value: Mapping) -> str:  # type: ignore[type-arg]
    return _listed([f"{_text(name)}: {_spell(one)}" for name, one in value.items()], ", ")


@_spell.register
def _(value: frozenset) -> str:  # type: ignore[type-arg]
    keys = sum(isinstance(one, bytes) for one in value)  # digests, which nobody can read
    return f"{keys} keys" if keys else _listed(sorted(value), ", ")


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _listed(names: Sequence[str], comma: str) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{comma.join(names[:_MOST])}{more}" or "none"
