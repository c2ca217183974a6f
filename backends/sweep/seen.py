"""What a gateway in service has measured so far, read from its ``/metrics``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.parser import text_string_to_metric_families

from backends.sweep.stats import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX: Final = "specroute_"
LEAST_STEPS: Final = 500
"""Verification steps below which acceptance of a workload is not judged."""


class NotAGatewayError(ValueError):
    """A page holds no metrics of a gateway; the text says so."""


@dataclass(slots=True)
class Traffic:
    """One workload on one backend.

    Attributes:
        requests: All of them.
        steps: Verification steps with a draft.
        by_position: Accepted draft tokens by position.
        speedup: Over the baseline of the same target and workload; None while it is not known.
    """

    requests: float = 0.0
    output_tokens: float = 0.0
    steps: float = 0.0
    by_position: list[float] = field(default_factory=list)
    speedup: Interval | None = None

    @property
    def survival(self) -> tuple[float, ...]:
        """Share of steps accepted up to each position; empty before enough of them."""
        if self.steps < LEAST_STEPS:
            return ()
        return tuple(min(1.0, one / self.steps) for one in self.by_position)


@dataclass(frozen=True, slots=True)
class Server:
    """One backend with its traffic by workload."""

    name: str
    target: str
    method: str
    draft_tokens: int
    traffic: Mapping[str, Traffic]

    @property
    def is_baseline(self) -> bool:
        """Whether it decodes without speculation."""
        return self.method == "none"

    @property
    def label(self) -> str:
        """Its configuration, such as ``dflash-7``."""
        return f"{self.method}-{self.draft_tokens}" if self.draft_tokens else self.method

    @property
    def steps(self) -> float:
        """Verification steps of all workloads."""
        return sum(one.steps for one in self.traffic.values())

    @property
    def survival(self) -> tuple[float, ...]:
        """Acceptance by position over all of its traffic; empty before enough of it."""
        if self.steps < LEAST_STEPS:
            return ()
        totals = [0.0] * self.draft_tokens
        for one in self.traffic.values():
            for place, count in enumerate(one.by_position[: self.draft_tokens]):
                totals[place] += count
        return tuple(min(1.0, one / self.steps) for one in totals)


def read(page: str) -> tuple[Server, ...]:
    """The backends of a gateway, from the text of its metrics.

    Raises:
        NotAGatewayError: There are none.
    """
    values: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name.startswith(_PREFIX):
                    values[sample.name.removeprefix(_PREFIX)].append((sample.labels, sample.value))
    except ValueError as error:
        raise NotAGatewayError(f"this is no page of metrics: {error}") from None
    infos = [labels for labels, _ in values["backend_info"]]
    if not infos:
        raise NotAGatewayError("these are no metrics of a gateway: there is no specroute_backend_info")
    try:
        return _servers(infos, values)
    except KeyError as error:
        raise NotAGatewayError(f"these are no metrics of a gateway: a label {error} is missing") from None
    except ValueError as error:
        raise NotAGatewayError(f"these are no metrics of a gateway: {error}") from None


def _servers(
    infos: Sequence[Mapping[str, str]], values: Mapping[str, list[tuple[Mapping[str, str], float]]]
) -> tuple[Server, ...]:
    traffic: dict[str, dict[str, Traffic]] = defaultdict(lambda: defaultdict(Traffic))
    for name, attribute in _SUMS.items():
        for labels, value in values[name]:
            one = traffic[labels["backend"]][labels["workload"]]
            setattr(one, attribute, getattr(one, attribute) + value)
    for labels, value in values["speculation_accepted_at_position_total"]:
        _position(traffic[labels["backend"]][labels["workload"]], int(labels["position"]), value)
    _speedups(values, traffic)
    return tuple(
        Server(
            one["backend"], one["target"], one["method"], int(one["draft_tokens"] or 0),
            dict(traffic[one["backend"]]),
        )
        for one in infos
    )  # fmt: skip


_SUMS: Final = {
    "requests_total": "requests",
    "output_tokens_total": "output_tokens",
    "speculation_steps_total": "steps",
}


def _position(one: Traffic, position: int, value: float) -> None:
    """Positions count from 0."""
    one.by_position += [0.0] * (position + 1 - len(one.by_position))
    one.by_position[position] += value


def _speedups(
    values: Mapping[str, list[tuple[Mapping[str, str], float]]], traffic: Mapping[str, Mapping[str, Traffic]]
) -> None:
    low, high = (
        {(labels["backend"], labels["workload"]): value for labels, value in values[name]}
        for name in ("speedup_low", "speedup_high")
    )
    for labels, value in values["speedup"]:
        key = labels["backend"], labels["workload"]
        traffic[key[0]][key[1]].speedup = Interval(value, low.get(key), high.get(key))
