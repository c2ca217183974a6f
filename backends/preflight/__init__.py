"""Checks a fleet before it is started: every finding says what would be right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.methods import methods
from backends.preflight.drafts import check_drafts
from backends.preflight.environment import check_environment
from backends.preflight.finding import Finding
from backends.preflight.flags import check_flags
from backends.preflight.method import check_method
from backends.preflight.models import check_models
from backends.preflight.options import check_options
from backends.preflight.place import check_compared, check_fleet
from backends.preflight.reach import check_reach
from backends.preflight.serving import check_serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.machine import Machine
    from backends.spec import LaunchSpec

__all__ = ["Finding", "alone", "preflight"]


def preflight(specs: Sequence[LaunchSpec], machine: Machine) -> list[Finding]:
    """Everything that is wrong with a fleet, or odd about it, in the order of its servers.

    Args:
        specs: The servers.
        machine: Where they are to run.
    """
    findings = [*_looked_at(specs, machine), *check_compared(specs)]
    places = {spec.name: place for place, spec in enumerate(specs)}
    return sorted(_once(findings), key=lambda one: places[one.server])


def alone(spec: LaunchSpec, machine: Machine) -> list[Finding]:
    """Everything that is wrong with a server, or odd about it, that has the machine to itself.

    Args:
        spec: The server.
        machine: Where it is to run.
    """
    return [*_once([*_looked_at([spec], machine)])]


def _looked_at(specs: Sequence[LaunchSpec], machine: Machine) -> Iterator[Finding]:
    for spec in specs:
        yield from check_method(spec, machine)
        if spec.method in methods():
            yield from check_options(spec, machine)
            yield from check_flags(spec, machine)
            yield from check_serving(spec, machine)
            yield from check_environment(spec)
            yield from check_reach(spec, machine)
            yield from check_models(spec, machine)
            yield from check_drafts(spec, machine)
    yield from check_fleet(specs, machine)


def _once(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Findings without those that only say of another server what could not be looked at."""
    said = {one.wrong: one for one in reversed(findings) if one.unchecked}
    return [one for one in findings if not one.unchecked or said[one.wrong] is one]
