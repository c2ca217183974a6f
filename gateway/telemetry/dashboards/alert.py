"""Alerts as data: what must hold, for how long, and what is then said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PAGE: Final = "page"
TICKET: Final = "ticket"


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for an alert: a measure, how it compares, and with what.

    The measure alone has a value while all is well, so that it can be tried out.
    """

    measure: str
    comparison: str
    bound: float

    def __str__(self) -> str:
        return f"({self.measure}) {self.comparison} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        conditions: All must hold.
        lasting: For how long, as in ``5m``.
        severity: :data:`PAGE` or :data:`TICKET`.
        summary: What is wrong, with labels in ``{{ $labels.backend }}``.
        description: What it means and what to do first.
    """

    name: str
    conditions: tuple[Condition, ...]
    lasting: str
    severity: str
    summary: str
    description: str

    @property
    def expression(self) -> str:
        """As Prometheus evaluates it."""
        return "\nand ".join(map(str, self.conditions))
