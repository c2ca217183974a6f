"""What each service class asks of the fleet now: arrivals by workload of late, and requests under way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from gateway.core.plan import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.core.plan import Limits

_HORIZON: Final = 30.0
"""Seconds over which rates are taken: longer than bursts, shorter than a change of the mix that matters."""

_TELLING: Final = 20.0
"""Answers below which the share that kept their limits is not told."""

_ANSWERS: Final = 200.0
"""Answers after which one has lost most of its weight in that share."""

_SETTLED: Final = 30.0
"""Seconds after a change of roles until requests tell of the new ones: what ran there before ends first."""

_FORGOTTEN: Final = 1e-3
"""Requests of late below which a workload of a class is not wanted any more."""


@dataclass(slots=True)
class _Count:
    weight: float = 0.0
    at: float = 0.0

    def decayed(self, now: float) -> float:
        return self.weight * math.exp(min(0.0, self.at - now) / _HORIZON)


@dataclass(slots=True)
class Demand:
    """Arrivals and requests under way, by class. Has one owner, who tells it of every request."""

    _counts: dict[tuple[str, str], _Count] = field(default_factory=dict)
    _in_flight: dict[str, int] = field(default_factory=dict)
    _answers: dict[str, float] = field(default_factory=dict)
    _kept: dict[str, float] = field(default_factory=dict)
    _settled: float = -math.inf
    _since: float | None = None

    def arrived(self, service: str, classes: Mapping[str, float], now: float) -> None:
        """A request of a class came, with the probabilities of its workload."""
        if self._since is None:
            self._since = now
        self._in_flight[service] = self._in_flight.get(service, 0) + 1
        for workload, share in classes.items():
            count = self._counts.setdefault((service, workload), _Count())
            count.weight, count.at = count.decayed(now) + share, now

    def ended(self, service: str, arrived: float, *, kept: bool | None = None) -> None:
        """A request of a class is over, however it ended.

        Args:
            service: The class.
            arrived: Monotonic seconds at which it came.
            kept: Whether its answer kept the limits of the class; None where there was none.
        """
        self._in_flight[service] = max(0, self._in_flight.get(service, 0) - 1)
        if kept is not None and arrived >= self._settled:
            for counts, value in ((self._answers, 1.0), (self._kept, float(kept))):
                counts[service] = (1.0 - 1.0 / _ANSWERS) * counts.get(service, 0.0) + value

    def planned(self, since: float) -> None:
        """Roles are what they are since a time: answers to requests from before tell nothing of them."""
        if since + _SETTLED > self._settled:
            self._settled = since + _SETTLED
            self._answers.clear()
            self._kept.clear()

    def wanted(self, limits: Mapping[str, Limits], now: float) -> tuple[Wanted, ...]:
        """What is asked for now, by class; classes without requests of late are left out.

        Args:
            limits: Of all classes.
            now: Monotonic seconds.
        """
        # In the first seconds only what has passed counts.
        passed = _HORIZON * -math.expm1(-max(1.0, now - (self._since or 0.0)) / _HORIZON)
        rates: dict[str, dict[str, float]] = {}
        for (service, workload), count in list(self._counts.items()):
            if (weight := count.decayed(now)) > _FORGOTTEN:
                rates.setdefault(service, {})[workload] = weight / passed
            else:
                del self._counts[service, workload]
        return tuple(
            Wanted(
                service,
                limits[service],
                known,
                float(self._in_flight.get(service, 0)),
                self._share(service),
                self._answers.get(service, 0.0),
            )
            for service, known in rates.items()
            if service in limits
        )

    def _share(self, service: str) -> float | None:
        answers = self._answers.get(service, 0.0)
        return self._kept[service] / answers if answers >= _TELLING else None


def together(parts: Iterable[Sequence[Wanted]]) -> tuple[Wanted, ...]:
    """What several gateways that send to the same servers ask for, by class."""
    by_service: dict[str, list[Wanted]] = {}
    for one in chain.from_iterable(parts):
        by_service.setdefault(one.service, []).append(one)
    return tuple(_sum(same) for same in by_service.values())


def _sum(parts: Sequence[Wanted]) -> Wanted:
    rates: dict[str, float] = {}
    for workload, rate in chain.from_iterable(one.rates.items() for one in parts):
        rates[workload] = rates.get(workload, 0.0) + rate
    told = [(one.kept, one.answers) for one in parts if one.kept is not None]
    answers = sum(count for _, count in told)
    kept = sum(share * count for share, count in told) / answers if answers else None
    in_flight = sum(one.in_flight for one in parts)
    return Wanted(parts[0].service, parts[0].limits, rates, in_flight, kept, answers)
