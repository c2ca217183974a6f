from __future__ import annotations

from types import SimpleNamespace

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from gateway.core.fleet import Guide
from gateway.core.plan import Plan
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.telemetry.learned import observe_learning
from tests.factories import TARGET, snapshot, state

MODEL = ServerModel(
    steps_per_token={Cell("code", 0, SAMPLED): 0.25},
    step_seconds=(0.01, 0.01, 0.02),
    evidence={"code": 9.0, "math": 1.0},
    measured=3.0,
)


def read(seen, advice):
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    observe_learning(meter, lambda: seen, lambda: 0.0, lambda: 7, lambda: advice)
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {
        (metric.name.removeprefix("specroute."), *point.attributes.values()): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_what_was_learnt_planned_and_advised_is_shown():
    plan = Plan({"chat": frozenset({"a"}), "bulk": frozenset({"b"})}, kept=0.5)
    seen = snapshot(
        state("a", model=MODEL, method="mtp", draft_tokens=4, in_flight=2),
        state("b", model=MODEL),
        state("c", method="mtp", draft_tokens=4),
        guide=Guide(plan={TARGET: plan}),
    )
    advice = {TARGET: SimpleNamespace(routing=0.05, consolidating={"a": 0.1})}
    assert read(seen, advice) == {
        ("learned.mean_accepted_length", "a", "code"): 4.0,
        ("learned.step", "a"): 0.02,
        ("learned.step", "b"): 0.01,
        ("explored",): 7,
        ("plan.role", "a", "chat"): 1.0,
        ("plan.role", "b", "bulk"): 1.0,
        ("plan.kept", TARGET): 0.5,
        ("advice.routing_gain", TARGET): 0.05,
        ("advice.consolidation_gain", TARGET, "a"): 0.1,
    }


def test_before_anything_is_known_nothing_is_claimed():
    assert read(snapshot(state("a")), {}) == {("explored",): 7}
