"""What ``specroute simulate`` is to simulate, from its options: who sends requests, and for how long."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.fleetsim.traffic import Source, Traced
    from gateway.core.classes import ServiceClass
    from gateway.core.policy import Policy

SECONDS: Final = 180.0
WARM_UP: Final = 60.0
LABEL_ERRORS: Final = 0.0
EACH: Final = 16
"""Requests open for each server, where nothing says how many."""


class Asked(NamedTuple):
    """Options about traffic as they were given; None where one was left out."""

    mix: Sequence[str] | None
    every: float | None
    clients: str | None
    rate: str | None
    source: Sequence[str] | None
    label_errors: float | None


def sources(asked: Asked, servers: int, *, traced: bool) -> list[Source]:
    """Who sends requests.

    Args:
        asked: The options.
        servers: Of the fleet, for the load where none was asked for.
        traced: Whether there is a trace, which needs no sources beside it.

    Raises:
        backends.fleetsim.scenario.ScenarioError: An option is wrong, or would change nothing.
    """
    from backends.fleetsim import scenario
    from backends.fleetsim.traffic import Source

    made = [scenario.source(text) for text in asked.source or ()]
    if asked.clients is not None and asked.rate is not None:
        raise scenario.ScenarioError("give either --clients or --rate; both kinds together are two --source")
    if asked.clients is None and asked.rate is None and (made or traced):
        others = {"--mix": asked.mix, "--every": asked.every, "--label-errors": asked.label_errors}
        unused = [name for name, value in others.items() if value is not None]
        if unused:
            raise scenario.ScenarioError(
                f"{', '.join(unused)}: changes nothing without --clients or --rate; "
                "a --source has mix and label_errors of its own"
            )
        return made
    each = 60.0 if asked.every is None else scenario.within(asked.every, "--every", 0.1, scenario.LONGEST)
    clients = None
    if asked.rate is None:
        text = asked.clients or str(EACH * servers)
        clients = scenario.steps(text, "--clients", most=scenario.MOST_CLIENTS)
    made.append(
        Source(
            scenario.mix(asked.mix or ["chat70"], each),
            clients=clients,
            rate=None
            if asked.rate is None
            else scenario.steps(asked.rate, "--rate", most=scenario.MOST_RATE),
            label_errors=scenario.within(asked.label_errors or LABEL_ERRORS, "--label-errors", 0.0, 1.0),
        )
    )
    return made


def limited(given: Sequence[Source], policy: Policy | None) -> list[Source]:
    """The same, each with the limits of the policy's class of its name where it has none of its own."""
    from backends.fleetsim.traffic import Limits

    known = {one.name: one.limits for one in policy.classes if one.limits.any} if policy is not None else {}
    return [
        one
        if one.limits is not None or (limits := known.get(one.name)) is None
        else replace(one, limits=Limits(limits.ttft or inf, limits.tpot or inf))
        for one in given
    ]


def service_of(source: Source, policy: Policy) -> ServiceClass:
    """The policy's class of the source's name, or else one with the source's limits."""
    from gateway.core.classes import ServiceClass
    from gateway.core.plan import Limits

    known = next((one for one in policy.classes if one.name == source.name), None)
    if known is not None or source.limits is None:
        return known or ServiceClass(source.name)
    given = (source.limits.ttft, source.limits.tpot)
    return ServiceClass(source.name, limits=Limits(*(one if isfinite(one) else None for one in given)))


def times(warm_up: float | None, seconds: float | None, trace: Sequence[Traced]) -> tuple[float, float]:
    """Virtual seconds before the measured ones, and these: where left out, a trace is measured whole.

    Raises:
        backends.fleetsim.scenario.ScenarioError: They are no times, or no request of the trace is in them.
    """
    from backends.fleetsim import scenario

    last = max((one.at for one in trace), default=0.0)
    before = warm_up if warm_up is not None else 0.0 if trace else WARM_UP
    scenario.within(before, "--warm-up", 0.0, scenario.LONGEST)
    if seconds is None:
        seconds = max(1.0, last - before + 1.0) if trace else SECONDS
    scenario.within(seconds, "--seconds", 1.0, scenario.LONGEST)
    if trace and not unmeasured(trace, before, seconds) < len(trace):
        raise scenario.ScenarioError(
            f"no request of the trace is in the measured seconds, {before:g} to {before + seconds:g}; "
            f"it goes to {last:g}: leave out --warm-up and --seconds to measure all of it"
        )
    return before, seconds


def unmeasured(trace: Sequence[Traced], warm_up: float, seconds: float) -> int:
    """Requests of a trace that are outside of the measured seconds."""
    return sum(not warm_up <= one.at < warm_up + seconds for one in trace)
