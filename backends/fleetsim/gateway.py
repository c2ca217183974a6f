"""The gateway's own core as a router of the simulation: the same decisions, the same learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.fleetsim import beliefs
from backends.fleetsim.exploring import Chosen, Exploring
from backends.fleetsim.view import HOLD, NOWHERE, Progress
from backends.fleetsim.waiting import Line
from gateway.core.choice import Draw
from gateway.core.classes import DEFAULT, ServiceClass
from gateway.core.decide import NoCandidate, decide
from gateway.core.demand import Demand
from gateway.core.fleet import BackendState, Load, Snapshot
from gateway.core.learn import Learner, Sample, Span
from gateway.core.observe import likely
from gateway.core.plan import Kind
from gateway.core.policy import FROZEN
from gateway.core.predict import CHARS_PER_TOKEN, SAMPLED, Home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request
    from backends.fleetsim.view import Plans, View
    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import Backend
    from gateway.core.plan import Plan
    from gateway.core.policy import Policy
    from gateway.core.predict import ServerModel

LEAST_STEPS: Final = 20
"""A stream under way tells of itself after so many steps."""

PLAN_SECONDS: Final = 5.0
"""How often the planner is asked."""


@dataclass(slots=True)
class _Told:
    """What a request has told the learner so far."""

    at: float = -1.0
    area: float = 0.0
    steps: int = 0
    tokens: int = 0
    drafted: int = 0


class GatewayRouter:
    """Drives :func:`gateway.core.decide.decide` and :class:`gateway.core.learn.Learner` in event time.

    Args:
        models: What each server runs; servers of one name, target and method count as replicas.
        policy: The routes. Every request asks for the first of its aliases. Mode ``frozen`` learns nothing.
        backends: As the fleet file declares them; where left out, nothing limits what is open on one.
        names: Of backends that no fleet file declares; made from the models where left out.
        priors: What is believed of each server at first; what the policy knows where left out.
        seed: Of the decisions' random numbers.
        services: Class of each source's requests; the default one where left out.
        planner: Assigns servers to classes; None for no roles.
        on_choice: Told of every decision.
    """

    follows = True

    def __init__(  # noqa: PLR0913 - a simulation, a bench and a test each leave out others
        self,
        models: Sequence[Model],
        policy: Policy,
        *,
        backends: Sequence[Backend] = (),
        names: Sequence[str] = (),
        priors: Sequence[ServerModel | None] | None = None,
        seed: int = 0,
        services: Sequence[ServiceClass] = (),
        planner: Plans | None = None,
        on_choice: Callable[[Chosen], None] | None = None,
    ) -> None:
        self._learns = learns = policy.learning.mode != FROZEN
        # What a declared server can hold may be reached, and whoever waits for room looks again at each tick.
        self.tick_seconds = 1.0 if learns or planner is not None or backends else 0.0
        self.policy = policy
        self.learner = Learner()
        self._random = np.random.default_rng(seed)
        self._usual = beliefs.features(next(iter(policy.aliases)))
        self._target = policy.aliases[self._usual.model]
        self._services = services
        self._planner = planner
        self._planned = -PLAN_SECONDS
        self._demand = Demand()
        self._plans: Mapping[str, Plan] = {}
        self._exploring = Exploring(policy.learning, policy.stale_after, models)
        self._on_choice = on_choice
        self._line = Line(policy.queue)
        self._backends = list(backends) or beliefs.backends(names, models, self._target)
        self._names = [backend.name for backend in self._backends]
        self._index = {name: index for index, name in enumerate(self._names)}
        self._models = list(models)
        known = policy.learning.known
        self._published = [known.get(name) for name in self._names] if priors is None else list(priors)
        if learns:
            for index, model in enumerate(models):
                self.learner.arm(self._names[index], beliefs.arm(model, self._published[index]))
        count = len(models)
        self._states = [BackendState(backend) for backend in self._backends]
        self._stale = set(range(count))
        self._snapshot = Snapshot.of(self._states, "simulated")
        self._area, self._since, self._open = [0.0] * count, [0.0] * count, [0] * count
        self._homes: dict[object, Home] = {}
        self._labels: dict[tuple[str, float], Classification] = {}
        self._publish(0.0)

    def choose(self, request: Request, view: View, now: float) -> int:
        """Ask the core."""
        service = self._service(request)
        if request.mark is None:
            request.mark = _Told()
            self._demand.arrived(service.name, self._classification(request).weights, now)
        asked = self._features(request), self._classification(request)
        draw = Draw(*self._random.random(2).tolist())
        home = self._homes.get(request.prefix) if request.prefix is not None else None
        snapshot = self._look(view)
        patience = request.arrived + min(service.patience, self.policy.queue.wait) - now
        decision = decide(*asked, snapshot, self.policy, draw, now, home, service, patience=patience)
        if isinstance(decision, NoCandidate):
            return HOLD if self._line.takes(request, decision, service, now) else NOWHERE
        self._line.left(request)
        index = self._index[decision.candidates[0].backend]
        chosen = Chosen(request, *asked, snapshot, decision)
        self._exploring.decided(chosen, baseline=self._backends[index].is_baseline)
        if self._on_choice is not None:
            self._on_choice(chosen)
        return index

    def _service(self, request: Request) -> ServiceClass:
        return self._services[request.source] if request.source < len(self._services) else DEFAULT

    def _features(self, request: Request) -> Features:
        chars = int(request.prompt_tokens * CHARS_PER_TOKEN)
        return replace(self._usual, parameters=request.needs, prompt_chars=chars, last_chars=chars)

    def _classification(self, request: Request) -> Classification:
        key = request.label, request.confidence
        if key not in self._labels:
            self._labels[key] = beliefs.classification(*key)
        return self._labels[key]

    def _look(self, view: View) -> Snapshot:
        """The fleet as the gateway knows it now; only what has changed is made anew."""
        states = self._states
        for index, (state, healthy) in enumerate(zip(states, view.healthy, strict=True)):
            if state.healthy != healthy:
                self._stale.add(index)
            scraped = view.scraped[index]
            if scraped >= 0.0 and (state.load is None or state.load.at != scraped):
                self._stale.add(index)
        if self._stale:
            for index in self._stale:
                states[index] = self._state(index, view)
            self._stale.clear()
            before = self._snapshot
            guide = self._exploring.guide(self._plans, view)
            self._snapshot = Snapshot(tuple(states), before.revision, before.roster, guide)
        return self._snapshot

    def _state(self, index: int, view: View) -> BackendState:
        load, scraped = None, view.scraped[index]
        if scraped >= 0.0:
            load = Load(view.running[index], view.waiting[index], view.kv_usage[index], scraped)
        return BackendState(
            backend=self._backends[index],
            in_flight=view.in_flight[index],
            since_load=view.since_scrape[index],
            load=load,
            healthy=view.healthy[index],
            reason="" if view.healthy[index] else "it did not answer",
            model=self._published[index],
        )

    def _publish(self, now: float) -> None:
        if self._learns:
            known = self.learner.publish(now)
            self._published = [known[name] for name in self._names]
        self._stale.update(range(len(self._names)))

    def _count(self, index: int, view: View, now: float) -> None:
        """Keep the integral of open requests over time, for mean batch sizes."""
        self._area[index] += self._open[index] * (now - self._since[index])
        self._since[index], self._open[index] = now, view.in_flight[index]
        self._stale.add(index)

    def _area_at(self, index: int, now: float) -> float:
        return self._area[index] + self._open[index] * (now - self._since[index])

    def sent(self, request: Request, view: View, now: float) -> None:
        """Keep where it is and since when."""
        index = request.server
        self._count(index, view, now)
        request.mark = _Told(area=self._area_at(index, now))
        if request.prefix is not None:
            known = float(request.prompt_tokens + request.output_tokens)
            self._homes[request.prefix] = Home(self._names[index], known)

    def first(self, request: Request, _view: View, now: float) -> None:
        """Tell the learner of the time to the first token."""
        told = request.mark
        if not self._learns or not isinstance(told, _Told):
            return
        area, ttft = self._area_at(request.server, now), now - request.sent
        queue = (area - told.area) / ttft - 1.0 if ttft > 0.0 else 0.0
        computed = request.prompt_tokens - request.cached_tokens
        told.at, told.area = now, area
        self.learner.update(
            Sample(
                backend=self._names[request.server],
                at=now,
                classes=likely(self._classification(request)),
                stratum=SAMPLED,
                prompt_tokens=request.prompt_tokens,
                prompt_chars=int(request.prompt_tokens * CHARS_PER_TOKEN),
                prefill_tokens=computed,
                computed_tokens=computed,
                ttft=ttft,
                queue=queue,
            )
        )

    def ended(self, request: Request, view: View, now: float) -> None:
        """Tell the learner of the whole answer."""
        told = request.mark
        index = request.server
        if self._learns and isinstance(told, _Told) and told.at >= 0.0 and request.produced:
            whole = request.produced >= request.output_tokens
            self._tell(
                told,
                Progress(request, now, request.steps, request.produced - 1, request.drafted),
                request.output_tokens if whole else None,
            )
        if index >= 0:
            self._exploring.ended(request, self._names[index])
            self._count(index, view, now)
        service, kept = self._service(request), None
        if service.limits.any and request.first >= 0.0:
            tpot = (request.ended - request.first) / max(1, request.output_tokens - 1)
            kept = service.limits.kept(request.first - request.arrived, tpot)
        self._demand.ended(service.name, request.arrived, kept=kept)

    def _tell(self, told: _Told, progress: Progress, output: int | None) -> None:
        request, at, steps, tokens, drafted = progress
        index = request.server
        area, seconds = self._area_at(index, at), at - told.at
        taken = steps - told.steps
        spans = (Span((area - told.area) / seconds, seconds, taken),) if taken and seconds > 0.0 else ()
        self.learner.update(
            Sample(
                backend=self._names[index],
                at=at,
                classes=likely(self._classification(request)),
                stratum=SAMPLED,
                prompt_tokens=request.prompt_tokens,
                prompt_chars=int(request.prompt_tokens * CHARS_PER_TOKEN),
                steps=taken,
                decoded=tokens - told.tokens,
                drafted=drafted - told.drafted,
                spans=spans,
                output_tokens=output,
            )
        )
        told.at, told.area, told.steps, told.tokens, told.drafted = at, area, steps, tokens, drafted

    def tick(self, progress: Callable[[int], list[Progress]], view: View, now: float) -> None:
        """Let the streams under way tell of themselves, and publish what is known."""
        for index, model in enumerate(view.models):
            if model is not self._models[index]:
                self._models[index] = model
                self._backends[index] = beliefs.running(self._backends[index], model)
                self.learner.arm(self._names[index], beliefs.arm(model, None), now)
                self._snapshot = Snapshot.of(
                    [BackendState(backend) for backend in self._backends], "simulated again"
                )
            for one in progress(index):
                told = one.request.mark
                if isinstance(told, _Told) and told.at >= 0.0 and one.steps - told.steps >= LEAST_STEPS:
                    self._tell(told, one, None)
        if self._learns:
            self.learner.count(dict(zip(self._names, map(float, view.in_flight), strict=True)), now)
            self._publish(now)
        if self._planner is not None and now - self._planned >= PLAN_SECONDS:
            self._planned = now
            self._plan(self._planner, view, now)

    def _plan(self, planner: Plans, view: View, now: float) -> None:
        kinds: dict[tuple[str, int], list[int]] = {}
        for index, (model, backend) in enumerate(zip(self._published, self._backends, strict=True)):
            if model is not None and view.healthy[index]:
                room = min(backend.max_in_flight, model.max_running)
                kinds.setdefault((model.fingerprint, room), []).append(index)
        known = [
            Kind(tuple(self._names[index] for index in alike), model, room=room)
            for (_, room), alike in kinds.items()
            if (model := self._published[alike[0]]) is not None
        ]
        limits = {service.name: service.limits for service in (*self._services, DEFAULT)}
        wanted = self._demand.wanted(limits, now)
        if known and wanted:
            plan = planner.plan(known, wanted, now)
            self._demand.planned(plan.since)
            self._plans = {self._target: plan}
