"""What another policy would have done with logged requests: a doubly robust estimate, with its error.

Two runs in the mind (:mod:`gateway.core.virtual`) take the logged requests at their times: one sends each
where it went, one where the other policy would send it at the load that has come of its own choices. With y
the seconds that were seen, q and q' those of the two runs, p the probability of what was done, and the same
server in both:

    d = q' + [same]/p · (y - q)

The mean of d is right if the model of the servers is, and what the model gets wrong is mended by the requests
for which the log says what became of the same choice. Where it has few of those, the error counts what the
model may be wrong by (:mod:`gateway.core.untold`). The length of an answer does not depend on who gives it,
so both runs take the length that was seen.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gateway.core.choice import Draw
from gateway.core.decide import Decision, decide
from gateway.core.predict import ask
from gateway.core.untold import Stay, untold
from gateway.core.virtual import VirtualServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.classes import ServiceClass
    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import Snapshot
    from gateway.core.policy import Policy
    from gateway.core.predict import ServerModel

BLOCKS: Final = 30
"""Consecutive requests see the same load, so the error is taken between blocks of them."""

MOST_UNTOLD: Final = 0.1
"""Share of the requests that may go where the log has few, for it to be said that the policy is no slower."""

_T: Final = 2.045
_WEIGHT: Final = 20.0
_LEVELS: Final = 3


@dataclass(frozen=True, slots=True)
class Logged:
    """A request that was answered at the first attempt.

    Attributes:
        features: Its facts.
        classification: Its workload.
        snapshot: The fleet as the decision saw it.
        now: Monotonic seconds of the decision, on the clock of the snapshot.
        backend: The server that it was sent to.
        propensity: Probability of that.
        seconds: From the decision to the last byte.
        output_tokens: Length of the answer.
        prompt_tokens: Prompt tokens that were computed; None where not told.
        service: Its class; None for the default one.
    """

    features: Features
    classification: Classification
    snapshot: Snapshot
    now: float
    backend: str
    propensity: float
    seconds: float
    output_tokens: int
    prompt_tokens: int | None = None
    service: ServiceClass | None = None


class Figure(NamedTuple):
    """A mean and half the width of its 95 % interval."""

    value: float
    error: float

    def wider(self, error: float) -> Figure:
        """The same with a further error, independent of the first."""
        return Figure(self.value, math.hypot(self.error, error))

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to be said of a policy.

    Attributes:
        requests: Requests that it was estimated from.
        logged: Mean seconds a request, as logged.
        seconds: The same under the policy.
        difference: The second less the first; its error is smaller than those of both.
        shares: Share of the requests by server under the policy.
        were: The same as logged.
        same: Share of the requests that go where they went.
        evidence: Share of the requests that an estimate by those alone would be worth: 1 where the policy
            does what was done, 0 where it never does and only the model speaks.
        untold: Requests that go to a server at a load of which the log has few, as in
            :mod:`gateway.core.untold`. The errors count what the model may be wrong by there.
        refused: Share of the requests that the policy has no server for.
    """

    requests: int
    logged: Figure
    seconds: Figure
    difference: Figure
    shares: Mapping[str, float]
    were: Mapping[str, float]
    same: float
    evidence: float
    untold: int
    refused: float

    @property
    def slower(self) -> bool:
        """Whether the policy is, beyond doubt."""
        return self.difference.value > self.difference.error

    @property
    def faster(self) -> bool:
        """The same."""
        return self.difference.value < -self.difference.error

    @property
    def told(self) -> bool:
        """Whether the log tells: beyond doubt, or by requests that went where the policy sends them."""
        return self.slower or self.faster or self.untold <= MOST_UNTOLD * self.requests


def estimate(logged: Sequence[Logged], policy: Policy, models: Mapping[str, ServerModel]) -> Estimate:
    """Estimate the mean seconds a request under another policy.

    Args:
        logged: Requests in order of time.
        policy: The other policy.
        models: What is known of each server; best learnt from the same log.

    Raises:
        ValueError: The policy has a server for fewer requests than :data:`BLOCKS`.
    """
    levels = dict.fromkeys(models, 1.0)
    for _ in range(_LEVELS):
        was = _run(logged, models, levels, lambda one, _number, _open: one.backend)
        levels = _mended(logged, was.seconds, levels)
    was = _run(logged, models, levels, lambda one, _number, _open: one.backend)
    would = _run(logged, models, levels, _deciding(policy, models))
    went, goes = was.servers, would.servers
    kept = [at for at, name in enumerate(goes) if name]
    if len(kept) < BLOCKS:
        if refused := len(logged) - len(kept):
            words = f"the policy has no server for {refused} of the {len(logged)} requests"
            raise ValueError(f"{words}, and {BLOCKS} at least are needed to estimate from")
        raise ValueError(f"{len(kept)} requests are too few to estimate from; log {BLOCKS} at least")
    same = np.array([goes[at] == went[at] for at in kept], dtype=float)
    chance = np.array([max(logged[at].propensity, 1.0 / _WEIGHT) for at in kept])
    weights = same / chance
    seen = np.array([logged[at].seconds for at in kept])
    robust = would.seconds[kept] + weights * (seen - was.seconds[kept])
    alone = untold(was.stays(logged, range(len(logged))), would.stays(logged, kept), models)
    return Estimate(
        requests=len(kept),
        logged=_figure(seen),
        seconds=_figure(robust).wider(alone.error),
        difference=_figure(robust - seen).wider(alone.error),
        shares=_shares([goes[at] for at in kept]),
        were=_shares([went[at] for at in kept]),
        same=float(same.mean()),
        evidence=float(weights.sum() ** 2 / max(1e-9, (weights**2).sum()) / len(kept)),
        untold=alone.requests,
        refused=1.0 - len(kept) / len(logged),
    )


def destinations(logged: Sequence[Logged], policy: Policy, models: Mapping[str, ServerModel]) -> list[str]:
    """Servers that a policy sends logged requests to, as :func:`estimate` does; "" where it has none."""
    levels = dict.fromkeys(models, 1.0)
    return _run(logged, models, levels, _deciding(policy, models)).servers


class _Run(NamedTuple):
    """What became of requests in the mind.

    Attributes:
        seconds: Of each, 0 where it has no server.
        servers: Where each went.
        loads: Requests there when it came, itself too.
    """

    seconds: NDArray[np.float64]
    servers: list[str]
    loads: list[int]

    def stays(self, logged: Sequence[Logged], places: Iterable[int]) -> list[Stay]:
        """Some of the requests, as they were on their servers."""
        return [
            Stay(logged[at].classification.label, self.servers[at], self.loads[at], float(self.seconds[at]))
            for at in places
        ]


def _run(
    logged: Sequence[Logged],
    models: Mapping[str, ServerModel],
    levels: Mapping[str, float],
    choose: Callable[[Logged, int, Mapping[str, int]], str],
) -> _Run:
    servers = {name: VirtualServer(model, levels[name]) for name, model in models.items()}
    went, loads = list[str](), list[int]()
    for number, one in enumerate(logged):
        for server in servers.values():
            server.advance(one.now)
        name = choose(one, number, {name: server.open for name, server in servers.items()})
        went.append(name)
        if name:
            servers[name].submit(number, *_work(one, models[name]), one.now)
        loads.append(servers[name].open if name else 0)
    seconds = np.zeros(len(logged))
    for server in servers.values():
        server.advance(math.inf)
        for number, ended in server.ended.items():
            seconds[number] = ended - logged[number].now
    return _Run(seconds, went, loads)


def _work(one: Logged, model: ServerModel) -> tuple[float, float]:
    """Decode steps of a request on a server, and seconds of its prompt."""
    asked = ask(one.features, one.classification)
    rate = sum(
        share * model.steps_per_token.get(cell, model.other_steps_per_token) for cell, share in asked.classes
    )
    prompt = (
        one.prompt_tokens if one.prompt_tokens is not None else asked.prompt_chars / model.chars_per_token
    )
    return rate * max(0, one.output_tokens - 1), prompt * model.prefill_seconds


def _deciding(
    policy: Policy, models: Mapping[str, ServerModel]
) -> Callable[[Logged, int, Mapping[str, int]], str]:
    """Where the policy sends a request at the load of the run; empty where it has no server."""

    def choose(one: Logged, number: int, open_: Mapping[str, int]) -> str:
        states = tuple(
            replace(
                state,
                in_flight=open_.get(state.backend.name, 0),
                since_load=0,
                load=None,
                model=models.get(state.backend.name),
            )
            for state in one.snapshot.states
        )
        snapshot = replace(one.snapshot, states=states)
        decision = decide(
            one.features, one.classification, snapshot, policy, Draw.nth(number), one.now, None, one.service
        )
        return decision.candidates[0].backend if isinstance(decision, Decision) else ""

    return choose


def _mended(
    logged: Sequence[Logged], was: NDArray[np.float64], levels: Mapping[str, float]
) -> dict[str, float]:
    """Levels by which the run would have taken as long as was seen."""
    seen: dict[str, float] = defaultdict(float)
    said: dict[str, float] = defaultdict(float)
    for one, seconds in zip(logged, was.tolist(), strict=True):
        seen[one.backend] += one.seconds
        said[one.backend] += seconds
    return {
        name: level * (seen[name] / said[name] if seen[name] and said[name] else 1.0)
        for name, level in levels.items()
    }


def _shares(names: Sequence[str]) -> dict[str, float]:
    return {name: count / len(names) for name, count in Counter(names).items()}


def _figure(values: NDArray[np.float64]) -> Figure:
    means = np.array([block.mean() for block in np.array_split(values, BLOCKS)])
    return Figure(float(values.mean()), float(_T * means.std(ddof=1) / math.sqrt(BLOCKS)))
