"""The texts of both files to what is in force, or to everything that is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from gateway.core.examples import LearntLabels, UnusableExamplesError
from gateway.core.features import WORKLOADS
from gateway.policy import compile as build
from gateway.policy.beside import UnreadableError, read_beside
from gateway.policy.checks import (
    Placed,
    class_problems,
    fit_problems,
    fleet_problems,
    idle_class_problems,
    known_problems,
    name_problems,
    policy_problems,
)
from gateway.policy.coverage import Requests
from gateway.policy.grounds import ground_problems
from gateway.policy.learned import UnusableLearnedError
from gateway.policy.learned import parse as parse_learned
from gateway.policy.schema import BackendSection, FleetFile, PolicyFile, RouteSection
from gateway.policy.service import ClassSection
from gateway.policy.source import read
from gateway.policy.stand_ins import unasked
from gateway.policy.validate import check, check_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from gateway.core.policy import Policy
    from gateway.core.predict import ServerModel
    from gateway.policy.compile import Fleet
    from gateway.policy.problems import Problem
    from gateway.policy.source import Source

Value = TypeVar("Value")


class Beside(NamedTuple):
    """A file that a policy names, as it was found.

    Attributes:
        name: Its path from the policy's folder.
        mark: What tells its content from another, or why it could not be read.
    """

    name: str
    mark: str

    @classmethod
    def find(cls, folder: Path, name: str) -> tuple[Beside, str | None]:
        """Reads the file; its text is None where it cannot be read."""
        try:
            text = read_beside(folder, name)
        except UnreadableError as error:
            return cls(name, str(error)), None
        return cls(name, build.revision(text)), text


def policy_revision(text: str, beside: Iterable[Beside]) -> str:
    """Short content hash of a policy: of its file, and of the files it names."""
    return build.revision(text + "".join(one.mark for one in beside))


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Value]):
    """Files that can be used.

    Attributes:
        value: What they say.
        warnings: What works but is probably not meant, sorted by position.
        beside: The files that the policy names, as they were read.
    """

    value: Value
    warnings: tuple[Problem, ...]
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """Files that cannot be used.

    Attributes:
        problems: Every mistake found, sorted by position; never empty.
        warnings: What works but is probably not meant, sorted by position.
        beside: The files that the policy names, as they were read or could not be.
    """

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """What a gateway routes by."""

    fleet: Fleet
    policy: Policy


def load(
    fleet_text: str,
    policy_text: str,
    *,
    fleet_file: str = "fleet.yaml",
    policy_file: str = "policy.yaml",
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Loaded[Config] | Invalid:
    """Read both files and check each by itself and against the other.

    Args:
        fleet_text: Content of the fleet file.
        policy_text: Content of the policy file.
        fleet_file: Its name for messages.
        policy_file: Its name for messages.
        folder: Of the policy file, to read the file of examples it names; None to read no file.
        env: The environment that holds API keys; None to check without the keys.
    """
    fleet, names, problems = _read_fleet(fleet_text, fleet_file, env)
    policy, more, beside = _read_policy(policy_text, policy_file, fleet, names, folder)
    config = None if fleet is None or policy is None else Config(fleet, policy)
    if fleet is not None and policy is not None:
        problems += ground_problems(policy_text, policy_file, fleet, folder)
    return _result(config, [*problems, *more], beside)


def load_fleet(
    text: str, file: str = "fleet.yaml", env: Mapping[str, str] | None = None
) -> Loaded[Fleet] | Invalid:
    """Read a fleet file by itself; arguments as of :func:`load`."""
    fleet, _, problems = _read_fleet(text, file, env)
    return _result(fleet, problems)


def load_policy(
    text: str, file: str = "policy.yaml", fleet: Fleet | None = None, *, folder: Path | None = None
) -> Loaded[Policy] | Invalid:
    """Read a policy file and check it against a fleet, or by itself if there is none.

    Other arguments are as of :func:`load`.
    """
    names = None if fleet is None else frozenset(backend.name for backend in fleet.backends)
    policy, problems, beside = _read_policy(text, file, fleet, names, folder)
    return _result(policy, problems, beside)


def _result(
    value: Value | None, problems: Iterable[Problem], beside: tuple[Beside, ...] = ()
) -> Loaded[Value] | Invalid:
    ordered = sorted(problems)
    warnings = tuple(one for one in ordered if one.warning)
    if value is None:
        return Invalid(tuple(one for one in ordered if not one.warning), warnings, beside)
    return Loaded(value, warnings, beside)


def _wrong(problems: Iterable[Problem]) -> bool:
    return any(not one.warning for one in problems)


def _read_fleet(
    text: str, file: str, env: Mapping[str, str] | None
) -> tuple[Fleet | None, frozenset[str] | None, list[Problem]]:
    """The fleet if it is right, the names it declares as far as they can be read, and the problems."""
    source, problems = read(text, file)
    if source is None:
        return None, None, problems
    data = dict(source.data)
    sections, more = check_list(BackendSection, data, "backends", source)
    problems += [*more, *check(FleetFile, data, source).problems, *fleet_problems(sections, source, env)]
    declared = [one.value for one in sections if one.value is not None]
    servers = frozenset(one.name for one in declared if not one.stands_in)
    names = None if len(declared) < len(sections) or not sections else servers
    if _wrong(problems):
        return None, names, problems
    found = [build.backend(section, env or {}) for section in declared]
    own = tuple(one for one in found if not one.stands_in)
    stand_ins = tuple(one for one in found if one.stands_in)
    return build.Fleet(own, build.revision(text), stand_ins), names, problems


def _read_policy(
    text: str, name: str, fleet: Fleet | None, names: frozenset[str] | None, folder: Path | None
) -> tuple[Policy | None, list[Problem], tuple[Beside, ...]]:
    """The policy if it is right, the problems, and its files; compared with the fleet if there is one."""
    source, problems = read(text, name)
    if source is None:
        return None, problems, ()
    data = dict(source.data)
    examples, unread, beside = _examples(data, source, folder)
    known, unknown, more_beside = _learned(data, source, folder)
    problems += [*unread, *unknown]
    beside += more_beside
    learnt = _used(data) if unread else examples.names if examples else ()
    labels = _labels(data).union(learnt)
    sections, more = check_list(RouteSection, data, "routes", source, labels)
    classes, of_classes = check_list(ClassSection, data, "classes", source)
    problems += [*of_classes, *class_problems(classes, source)]
    problems += idle_class_problems(classes, data.get("learning"), source)
    top = check(PolicyFile, data, source, labels=labels)
    file = top.value
    if file is None:
        raise AssertionError("of keys with values something can always be used")
    routes = [
        Placed(build.route(one.value, file.defaults), index, "match" not in one.damaged)
        for index, one in enumerate(sections)
        if one.value is not None
    ]
    requests = Requests(
        [placed.route.match for placed in routes],
        models=None if fleet is None or "models" in top.damaged else _models(file, fleet),
        labels=None if unread else {*WORKLOADS, *labels},
    )
    problems += [*more, *top.problems, *policy_problems(sections, routes, requests, source)]
    if names is not None:
        problems += name_problems(routes, names, source)
    policy = build.policy(
        file,
        (placed.route for placed in routes),
        (one.value for one in classes if one.value is not None),
        policy_revision(text, beside),
        examples,
        known,
    )
    intact = not top.damaged and not any(one.damaged or one.value is None for one in sections)
    if fleet is not None and intact and sections:
        problems += fit_problems(policy, routes, fleet.backends, requests, source)
        problems += unasked(fleet.stand_ins, policy, source)
    if fleet is not None and not unknown:
        problems += known_problems(policy.learning, fleet.backends, source)
    return None if _wrong(problems) else policy, problems, beside


def _models(file: PolicyFile, fleet: Fleet) -> set[str]:
    """All names by which clients may ask for a model."""
    return {*file.models, *(backend.target for backend in fleet.backends)}


def _labels(data: Mapping[str, Any]) -> frozenset[str]:
    """The labels that the rules of a policy file give, as far as they can be read."""
    classify = data.get("classify")
    rules = classify.get("rules") if isinstance(classify, dict) else None
    given = (rule.get("label") for rule in rules if isinstance(rule, dict)) if isinstance(rules, list) else ()
    return frozenset(label for label in given if isinstance(label, str))


def _used(data: Mapping[str, Any]) -> Iterator[str]:
    """The labels that a policy file uses; all may be right where those learnt from examples are not known."""
    routes, classify = data.get("routes"), data.get("classify")
    if isinstance(classify, dict) and isinstance(classify.get("default"), str):
        yield classify["default"]
    for route in routes if isinstance(routes, list) else ():
        match = route.get("match") if isinstance(route, dict) else None
        given = match.get("workload") if isinstance(match, dict) else None
        yield from (one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str))


def _examples(
    data: Mapping[str, Any], source: Source, folder: Path | None
) -> tuple[LearntLabels | None, list[Problem], tuple[Beside, ...]]:
    """The labels learnt from examples that a policy file names, or why they are not there, and their file."""
    classify = data.get("classify")
    named = classify.get("examples") if isinstance(classify, dict) else None
    if not isinstance(named, str):
        return None, [], ()
    path = ("classify", "examples")
    if folder is None:
        wrong = f"{named!r} was not read, so labels learnt from examples are unchecked"
        right = "check the file where it lies: specroute check --policy FILE"
        return None, [source.problem(path, wrong, right, warning=True)], ()
    beside, text = Beside.find(folder, named)
    why = beside.mark
    if text is not None:
        try:
            return LearntLabels.from_json(text), [], (beside,)
        except UnusableExamplesError as error:
            why = str(error)
    wrong = f"{named!r} cannot be used: {why}"
    right = "make it beside the policy: specroute classify EXAMPLES.jsonl --train FILE"
    return None, [source.problem(path, wrong, right)], (beside,)


def _learned(
    data: Mapping[str, Any], source: Source, folder: Path | None
) -> tuple[Mapping[str, ServerModel], list[Problem], tuple[Beside, ...]]:
    """What a file that the policy names knows of backends, or why it is not there, and that file."""
    learning = data.get("learning")
    named = learning.get("file") if isinstance(learning, dict) else None
    if not isinstance(named, str):
        return {}, [], ()
    path = ("learning", "file")
    if folder is None:
        wrong = f"{named!r} was not read, so what was learnt is unchecked"
        right = "check the file where it lies: specroute check --policy FILE"
        return {}, [source.problem(path, wrong, right, warning=True)], ()
    beside, text = Beside.find(folder, named)
    why = beside.mark
    if text is not None:
        try:
            return parse_learned(text), [], (beside,)
        except UnusableLearnedError as error:
            why = str(error)
    wrong = f"{named!r} cannot be used: {why}"
    right = "make it beside the policy: specroute learned > FILE"
    return {}, [source.problem(path, wrong, right)], (beside,)
