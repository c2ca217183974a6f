"""A decision in words: how the request was read, which route took it, what each backend costs or lacks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from gateway.core import reasons
from gateway.core.classify import reason
from gateway.core.decide import Decision
from gateway.core.predict import ask
from gateway.core.scorers import PREDICTING
from gateway.core.selectors import matches
from gateway.policy.conditions import conditions, describe
from gateway.policy.hinted import hint_words
from gateway.policy.predicted import (
    method_words,
    named_words,
    predicted_words,
    service_words,
    stand_in_words,
)
from gateway.policy.registry import SCORERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classify import Classification
    from gateway.core.decide import Candidate, NoCandidate
    from gateway.core.features import Features
    from gateway.core.fleet import Backend, BackendState, Snapshot
    from gateway.core.policy import Policy, Route
    from gateway.core.predict import Ask

CHOICES: Final = {
    reasons.LOWEST_COST: "it has the lowest cost",
    reasons.ONLY_CANDIDATE: "it is the only candidate",
    reasons.BASELINE_SHARE: "this request is part of the share that goes to a baseline",
    reasons.PINNED: "the caller chose it",
    reasons.HOLDER: "it holds the response that the request is about",
    reasons.EXPLORES: "it may be the best one, and too little is known of it to be sure",
    reasons.STAND_IN: "no server can take the request, once it has waited for room as long as it may",
    reasons.NONE_CAPABLE: "no available backend can do what is asked, so this one answers with its own error",
}
"""Why the first candidate is first, in words."""

REFUSALS: Final = {
    reasons.UNREADABLE: "the request cannot be read",
    reasons.OVERLOADED: "the gateway has as many requests open as it may",
    reasons.UNKNOWN_MODEL: "the model is not known",
    reasons.NO_ROUTE: "no route takes it",
    reasons.EMPTY_POOL: "no backend serves the model",
    reasons.ALL_REJECTED: "every backend of the model is out",
    reasons.UNKNOWN_BACKEND: "the backend that the caller chose is not known",
    reasons.PIN_NOT_ALLOWED: "the caller may not choose a backend",
}
"""Why there is no candidate, in words."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A route above the one taken.

    Attributes:
        because: The conditions that are not met, in words.
    """

    route: str
    because: str


@dataclass(frozen=True, slots=True)
class ExplainedCost:
    """One scorer's part of a cost; ``words`` says what the value means."""

    scorer: str
    value: float
    weight: float
    words: str


@dataclass(frozen=True, slots=True)
class ExplainedCandidate:
    """A backend that may take the request, in the order in which they are tried."""

    backend: str
    method: str
    draft_tokens: int
    cost: float
    parts: tuple[ExplainedCost, ...]
    words: str


@dataclass(frozen=True, slots=True)
class ExplainedRejection:
    """A backend that may not; ``reason`` is a code of :mod:`gateway.core.reasons`."""

    backend: str
    reason: str
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with its reasons, each in words; plain data for JSON.

    Attributes:
        backend: The first candidate; None if no backend can take the request.
        reason: A code of :mod:`gateway.core.reasons`.
        verdict: The outcome in one sentence.
        model: As the client sent it.
        target: The model it stands for.
        workload: Label.
        confidence: Of the label, 0 to 1.
        source: How the label was found.
        classified: Label and source in words.
        hint: Why the workload that the caller named does not decide, in words; empty where it does.
        route: The route that took the request, if one did.
        matched: Why it did, in words.
        passed_over: Routes above it.
        candidates: In the order in which they are tried.
        max_attempts: How many of them are tried.
        rejected: Backends of the same target that cannot take it.
        baseline: What the baseline share means for this request, in words; empty where there is none.
        service: Its service class, in words; empty where the policy has none.
        shadow: What the learnt score would do where it does not decide, in words; empty where it does.
        stand_ins: Who answers where no server can, in words; empty where nobody does.
    """

    backend: str | None
    reason: str
    verdict: str
    model: str
    target: str
    workload: str
    confidence: float
    source: str
    classified: str
    hint: str
    route: str | None
    matched: str
    passed_over: tuple[PassedOver, ...]
    candidates: tuple[ExplainedCandidate, ...]
    max_attempts: int
    rejected: tuple[ExplainedRejection, ...]
    baseline: str
    service: str
    shadow: str
    stand_ins: str
    policy_revision: str
    fleet_revision: str

    def as_json(self) -> dict[str, object]:
        """The fields by name, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """The explanation as lines of text."""
        lines = [self.verdict, "", f"model     {named_words(self.model, self.target)}"]
        lines.append(f"workload  {self.classified}")
        if self.hint:
            lines.append(f"          {self.hint}")
        if self.service:
            lines.append(f"class     {self.service}")
        if self.route is not None:
            lines.append(f"route     {self.route}: {self.matched}")
        lines += [f"          not {one.route}: {one.because}" for one in self.passed_over]
        if self.candidates:
            lines += ["", f"Candidates, best first; up to {self.max_attempts} are tried:"]
            width = max(len(one.backend) for one in self.candidates)
            lines += [
                f"{place:3}. {one.backend:{width}}  {one.words}"
                for place, one in enumerate(self.candidates, start=1)
            ]
        if self.rejected:
            lines += ["", "Out:"]
            width = max(len(one.backend) for one in self.rejected)
            lines += [f"     {one.backend:{width}}  {one.words} ({one.reason})" for one in self.rejected]
        lines += [
            line for said in (self.shadow, self.baseline, self.stand_ins) if said for line in ("", said)
        ]
        lines += ["", f"policy {self.policy_revision}, fleet {self.fleet_revision}"]
        return "\n".join(lines)


def explain(
    features: Features,
    classification: Classification,
    decision: Decision | NoCandidate,
    policy: Policy,
    snapshot: Snapshot,
    reasons: Sequence[str] = (),
) -> Explanation:
    """Say why a request goes where it goes; the arguments are those of the decision, and its result.

    Args:
        features: Facts of the request.
        classification: Its workload.
        decision: What was decided.
        policy: The policy that was in force.
        snapshot: The fleet that was seen.
        reasons: What speaks most for the label, where a model gave it.
    """
    states = {state.backend.name: state for state in snapshot.everybody}
    backends = {name: state.backend for name, state in states.items()}
    target = policy.aliases.get(features.model, features.model)
    passed, route = _routes(features, classification, policy)
    plan = decision if isinstance(decision, Decision) else None
    candidates = (
        tuple(
            _candidate(one, states[one.backend], ask(features, classification), policy.stale_after)
            for one in plan.candidates
        )
        if plan
        else ()
    )
    return Explanation(
        backend=candidates[0].backend if candidates else None,
        reason=decision.reason if isinstance(decision, Decision) else decision.kind,
        verdict=_verdict(decision, backends),
        model=features.model,
        target=target,
        workload=classification.label,
        confidence=classification.confidence,
        source=classification.source,
        classified=_classified(classification, features, reasons),
        hint=hint_words(features, policy.classifier),
        route=decision.route,
        matched=_matched(route, features, classification) if route and decision.route else "",
        passed_over=passed,
        candidates=candidates,
        max_attempts=plan.max_attempts if plan else 0,
        rejected=tuple(ExplainedRejection(one.backend, one.reason, one.detail) for one in decision.rejected),
        baseline=_baseline(plan, route, list(backends.values())) if plan and route else "",
        service=service_words(decision.service, policy, snapshot.guide.plan.get(target)),
        shadow=f"The learnt score would take {plan.shadow}." if plan and plan.shadow else "",
        stand_ins=stand_in_words(features, decision.target, snapshot, route),
        policy_revision=decision.policy_revision,
        fleet_revision=decision.fleet_revision,
    )


def _classified(classification: Classification, features: Features, reasons: Sequence[str]) -> str:
    said = reason(classification, features)
    return f"{said}: {', '.join(reasons)}" if reasons and classification.source.startswith("model:") else said


def _verdict(decision: Decision | NoCandidate, backends: dict[str, Backend]) -> str:
    if isinstance(decision, Decision):
        first = backends[decision.candidates[0].backend]
        return f"Goes to {first.name} ({method_words(first)}): {CHOICES[decision.reason]}."
    again = " It may be tried again: that passes by itself." if decision.busy else ""
    return f"No backend: {REFUSALS[decision.kind]}. {decision.detail}.{again}"


def _routes(
    features: Features, classification: Classification, policy: Policy
) -> tuple[tuple[PassedOver, ...], Route | None]:
    passed: list[PassedOver] = []
    for route in policy.routes:
        if matches(route.match, features, classification):
            return tuple(passed), route
        unmet = [one for one in conditions(route.match, features, classification) if not one.met]
        because = "; ".join(f"it wants {one.wanted}, this is {one.actual}" for one in unmet)
        passed.append(PassedOver(route.name, because))
    return tuple(passed), None


def _matched(route: Route, features: Features, classification: Classification) -> str:
    met = conditions(route.match, features, classification)
    actual = ", ".join(dict.fromkeys(one.actual for one in met if one.actual != one.wanted))
    return f"it takes {describe(route.match)}" + (f"; this is {actual}" if actual else "")


def _candidate(
    candidate: Candidate, state: BackendState, request: Ask, stale_after: float
) -> ExplainedCandidate:
    backend = state.backend
    parts = tuple(
        ExplainedCost(
            part.scorer,
            part.value,
            part.weight,
            predicted_words(state, request, stale_after)
            if part.scorer in PREDICTING
            else SCORERS[part.scorer].say(part.value),
        )
        for part in candidate.parts
    )
    cost = f"cost {candidate.cost:.2f} = {' + '.join(map(_term, parts))}; " if parts else ""
    words = cost + method_words(backend)
    return ExplainedCandidate(
        backend.name, backend.method, backend.draft_tokens, candidate.cost, parts, words
    )


def _term(part: ExplainedCost) -> str:
    return f"{part.weight:g} * {part.scorer} {part.value:.2f} ({part.words})"


def _baseline(decision: Decision, route: Route, backends: list[Backend]) -> str:
    if not route.baseline_share:
        return ""
    share = f"{route.baseline_share * 100:g} %"
    names = [one.name for one in backends if one.is_baseline and decision.target in ("", one.target)]
    if not names:
        return f"Baseline share {share}: not applied, as every backend of this target speculates."
    if decision.reason == reasons.PINNED:
        return f"Baseline share {share}: not applied, as the caller chose the backend."
    if decision.reason == reasons.HOLDER:
        return f"Baseline share {share}: not applied, as no other backend holds the response."
    this = "is" if decision.reason == reasons.BASELINE_SHARE else "is not"
    return (
        f"Baseline share {share}: so much of this route goes to {' or '.join(names)}, to keep measuring the "
        f"speed-up; this request {this} part of it."
    )
