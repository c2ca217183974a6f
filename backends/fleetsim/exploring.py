"""The budget of exploration in event time, as :class:`gateway.runtime.learning.Learning` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backends.fleetsim.request import DONE
from gateway.core import reasons
from gateway.core.fleet import Guide
from gateway.core.hindsight import expected_first, regained
from gateway.core.purse import KNEE, Purse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request
    from backends.fleetsim.view import View
    from gateway.core.classify import Classification
    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.fleet import Snapshot
    from gateway.core.plan import Plan
    from gateway.core.policy import Learning


class Chosen(NamedTuple):
    """A decision with what it was made from."""

    request: Request
    features: Features
    classification: Classification
    snapshot: Snapshot
    decision: Decision


class Exploring:
    """What may be explored, and what it has cost.

    Args:
        settings: Of the policy.
        stale_after: Age in seconds beyond which scraped load is ignored.
        models: What each server runs.
    """

    def __init__(self, settings: Learning, stale_after: float, models: Sequence[Model]) -> None:
        self.purse = Purse()
        self._settings = settings
        self._counts = bool(settings.explore or settings.floor)
        self._stale_after = stale_after
        self._most = KNEE * sum(model.max_sequences for model in models)
        self._tried: dict[int, Chosen] = {}

    def guide(self, plan: Mapping[str, Plan], view: View) -> Guide:
        """What the next decision goes by."""
        if not self._counts:
            return Guide(plan=plan)
        calm = sum(view.in_flight) < self._most
        explorable = self.purse.explorable() if calm else frozenset[tuple[str, str]]()
        return Guide(plan=plan, explorable=explorable, due=self.purse.due())

    def decided(self, chosen: Chosen, *, baseline: bool) -> None:
        """Count a decision, and whether it sends the request to a server without a draft."""
        settings, decision = self._settings, chosen.decision
        if not self._counts:
            return
        explored = decision.reason == reasons.EXPLORES
        self.purse.decided(
            (decision.target, chosen.classification.label),
            settings.explore,
            settings.floor,
            explored=explored,
            baseline=baseline,
            pays=decision.pays,
            cost=decision.seconds,
            lost=decision.lost,
        )
        if explored:
            self._tried[chosen.request.serial] = chosen

    def ended(self, request: Request, server: str) -> None:
        """An answer has ended on a server."""
        tried = self._tried.pop(request.serial, None)
        if tried is None or request.ending != DONE or tried.decision.candidates[0].backend != server:
            return
        _, features, classification, snapshot, decision = tried
        expected = expected_first(
            decision, features, classification, snapshot, request.sent, self._stale_after
        )
        if expected is not None:
            took, cost = request.ended - request.sent, decision.candidates[0].cost
            found = regained(decision.lost, cost, expected, request.output_tokens, took)
            self.purse.save((decision.target, classification.label), found)
