"""The one table of scorers: the name a policy file uses, what it computes, how its cost is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core import scorers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Entry:
    """One scorer.

    Attributes:
        cost: The function; gives each candidate's cost, lower is better.
        summary: What it costs, for the schema and the documentation.
        say: Its cost in words.
    """

    cost: Callable[[scorers.Costing], list[float]]
    summary: str
    say: Callable[[float], str]


def _choice(cost: float) -> str:
    return (
        ("first choice", "second choice", "third choice")[int(cost)] if cost < 3 else f"choice {cost + 1:.0f}"
    )


def _occupancy(cost: float) -> str:
    return "idle" if cost == 0 else f"at {cost:.0%} of its in-flight limit"


SCORERS: Final[Mapping[str, Entry]] = {
    "preference": Entry(
        scorers.SCORERS["preference"],
        "place in the route's prefer list: 0 for the first choice of the model's backends, 1 for the second",
        _choice,
    ),
    "load": Entry(
        scorers.SCORERS["load"],
        "requests on the server as a share of its max_in_flight: 0 idle, 1 at the limit",
        _occupancy,
    ),
    "seconds": Entry(
        scorers.SCORERS["seconds"],
        "predicted seconds to the last token, plus those by which all others there would finish later, from "
        "what was learnt of the server",
        lambda cost: f"{cost:.2f} s, those that others lose counted",
    ),
}
"""Scorers by the name a policy file uses."""
