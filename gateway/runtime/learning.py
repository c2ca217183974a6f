"""Owner of all that is learnt: feeds the learner, publishes models and roles into the fleet's snapshots."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from gateway.core import reasons
from gateway.core.caution import Caution
from gateway.core.classes import DEFAULT
from gateway.core.demand import Demand
from gateway.core.fleet import STAND_IN, Guide
from gateway.core.hindsight import regained_by
from gateway.core.learn import Learner
from gateway.core.observe import (
    Told,
    arm,
    finished,
    probabilities,
    running,
    steps_per_event,
    tell,
)
from gateway.core.outcome import OK
from gateway.core.plan import Plan
from gateway.core.policy import FROZEN, STATIC
from gateway.core.purse import KNEE, Purse
from gateway.runtime import clock
from gateway.runtime.fleet_advice import Advising
from gateway.runtime.homes import Homes
from gateway.runtime.occupancy import Occupancy
from gateway.runtime.planner import Planner, kinds_of
from gateway.runtime.program import load_solver
from gateway.runtime.tasks import in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gateway.core.classes import ServiceClass
    from gateway.core.classify import Classification
    from gateway.core.decide import Decision
    from gateway.core.observe import Progress
    from gateway.core.outcome import Record
    from gateway.core.plan import Kind, Wanted
    from gateway.core.policy import Policy
    from gateway.core.predict import ServerModel
    from gateway.runtime.agreed import Asked
    from gateway.runtime.fleet import Fleet
    from gateway.runtime.fleet_advice import FleetAdvice
    from gateway.runtime.shared import Shared

_log = logging.getLogger(__name__)

PUBLISH_SECONDS: Final = 1.0
PLAN_SECONDS: Final = 5.0

ENOUGH: Final = 50
"""Answers of a server that are learnt from between two publications: more tell nothing new, and cost time."""

_MOST_TOLD: Final = 50_000
"""Streams whose progress is remembered; far more than run at a time."""

_ADAPT: Final = 0.05
"""Share of each new answer in what is known of a server's steps for an event."""


class Learning:
    """What the gateway learns of its servers. One event loop owns it.

    Attributes:
        homes: Where conversations were answered last.
        purse: Budgets of exploration.
        plans: By target, the roles in force.
    """

    def __init__(
        self,
        fleet: Fleet,
        policy: Policy,
        *,
        progress: Callable[[], Iterable[Progress]] = tuple,
        shared: Shared | None = None,
        now: Callable[[], float] = clock.monotonic,
    ) -> None:
        """Know what the policy's file says.

        Args:
            fleet: Gets what was learnt, and tells how many requests each server has.
            policy: The policy in force.
            progress: Gives the streams that run.
            shared: What workers that share the traffic have in common; None where this one is alone.
            now: Monotonic seconds.
        """
        self.homes = Homes(notes=shared and shared.notes, held=shared and shared.held, name_of=fleet.name_of)
        self.purse = Purse()
        self.plans: Mapping[str, Plan] = {}
        self._fleet = fleet
        self._progress = progress
        self._agreed = shared and shared.agreed
        self._now = now
        self._learner, self._occupancy = Learner(), Occupancy()
        self._demand: dict[str, Demand] = defaultdict(Demand)
        self._planners: dict[str, Planner] = defaultdict(Planner)
        self._told: dict[str, Told] = {}
        self._steps: dict[str, float] = {}
        self._taken: dict[str, int] = {}
        self._caution, self._slower = Caution(), frozenset[tuple[str, str]]()
        self._advising = Advising()
        self._policy = policy
        fleet.on_count = lambda name, open_: self._occupancy.change(name, float(open_), self._now())
        self.govern(policy)

    def govern(self, policy: Policy) -> None:
        """Put another policy, or another fleet, in force; another file of what was learnt starts all anew."""
        known, now = policy.learning.known, self._now()
        if known != self._policy.learning.known:
            self._learner, self._told = Learner(), {}
        self._policy = policy
        states = self._fleet.snapshot.states
        # Of servers that learn together, those that the file knows go first.
        for state in sorted(states, key=lambda one: one.backend.name not in known):
            self._learner.arm(state.backend.name, arm(state.backend, known.get(state.backend.name)), now)
        for gone in self._learner.backends - {state.backend.name for state in states}:
            self._learner.drop(gone)
            self._occupancy.forget(gone)
            self._steps.pop(gone, None)
        served = {"", *(state.backend.target for state in states)}
        for of in (self._demand, self._planners):
            for target in of.keys() - served:
                del of[target]
        self._advising.keep(served)
        self.publish()

    def restarted(self, backend: str) -> None:
        """A server was started anew."""
        self._learner.restarted(backend)

    def asked(self, service: ServiceClass, classification: Classification, target: str) -> None:
        """A request came. One for a model that nobody serves asks nothing of the fleet."""
        if self._policy.learning.mode != STATIC and self._fleet.snapshot.roster.pool(target).names:
            self._demand[target].arrived(service.name, probabilities(classification), self._now())

    def decided(self, decision: Decision, workload: str) -> None:
        """A request goes where a decision says."""
        settings = self._policy.learning
        if not (settings.explore or settings.floor):
            return
        before = self.purse.explorable(), self.purse.due()
        self.purse.decided(
            (decision.target, workload),
            settings.explore,
            settings.floor,
            explored=decision.reason == reasons.EXPLORES,
            baseline=self._fleet.is_baseline(decision.candidates[0].backend),
            pays=decision.pays,
            cost=decision.seconds,
            lost=decision.lost,
        )
        if (self.purse.explorable(), self.purse.due()) != before:
            self._guide()

    def on_record(self, record: Record) -> None:
        """Take in a finished request."""
        self.homes.on_record(record)
        target = record.decision.target
        if (demand := self._demand.get(target)) is not None:
            demand.ended(record.decision.service, record.started, kept=self._kept(record))
        if regained := regained_by(record, self._policy.stale_after):
            self.purse.save((target, record.classification.label), regained)
        told = self._told.pop(record.request_id, None)
        taken = self._taken.get(record.backend, 0)
        if self._policy.learning.mode == FROZEN or taken >= ENOUGH or record.method == STAND_IN:
            return
        if self._policy.learning.explore:
            self._caution.add(record)
        self._taken[record.backend] = taken + 1
        if (sample := finished(record, told, self._occupancy)) is not None:
            self._learner.update(sample)
            if (steps := steps_per_event(record)) is not None:
                known = self._steps.get(record.backend, 1.0)
                self._steps[record.backend] = known + _ADAPT * (steps - known)

    def _kept(self, record: Record) -> bool | None:
        """Whether an answer kept the limits of its class; None where it has none, or there was no answer."""
        of = (one.limits for one in self._policy.classes if one.name == record.decision.service)
        limits = next(of, DEFAULT.limits)
        if not limits.any or record.outcome.status != OK or record.method == STAND_IN:
            return None
        return limits.kept(record.outcome.ttft, record.outcome.tpot)

    async def look(self) -> None:
        """Take in what the running streams tell, a little in each turn of the loop."""
        if self._policy.learning.mode != FROZEN:
            await in_turns(self._looks())

    def _looks(self) -> Iterator[None]:
        here: set[str] = set()
        for one in self._progress():
            here.add(one.request_id)
            told = self._told.get(one.request_id)
            steps = self._steps.get(one.backend, 1.0)
            if (sample := running(one, told, steps, self._occupancy)) is not None:
                self._learner.update(sample)
                self._told[one.request_id] = tell(one, told)
            yield
        if len(self._told) > _MOST_TOLD:  # records that were dropped on their way leave theirs behind
            self._told = {name: told for name, told in self._told.items() if name in here}

    async def renew(self) -> None:
        """Make anew what is known, a little in each turn of the loop, and hand it over."""
        self._taken.clear()
        now, stale = self._now(), self._policy.stale_after
        queues = {one.backend.name: one.queue(now, stale) for one in self._fleet.snapshot.states}
        self._learner.count(queues, now)
        if self._policy.learning.mode != FROZEN:
            await in_turns(self._learner.renew(now))
        self.publish()

    def publish(self) -> None:
        """Hand what is known to the snapshots."""
        learning = self._policy.learning
        self._fleet.learnt(learning.known if learning.mode == FROZEN else self._learner.models)
        self._guide()

    def _guide(self) -> None:
        explorable = self.purse.explorable() - self._slower if self._fleet.busy < KNEE else frozenset()
        self._fleet.guide(Guide(plan=self.plans, explorable=explorable, due=self.purse.due()))

    @property
    def models(self) -> Mapping[str, ServerModel]:
        """What is known, by backend."""
        states = self._fleet.snapshot.states
        return {one.backend.name: one.model for one in states if one.model is not None}

    @property
    def advice(self) -> Mapping[str, FleetAdvice]:
        """By target, what other fleet would give more."""
        return self._advising.now

    def as_json(self) -> dict[str, Any]:
        """Who decides, the roles, what is advised and what exploration has cost, for people and scripts."""
        learning = self._policy.learning
        return {
            "mode": learning.mode,
            "share": learning.share,
            "explored": self.purse.explored,
            "roles": {
                target: {service: sorted(members) for service, members in plan.roles.items()}
                for target, plan in self.plans.items()
            },
            "statements": {
                target: [
                    *(self.advice[target].words if target in self.advice else ()),
                    *(self.plans[target].words if target in self.plans else ()),
                ]
                for target in {**self.plans, **self.advice}
            },
        }

    async def run(self) -> None:
        """Publish each second, plan every few; until cancelled."""
        for ticks in count(1):
            await asyncio.sleep(PUBLISH_SECONDS)
            try:
                if ticks == 1 and self._policy.learning.mode != STATIC:
                    await asyncio.to_thread(load_solver)
                await self.look()
                await self.renew()
                if ticks % round(PLAN_SECONDS / PUBLISH_SECONDS) == 0:
                    await self.plan()
            except Exception:  # noqa: BLE001 - the next try may do, and requests go on meanwhile
                _log.exception("what was learnt is not up to date")

    async def plan(self) -> None:
        """Make the roles anew, beside the event loop."""
        if self._policy.learning.mode == STATIC:
            self._go_by({})
            return
        slower = self._caution.slower()
        if new := slower - self._slower:
            words = ", ".join(f"{workload} on {target}" for target, workload in sorted(new))
            _log.warning("nothing is explored for %s: no speculation is faster", words)
        self._slower = slower
        limits, now = {one.name: one.limits for one in (*self._policy.classes, DEFAULT)}, self._now()
        asked: Asked = {target: demand.wanted(limits, now) for target, demand in self._demand.items()}
        agreed, plans = self._agreed, dict[str, Plan]()
        if agreed is not None:
            asked, plans = agreed.asked(asked), {} if agreed.leads else {**agreed.told()}
        found = [(to, kinds_of(self._fleet.snapshot.states, to, now), wanted) for to, wanted in asked.items()]
        ready = [one for one in found if one[1] and one[2]]
        for target, kinds, wanted in ready:
            if target in plans:
                self._planners[target].follow(plans[target])
            else:
                plans[target] = await asyncio.to_thread(self._planned, target, kinds, wanted, now)
            if target in self._demand:
                self._demand[target].planned(plans[target].since)
        self._go_by(plans)
        for one in ready:
            await self._advising.renew(*one, now)

    def _go_by(self, plans: Mapping[str, Plan]) -> None:
        if self._agreed is not None:
            self._agreed.tell(plans)
        self.plans = plans
        self._guide()

    def _planned(self, target: str, kinds: list[Kind], wanted: tuple[Wanted, ...], now: float) -> Plan:
        before = self.plans.get(target, Plan())
        try:
            plan = self._planners[target].plan(kinds, wanted, now)
        except Exception:  # noqa: BLE001 - whatever it is, the last plan holds and others are planned for
            _log.exception("no new plan for %s", target)
            return before
        if new := [words for words in plan.alarms if words not in before.alarms]:
            _log.warning("%s: %s", target, "; ".join(new))
        return plan
