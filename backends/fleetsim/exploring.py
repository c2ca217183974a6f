"""The budget of exploration in event time, as :class:`gateway.runtime.learning.Learning` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backends.fleetsim.request import DONE
from gateway.core import reasons
from gateway.core.fleet import Guide
from gateway.core.hindsight import regained
from gateway.core.predict import ask, predict
from gateway.core.purse import KNEE, Purse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request
    from backends.fleetsim.view import View
    from gateway.core.classify import Classification
    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.plan import Plan
    from gateway.core.policy import Learning
    from gateway.core.predict import Prediction


class Chosen(NamedTuple):
    """A decision with what it was made from."""

    request: Request
    features: Features
    classification: Classification
    snapshot: Snapshot
    decision: Decision


class _Tried(NamedTuple):
    """A request that explores."""

    label: str
    server: str
    lost: float
    cost: float
    expected: Prediction


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
        self._stale_after = stale_after
        self._most = KNEE * sum(model.max_sequences for model in models)
        self._tried: dict[int, _Tried] = {}

    def guide(self, plan: Mapping[str, Plan], view: View) -> Guide:
        """What the next decision goes by."""
        if not self._settings.explore:
            return Guide(plan=plan)
        calm = sum(view.in_flight) < self._most
        explorable = self.purse.explorable() if calm else frozenset[str]()
        return Guide(plan=plan, explorable=explorable, due=self.purse.due())

    def decided(self, chosen: Chosen, state: BackendState, now: float) -> None:
        """Count a decision.

        Args:
            chosen: What was decided.
            state: Of the server that it sends the request to.
            now: Seconds.
        """
        settings, decision, label = self._settings, chosen.decision, chosen.classification.label
        if not settings.explore:
            return
        explored, first = decision.reason == reasons.EXPLORES, decision.candidates[0]
        self.purse.decided(
            label,
            settings.explore,
            settings.floor,
            explored=explored,
            baseline=state.backend.is_baseline,
            cost=first.cost,
            lost=decision.lost,
        )
        if explored and state.model is not None:
            queue = state.queue(now, self._stale_after)
            expected = predict(state.model, ask(chosen.features, chosen.classification), queue)
            tried = _Tried(label, first.backend, decision.lost, first.cost, expected)
            self._tried[chosen.request.serial] = tried

    def ended(self, request: Request, server: str) -> None:
        """An answer has ended on a server."""
        tried = self._tried.pop(request.serial, None)
        if tried is not None and tried.server == server and request.ending == DONE:
            took = request.ended - request.sent
            found = regained(tried.lost, tried.cost, tried.expected, request.output_tokens, took)
            self.purse.regained(tried.label, found)
