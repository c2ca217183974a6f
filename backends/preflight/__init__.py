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
from backends.preflight.place import check_fleet
from backends.preflight.reach import check_reach
from backends.preflight.serving import check_serving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.machine import Machine
    from backends.spec import LaunchSpec

__all__ = ["Finding", "preflight"]


def preflight(specs: Sequence[LaunchSpec], machine: Machine) -> list[Finding]:
    """Everything that is wrong with a fleet, or odd about it, in the order of its servers.

    Args:
        specs: The servers.
        machine: Where they are to run.
    """
    findings: list[Finding] = []
    for spec in specs:
        findings += check_method(spec, machine)
        if spec.method in methods():
            findings += check_options(spec, machine)
            findings += check_flags(spec, machine)
            findings += check_serving(spec, machine)
            findings += check_environment(spec)
            findings += check_reach(spec, machine)
            findings += check_models(spec, machine)
            findings += check_drafts(spec, machine)
    findings += check_fleet(specs, machine)
    places = {spec.name: place for place, spec in enumerate(specs)}
    return sorted(_once(findings), key=lambda one: places[one.server])


def _once(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Findings without those that only say of another server what could not be looked at."""
    said = {one.wrong: one for one in reversed(findings) if one.unchecked}
    return [one for one in findings if not one.unchecked or said[one.wrong] is one]
