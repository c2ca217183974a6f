"""Servers that may take a request, in order, with what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.core.policy import WeightedScorer
    from gateway.core.standing import Standing


@value(frozen=True, slots=True)
class CostPart:
    """One scorer's part of a candidate's cost.

    Attributes:
        scorer: YAML name of the scorer.
        value: Its cost, in the scorer's own unit; lower is better.
        weight: What the policy multiplies it by.
    """

    scorer: str
    value: float
    weight: float


class Candidate(NamedTuple):
    """A backend that may take the request, with what it costs.

    Attributes:
        cost: The sum of ``values``, weighted.
        values: The cost by each scorer, in the order of ``scorers``.
        scorers: Those that were added up.
    """

    backend: str
    cost: float
    values: tuple[float, ...]
    scorers: tuple[WeightedScorer, ...] = ()

    @property
    def parts(self) -> tuple[CostPart, ...]:
        """What the cost is made of."""
        return tuple(
            CostPart(scorer.name, value, scorer.weight)
            for scorer, value in zip(self.scorers, self.values, strict=True)
        )


_candidate: Final[Callable[[tuple[object, ...]], Candidate]] = partial(tuple.__new__, Candidate)
"""Makes a candidate of its fields, in a quarter of the time of a call by names."""


class Costs(NamedTuple):
    """What sending a request to servers costs.

    Attributes:
        servers: The servers.
        sums: The cost of each.
        columns: Of each scorer, the cost of each server.
        scorers: Those that were added up.
    """

    servers: Sequence[Standing]
    sums: Sequence[float]
    columns: Sequence[Sequence[float]]
    scorers: tuple[WeightedScorer, ...]

    def candidate(self, at: int) -> Candidate:
        """The server at a place."""
        values = tuple(map(itemgetter(at), self.columns))
        return _candidate((self.servers[at].name, self.sums[at], values, self.scorers))


class Candidates(Sequence[Candidate]):
    """Candidates in order. Each is made when it is looked at, as of most decisions only the first ever is.

    A slice makes all of them, ``islice`` only those it gives.
    """

    __slots__ = ("_costs", "_others", "_places")

    def __init__(
        self, costs: Costs, places: Sequence[int], others: Callable[[], Sequence[Candidate]] | None = None
    ) -> None:
        """Put servers in order.

        Args:
            costs: What they cost.
            places: Their places there, in order.
            others: Gives the candidates that come after them; None for none.
        """
        self._costs, self._places, self._others = costs, places, others

    def __len__(self) -> int:
        return len(self._places) + (0 if self._others is None else len(self._others()))

    @overload
    def __getitem__(self, at: int) -> Candidate: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, at: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(at, int) and 0 <= at < len(self._places):
            return self._costs.candidate(self._places[at])
        return (*self,)[at]

    def __iter__(self) -> Iterator[Candidate]:
        yield from map(self._costs.candidate, self._places)
        if self._others is not None:
            yield from self._others()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and (*self,) == (*other,)

    def __hash__(self) -> int:
        return hash((*self,))

    def __repr__(self) -> str:
        return repr((*self,))
