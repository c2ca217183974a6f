"""Scenarios in words: mixes, numbers that change, sources of requests, traces, and files of events."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from backends.fleetsim.catalogue import engine
from backends.fleetsim.faults import Event
from backends.fleetsim.traffic import MIXES, Limits, Mix, Source, Steps, Traced
from backends.sim.profiles import UnknownConfigurationError
from gateway.core.features import WORKLOADS
from gateway.policy.problems import Problem, suggest
from gateway.policy.source import read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.fleetsim.model import Model
    from gateway.policy.source import Source as Read


class ScenarioError(ValueError):
    """What was asked for makes no scenario; the message says what would."""


def number(text: str, name: str) -> float:
    """A number that is not negative.

    Raises:
        ScenarioError: It is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise ScenarioError(f"{name} {text!r}: give a number that is not negative")
    return value


LONGEST: Final = 604_800.0
"""Virtual seconds at most of anything: a week."""

MOST_CLIENTS: Final = 100_000.0
MOST_RATE: Final = 10_000.0
MOST_TURNS: Final = 10_000.0
"""Beyond these this process would be what is measured."""

_LEAST_LIMIT: Final = 1e-6
"""Seconds; nothing keeps a limit of 0."""

_LEAST_PERIOD: Final = 1.0


def within(value: float, name: str, least: float, most: float) -> float:
    """A number in a range, both ends included.

    Raises:
        ScenarioError: It is outside, or none.
    """
    if not least <= value <= most:
        raise ScenarioError(f"{name} {value:g}: give a number from {least:g} to {most:,.15g}")
    return value


def shares(text: str) -> Mapping[str, float]:
    """Shares of workloads: the name of a mix, a workload, or ``math=2,code=1``.

    Raises:
        ScenarioError: A name is not known, or a share is no number.
    """
    if text in MIXES:
        return MIXES[text]
    found = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        if name not in WORKLOADS:
            raise ScenarioError(f"mix {text!r}: {suggest(name, (*MIXES, *WORKLOADS), 'mixes and workloads')}")
        found[name] = number(share or "1", f"mix {text!r}: share of {name}")
    if not sum(found.values()):
        raise ScenarioError(f"mix {text!r}: one share at least must be above 0")
    return found


def mix(texts: Sequence[str], every: float) -> Mix:
    """One mix, or several that take turns of ``every`` seconds.

    Raises:
        ScenarioError: As :func:`shares`.
    """
    length = every if len(texts) > 1 else math.inf
    return Mix(tuple((length, shares(text)) for text in texts))


def steps(text: str, name: str, *, most: float = math.inf) -> Steps:
    """A number, or one that changes: ``8``, ``0:8,60:96``, with ``/120`` at the end to start anew.

    Raises:
        ScenarioError: It is neither, or above ``most``.
    """
    values, _, period = text.partition("/")
    found = []
    for part in values.split(","):
        at, colon, value = part.rpartition(":")
        wanted = within(number(value, name), name, 0.0, most)
        found.append((number(at, name) if colon else 0.0, wanted))
    times = [at for at, _ in found]
    if times != sorted(set(times)) or times[0]:
        raise ScenarioError(f"{name} {text!r}: times begin with 0 and ascend, as in 0:8,60:96")
    if not period:
        return Steps(tuple(found))
    shortest = max(_LEAST_PERIOD, times[-1])
    return Steps(tuple(found), within(number(period, name), f"{name}: period", shortest, LONGEST))


_KEYS: Final = ("name", "mix", "clients", "rate", "ttft", "tpot", "turns", "refused", "label_errors")


def source(text: str) -> Source:
    """Clients in words, such as ``name=chat;mix=chat70;rate=4;ttft=1;tpot=0.03``.

    Raises:
        ScenarioError: A key is not known, or what it says is wrong.
    """
    given = {}
    for part in text.split(";"):
        key, _, value = part.strip().partition("=")
        if key not in _KEYS:
            raise ScenarioError(f"source {text!r}: {suggest(key, _KEYS, 'keys')}")
        given[key] = value
    if ("clients" in given) == ("rate" in given):
        raise ScenarioError(f"source {text!r}: give either clients or rate")
    limits = None
    if "ttft" in given or "tpot" in given:
        limits = Limits(*(_limit(given, key) for key in ("ttft", "tpot")))
    refused = within(number(given.get("refused", "0"), "refused"), "refused", 0.0, 1.0)
    label_errors = within(number(given.get("label_errors", "0"), "label_errors"), "label_errors", 0.0, 1.0)
    return Source(
        mix=mix([given.get("mix", "chat70")], math.inf),
        clients=steps(given["clients"], "clients", most=MOST_CLIENTS) if "clients" in given else None,
        rate=steps(given["rate"], "rate", most=MOST_RATE) if "rate" in given else None,
        name=given.get("name", "default"),
        limits=limits,
        refused_share=dict.fromkeys(WORKLOADS, refused) if refused else {},
        label_errors=label_errors,
        turns=within(number(given.get("turns", "1"), "turns"), "turns", 1.0, MOST_TURNS),
    )


def _limit(given: Mapping[str, str], key: str) -> float:
    return within(number(given[key], key), key, _LEAST_LIMIT, LONGEST) if key in given else math.inf


def trace(text: str, file: str) -> list[Traced]:
    """A recorded trace: a JSON object a line with ``at``, ``workload``, ``prompt_tokens``, ``output_tokens``.

    Raises:
        ScenarioError: A line is not like that; the message says which.
    """
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(_traced(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            raise ScenarioError(
                f'{file}:{at}: write {{"at": seconds, "workload": one of {", ".join(WORKLOADS)}, '
                f'"prompt_tokens": 1 or more, "output_tokens": 1 or more}}'
            ) from None
    if not found:
        raise ScenarioError(f"{file}: there is no request in it")
    return sorted(found, key=lambda one: one.at)


def _traced(given: Any) -> Traced:  # noqa: ANN401 - JSON is anything
    made = Traced(
        float(given["at"]), str(given["workload"]), int(given["prompt_tokens"]), int(given["output_tokens"])
    )
    if (
        made.workload not in WORKLOADS
        or min(made.prompt_tokens, made.output_tokens) < 1
        or not made.at >= 0.0
    ):
        raise ValueError(made)
    return made


def events(text: str, file: str, names: Sequence[str], models: Sequence[Model]) -> list[Event]:
    """Events of a file: ``{at, backend}`` with ``slow``, ``down``, or ``method`` and ``draft_tokens``.

    Args:
        text: Content of the file.
        file: Its name for messages.
        names: Of the backends, in the order of the fleet.
        models: What they run.

    Raises:
        ScenarioError: One problem a line.
    """
    found, problems = read(text, file)
    if found is None or problems:
        raise ScenarioError("\n".join(map(str, problems)))
    listed = found.data.get("events")
    if not isinstance(listed, list):
        example = "events: [{at: 60, backend: NAME, slow: 2}]"
        raise ScenarioError(str(found.problem(("events",), "not a list of events", f"write {example}")))
    made: list[Event] = []
    for at, one in enumerate(listed):
        got = _event(found, at, one, names, models)
        if isinstance(got, Problem):
            problems.append(got)
        else:
            made += got
    if problems:
        raise ScenarioError("\n".join(map(str, problems)))
    return made


_HAPPENS: Final = ("slow", "down", "method")
_EVENT_KEYS: Final = ("at", "backend", *_HAPPENS, "draft_tokens")


def _event(
    found: Read,
    at: int,
    one: Any,  # noqa: ANN401 - YAML is anything
    names: Sequence[str],
    models: Sequence[Model],
) -> list[Event] | Problem:
    if not isinstance(one, dict):
        return found.problem(
            (
                "events",
                at,
            ),
            "not an event",
            "write {at: 60, backend: NAME, slow: 2}",
        )
    wrong = _wrong_key(found, at, one) or _wrong_event(found, at, one, names)
    if wrong is not None:
        return wrong
    time, server = float(one["at"]), list(names).index(one["backend"])
    if "slow" in one:
        return [Event(time, server, "slow", factor=float(one["slow"]))]
    if "down" in one:
        return [Event(time, server, "down"), Event(time + float(one["down"]), server, "up")]
    method, drafts = str(one["method"]), int(one.get("draft_tokens", 0))
    try:
        model = engine(models[server].target, method, drafts)
    except UnknownConfigurationError as error:
        return found.problem(("events", at, "method"), f"{method} with N = {drafts}", str(error))
    return [Event(time, server, "replace", model=model)]


def _wrong_key(found: Read, at: int, one: Mapping[str, Any]) -> Problem | None:
    for key, value in one.items():
        if key not in _EVENT_KEYS:
            return found.problem(
                ("events", at, key), f"no key {key!r}", suggest(key, _EVENT_KEYS, "keys"), key=True
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in {"backend", "method"} and not (is_number and value >= 0):
            return found.problem(("events", at, key), f"{value!r}", "give a number that is not negative")
    return None


def _wrong_event(found: Read, at: int, one: Mapping[str, Any], names: Sequence[str]) -> Problem | None:
    if "at" not in one:
        return found.problem(
            (
                "events",
                at,
            ),
            "no time",
            "give at: seconds from the start",
        )
    name = str(one.get("backend"))
    if name not in names:
        return found.problem(
            (
                "events",
                at,
            ),
            f"no backend {name!r}",
            suggest(name, names, "backends"),
        )
    if sum(key in one for key in _HAPPENS) != 1:
        return found.problem(
            (
                "events",
                at,
            ),
            "not one thing that happens",
            f"give one of {', '.join(_HAPPENS)}",
        )
    if one.get("slow") == 0:
        return found.problem(("events", at, "slow"), "0", "give a factor on all times, 1 for the usual speed")
    return None
