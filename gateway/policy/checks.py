"""Mistakes that only show when sections are seen together: in the fleet, in the policy, across both."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.core.fleet import FIRST_DRAFT_TOKENS
from gateway.core.observe import fingerprint
from gateway.core.policy import FROZEN, STATIC, Match, Selector
from gateway.core.selectors import selects
from gateway.policy.problems import suggest
from gateway.policy.stand_ins import missing_library, stand_in_problems
from gateway.policy.variables import NAME, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.core.fleet import Backend
    from gateway.core.policy import Learning, Policy, Route
    from gateway.policy.coverage import Requests
    from gateway.policy.problems import Path, Problem
    from gateway.policy.schema import BackendSection, RouteSection
    from gateway.policy.service import ClassSection
    from gateway.policy.source import Source
    from gateway.policy.validate import Checked

_GLOB: Final = re.compile(r"[*?\[]")
NAMED_AT_MOST: Final = 8
"""Routes in one sentence."""

_ANY: Final = Selector()
"""Last in a list it stands for backends to come, so it may name none that is new."""


def fleet_problems(
    backends: Sequence[Checked[BackendSection]], source: Source, env: Mapping[str, str] | None
) -> Iterator[Problem]:
    """Mistakes within the fleet file.

    Args:
        backends: Its sections.
        source: Where the positions are.
        env: The environment that holds API keys; None to leave the keys alone.
    """
    yield from _twice("backend", backends, source, "backends")
    yield from missing_library(backends, source, env)
    urls: dict[str, str] = {}
    for index, checked in enumerate(backends):
        here, section = ("backends", index), checked.value
        if section is None:
            continue
        if section.stands_in:
            yield from stand_in_problems(section, here, backends, source)
        elif not checked.damaged & {"method", "draft_tokens"}:
            yield from _draft_problems(section, source, here)
        alone = section.stands_in or "url" in checked.damaged
        other = section.name if alone else urls.setdefault(section.url, section.name)
        if other != section.name:
            wrong = f"backend {other!r} has the same address, so one server's load is counted as two"
            yield source.problem((*here, "url"), wrong, "keep one of them", warning=True)
        if env is not None and section.api_key_env and not env.get(section.api_key_env):
            wrong = f"the environment {named(section.api_key_env)} is not set"
            right = "set it before the start, or remove api_key_env"
            if not NAME.fullmatch(section.api_key_env):
                wrong = "this cannot be the name of an environment variable"
                right = "name the variable that holds the key, not the key itself"
            yield source.problem((*here, "api_key_env"), wrong, right)


def _draft_problems(section: BackendSection, source: Source, here: Path) -> Iterator[Problem]:
    if section.method != "none":
        if section.draft_tokens == 0:
            wrong = f"the method {section.method} needs its number of draft tokens"
            first = FIRST_DRAFT_TOKENS[section.method]
            right = (
                f"add 'draft_tokens: {first}' to begin with, or the number a running server was started with"
            )
            yield source.problem((*here, "method"), wrong, right)
        return
    right = "remove it, or name the method"
    if section.draft_tokens:
        yield source.problem((*here, "draft_tokens"), "a backend without a method has no draft tokens", right)
    if section.draft:
        yield source.problem((*here, "draft"), "a backend without a method has no draft", right)


def class_problems(sections: Sequence[Checked[ClassSection]], source: Source) -> Iterator[Problem]:
    """Service classes that share a name."""
    yield from _twice("class", sections, source, "classes")


def idle_class_problems(
    sections: Sequence[Checked[ClassSection]], learning: object, source: Source
) -> Iterator[Problem]:
    """Limits that nothing is done about, as the routes decide alone."""
    mode = learning.get("mode", STATIC) if isinstance(learning, dict) else STATIC
    limited = [one.value for one in sections if one.value and (one.value.ttft or one.value.tpot)]
    if limited and mode == STATIC:
        wrong = f"nothing is done about the limits of {limited[0].name!r}: the routes decide alone"
        right = "add learning: {mode: auto}, or shadow to watch first"
        yield source.problem(("classes",), wrong, right, key=True, warning=True)


def _twice(
    noun: str,
    sections: Sequence[Checked[BackendSection] | Checked[RouteSection] | Checked[ClassSection]],
    source: Source,
    key: str,
) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, checked in enumerate(sections):
        if checked.value is None or "name" in checked.damaged:
            continue
        name = checked.value.name
        if (other := first.setdefault(name, index)) != index:
            line, column = source.values[(key, other, "name")]
            wrong = f"there already is a {noun} {name!r}, at line {line}, column {column}"
            yield source.problem((key, index, "name"), wrong, "give each its own name")


@dataclass(frozen=True, slots=True)
class Placed:
    """A compiled route and the section it came from.

    Attributes:
        route: The route; parts that were wrong in the file have stand-ins.
        index: Its position in the file.
        sound: The match is the one in the file.
    """

    route: Route
    index: int
    sound: bool


def policy_problems(
    sections: Sequence[Checked[RouteSection]], routes: Sequence[Placed], requests: Requests, source: Source
) -> Iterator[Problem]:
    """Mistakes within the policy file.

    Args:
        sections: Its routes.
        routes: The same, compiled.
        requests: What is told apart by the matches of the routes.
        source: Where the positions are.
    """
    yield from _twice("route", sections, source, "routes")
    sound = [placed for placed in routes if placed.sound]
    matches = [placed.route.match for placed in sound]
    for position, placed in enumerate(sound):
        path = ("routes", placed.index, "name")
        earlier = matches[:position]
        if takers := [sound[at] for at in requests.takers(placed.route.match, earlier)]:
            wrong = f"it is never reached: {_take(takers, source)} all its requests"
            first = takers[0].route.name
            right = f"move it above {first!r}, or narrow the match of {'one' if takers[1:] else 'that'}"
            yield source.problem(path, wrong, right)
        elif takers := [sound[at] for at in requests.takers(placed.route.match, earlier, named=True)]:
            wrong = f"only requests without a model reach it: {_take(takers, source)} all others"
            yield source.problem(path, wrong, "remove it if that is not meant", warning=True)
    if sections and len(sound) == len(sections) and requests.reaches(Match(), matches):
        wrong = "the routes do not take every request; one that fits none is refused"
        right = "add a last route without match: {name: default, prefer: [any]}"
        yield source.problem(("routes",), wrong, right, key=True, warning=True)


def _take(takers: Sequence[Placed], source: Source) -> str:
    """Says which routes take something: subject and verb."""
    lines = [source.values[("routes", one.index)][0] for one in takers]
    if len(takers) == 1:
        return f"route {takers[0].route.name!r} at line {lines[0]} takes"
    names = [f"{one.route.name!r} (line {line})" for one, line in zip(takers, lines, strict=True)]
    if more := len(names[NAMED_AT_MOST:]):
        names[NAMED_AT_MOST:] = [f"{more} more"]
    return f"routes {', '.join(names[:-1])} and {names[-1]} together take"


def name_problems(routes: Sequence[Placed], names: frozenset[str], source: Source) -> Iterator[Problem]:
    """Preferences that name a backend which the fleet does not have."""
    for placed in routes:
        for position, selector in enumerate(placed.route.prefer):
            name = selector.name
            if name is not None and name not in names and not _GLOB.search(name):
                path: Path = ("routes", placed.index, "prefer", position)
                path = (*path, "name") if (*path, "name") in source.values else path
                yield source.problem(path, f"there is no backend {name!r}", suggest(name, names, "backends"))


def fit_problems(
    policy: Policy, routes: Sequence[Placed], backends: Sequence[Backend], requests: Requests, source: Source
) -> Iterator[Problem]:
    """Where a policy and a fleet, each right by itself, do not fit together."""
    targets = {backend.target for backend in backends}
    for alias, target in policy.aliases.items():
        if target not in targets:
            right = suggest(target, targets, "targets")
            yield source.problem(("models", alias), f"no backend serves {target!r}", right)
    known = policy.aliases.keys() | targets
    for placed in routes:
        for name in sorted(placed.route.match.models - known):
            path: Path = ("routes", placed.index, "match", "model")
            listed = source.data["routes"][placed.index]["match"]["model"]
            path = (*path, listed.index(name)) if isinstance(listed, list) else path
            yield source.problem(path, f"no model is called {name!r}", suggest(name, known, "models"))
        yield from _idle_preferences(placed, backends, source)
    yield from _unserved(policy, routes, backends, requests, source)


def known_problems(learning: Learning, backends: Sequence[Backend], source: Source) -> Iterator[Problem]:
    """Where a file of what was learnt is of other servers than those of the fleet."""
    path, again = ("learning", "file"), "make it anew with specroute learned"
    for backend in backends:
        known = learning.known.get(backend.name)
        if known is None and learning.mode == FROZEN:
            wrong = f"it does not know {backend.name!r}, of which nothing will be learnt either"
            yield source.problem(path, wrong, again, warning=True)
        elif known is not None and known.fingerprint not in {"", own := fingerprint(backend)}:
            wrong = (
                f"what it knows of {backend.name!r} was learnt of {known.fingerprint!r}, and that is {own!r}"
            )
            yield source.problem(path, wrong, again, warning=True)
    if gone := sorted(learning.known.keys() - {backend.name for backend in backends}):
        wrong = f"it knows {_some(gone)}, which the fleet does not have"
        yield source.problem(path, wrong, again, warning=True)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(map(repr, names[:NAMED_AT_MOST])) + more


def _idle_preferences(placed: Placed, backends: Sequence[Backend], source: Source) -> Iterator[Problem]:
    taken: dict[str, float] = {}
    names = {backend.name for backend in backends}
    for position, selector in enumerate(placed.route.prefer):
        path = ("routes", placed.index, "prefer", position)
        fits = {backend.name for backend in backends if selects(selector, backend)}
        most = math.inf if selector.max_in_flight is None else selector.max_in_flight
        if not fits and (selector.name is None or selector.name in names or _GLOB.search(selector.name)):
            right = "remove it, or add such a backend to the fleet"
            yield source.problem(path, "no backend fits this selector", right, warning=True)
        elif fits and all(taken.get(name, 0.0) >= most for name in fits) and selector != _ANY:
            right = "move it further up, or remove it"
            yield source.problem(path, "every backend it names is named earlier", right, warning=True)
        taken |= {name: max(most, taken.get(name, 0.0)) for name in fits}


def _unserved(
    policy: Policy, routes: Sequence[Placed], backends: Sequence[Backend], requests: Requests, source: Source
) -> Iterator[Problem]:
    """Routes whose preferences hold no server, or no baseline, of a target that they take."""
    known = {backend.target for backend in backends}
    unmeasured: set[tuple[Path, str]] = set()
    for position, placed in enumerate(routes):
        route = placed.route
        earlier = [one.route.match for one in routes[:position]]
        targets = {
            policy.aliases.get(model, model)
            for model in route.match.models or policy.aliases.keys() | known
            if requests.reaches(replace(route.match, models=frozenset({model})), earlier)
        }
        serving = {
            backend.target for backend in backends if any(selects(one, backend) for one in route.prefer)
        }
        path = ("routes", placed.index, "prefer")
        if missing := sorted((targets & known) - serving):
            wrong = f"none of these backends serves {', '.join(missing)}, which this route takes"
            right = "add one that does, or narrow the match with model"
            yield source.problem(path, wrong, right, key=True, warning=bool(targets & serving))
        if route.baseline_share:
            own = ("routes", placed.index, "baseline_share")
            at = own if own in source.values else ("defaults", "baseline_share")
            for target in sorted(targets & serving):
                if (at, target) in unmeasured or any(b.target == target and b.is_baseline for b in backends):
                    continue
                unmeasured.add((at, target))
                wrong = f"{target} has no backend without speculation, so its speed-up cannot be measured"
                right = "add a backend with method none, or set the share to 0"
                yield source.problem(at, wrong, right, warning=True)
