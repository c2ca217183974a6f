from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core import reasons
from gateway.core.classify import Classification, reason
from gateway.core.decide import Decision, Draw, NoCandidate, decide
from gateway.core.features import Features, Hints, RequestView, Turn, extract
from gateway.core.fleet import Guide
from gateway.core.plan import Plan
from gateway.core.rules import RULES
from gateway.policy.explain import CHOICES, REFUSALS, Explanation, explain
from gateway.policy.load import Config, Loaded, load
from tests.factories import SERVER_MODEL

if TYPE_CHECKING:
    from gateway.core.fleet import Snapshot

FLEET = """\
version: 1
backends:
  - {name: base, url: "http://h:1", model: m/x, max_in_flight: 10}
  - {name: fast, url: "http://h:2", model: m/x, method: dflash, draft_tokens: 7, max_in_flight: 10}
  - {name: short, url: "http://h:3", model: m/x, method: mtp, draft_tokens: 2, max_in_flight: 10}
  - {name: alone, url: "http://h:4", model: m/y, method: mtp, draft_tokens: 2}
"""
POLICY = """\
version: 1
models: {x: m/x}
allow_pin: true
defaults: {baseline_share: 5%}
routes:
  - name: long
    match: {min_prompt_tokens: 9000, stream: true}
    prefer: [any]
  - name: math
    match: {workload: [math, code], model: [x, m/y]}
    prefer: [fast, short, alone]
  - name: chat
    match: {workload: chat}
    prefer: [{method: mtp}, fast]
    baseline_share: 0
"""
RULE = next(rule for rule in RULES if rule.label == "math")
MATH = Classification("math", 0.9, f"rule:{RULE.name}")
CHAT = Classification("chat", 0.2, "default")


@pytest.fixture(name="config")
def _config() -> Config:
    loaded = load(FLEET, POLICY)
    assert isinstance(loaded, Loaded)
    return loaded.value


def request(**fields: object) -> Features:
    base = extract(RequestView("chat", "x", turns=(Turn("user", "Solve 2x = 4", 12),)))
    return replace(base, **fields)


def explained(
    config: Config,
    features: Features,
    label: Classification = MATH,
    *,
    explore: float = 0.99,
    snapshot: Snapshot | None = None,
) -> Explanation:
    seen = snapshot or config.fleet.idle()
    decision = decide(features, label, seen, config.policy, Draw(explore, 0.0), 0.0)
    return explain(features, label, decision, config.policy, seen)


def with_load(config: Config, **in_flight: int) -> Snapshot:
    idle = config.fleet.idle()
    states = (replace(one, in_flight=in_flight.get(one.backend.name, 0)) for one in idle.states)
    return replace(idle, states=tuple(states))


def test_every_reason_of_the_core_has_words() -> None:
    assert set(CHOICES) == set(reasons.CHOICES)
    assert set(REFUSALS) == set(reasons.REFUSALS)


def test_a_decision_is_told_from_the_request_to_the_costs(config: Config) -> None:
    told = explained(config, request())
    assert told.backend == "fast"
    assert told.reason == reasons.LOWEST_COST
    assert told.verdict == "Goes to fast (dflash, 7 draft tokens): it has the lowest cost."
    assert (told.model, told.target) == ("x", "m/x")
    assert (told.workload, told.confidence, told.source) == ("math", 0.9, f"rule:{RULE.name}")
    assert told.classified == reason(MATH, request())
    assert RULE.because in told.classified
    assert told.route == "math"
    assert told.matched == "it takes model m/y or x, workload code or math; this is model x, workload math"
    assert [(one.route, one.because) for one in told.passed_over] == [
        (
            "long",
            "it wants a stream, this is no stream; it wants at least 9000 prompt tokens, this is about 3 prompt tokens",
        )
    ]
    assert [(one.backend, one.method, one.draft_tokens, one.cost) for one in told.candidates] == [
        ("fast", "dflash", 7, 0.0),
        ("short", "mtp", 2, 1.0),
    ]
    assert [(part.scorer, part.value, part.weight, part.words) for part in told.candidates[1].parts] == [
        ("preference", 1.0, 1.0, "second choice"),
        ("load", 0.0, 128.0, "idle"),
    ]
    assert told.max_attempts == 3
    assert [(one.backend, one.reason) for one in told.rejected] == [("base", reasons.NOT_PREFERRED)]
    assert told.baseline == (
        "Baseline share 5 %: so much of this route goes to base, to keep measuring the speed-up; "
        "this request is not part of it."
    )
    assert (told.policy_revision, told.fleet_revision) == (config.policy.revision, config.fleet.revision)


def test_a_hint_that_does_not_decide_is_told_with_the_nearest_workload(config: Config) -> None:
    told = explained(config, request(hints=Hints(workload="maths")))
    assert told.hint == "hint 'maths' is no workload; did you mean 'math'?"
    assert f"\n          {told.hint}\n" in str(told)
    far = explained(config, request(hints=Hints(workload="zzzz"))).hint
    assert far.startswith("hint 'zzzz' is no workload; workloads: chat, code, ")
    assert "sk-1234" not in explained(config, request(hints=Hints(workload="sk-1234"))).hint
    assert explained(config, request(hints=Hints(workload="math"))).hint == ""
    assert explained(config, request()).hint == ""


def test_a_hint_that_the_policy_does_not_trust_is_told_as_such() -> None:
    loaded = load(FLEET, POLICY + "classify: {trust_hints: false}\n")
    assert isinstance(loaded, Loaded)
    told = explained(loaded.value, request(hints=Hints(workload="math")))
    assert told.hint == "hint 'math' does not count: the policy has `trust_hints: false`"


def test_load_shows_in_the_costs_and_moves_the_request(config: Config) -> None:
    told = explained(config, request(), snapshot=with_load(config, fast=5))
    assert [one.backend for one in told.candidates] == ["short", "fast"]
    assert told.candidates[1].words == (
        "cost 64.00 = 1 * preference 0.00 (first choice) + 128 * load 0.50 (at 50% of its in-flight limit); "
        "dflash, 7 draft tokens"
    )
    full = explained(config, request(), snapshot=with_load(config, fast=10))
    assert full.reason == reasons.ONLY_CANDIDATE
    assert ("fast", reasons.FULL) in [(one.backend, one.reason) for one in full.rejected]


def test_the_baseline_share_is_told_either_way(config: Config) -> None:
    told = explained(config, request(), explore=0.01)
    assert told.backend == "base"
    assert told.verdict.startswith("Goes to base (no speculation): this request is part of the share")
    assert told.baseline.endswith("this request is part of it.")
    without = explained(config, request(), CHAT)
    assert (without.baseline, without.shadow) == ("", "")
    assert "\n\n\n" not in str(without)
    pinned = explained(config, request(hints=Hints(backend="short")))
    assert pinned.baseline == "Baseline share 5 %: not applied, as the caller chose the backend."
    assert [one.reason for one in pinned.rejected] == [reasons.NOT_PINNED, reasons.NOT_PINNED]
    other = explained(config, request(model="m/y"))
    assert other.baseline == "Baseline share 5 %: not applied, as every backend of this target speculates."


def test_a_request_that_no_backend_is_capable_of(config: Config) -> None:
    told = explained(config, request(parameters=frozenset({"min_p"})))
    assert told.reason == reasons.NONE_CAPABLE
    assert "refuses min_p" in {one.words for one in told.rejected}


@pytest.mark.parametrize(
    ("fields", "label", "kind", "words"),
    [
        ({"model": "nope"}, MATH, reasons.UNKNOWN_MODEL, "the model is not known"),
        ({"model": "m/x"}, MATH, reasons.NO_ROUTE, "no route takes it"),
        ({"hints": Hints(backend="zz")}, MATH, reasons.UNKNOWN_BACKEND, "that the caller chose is not known"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    config: Config, fields: dict[str, object], label: Classification, kind: str, words: str
) -> None:
    told = explained(config, request(**fields), label)
    assert (told.backend, told.reason, told.candidates, told.max_attempts) == (None, kind, (), 0)
    assert words in told.verdict
    assert told.baseline == ""
    assert "may be tried again" not in told.verdict


def test_a_full_fleet_may_be_tried_again(config: Config) -> None:
    told = explained(config, request(), snapshot=with_load(config, fast=10, short=10, base=10))
    assert told.reason == reasons.ALL_REJECTED
    assert told.verdict.endswith("It may be tried again: that passes by itself.")
    assert told.route == "math"


@pytest.mark.parametrize("source", ["hint", "model:v1", "default"])
def test_a_classification_is_told_as_the_core_tells_it(config: Config, source: str) -> None:
    label = Classification("math", 0.8, source)
    assert explained(config, request(), label).classified == reason(label, request())


def test_the_text_has_everything_and_the_json_is_plain(config: Config) -> None:
    told = explained(config, request())
    lines = str(told).splitlines()
    assert lines[0] == told.verdict
    assert "model     x, which stands for m/x" in lines
    assert f"workload  {told.classified}" in lines
    assert f"route     math: {told.matched}" in lines
    assert f"          not long: {told.passed_over[0].because}" in lines
    assert f"  1. fast   {told.candidates[0].words}" in lines
    assert f"  2. short  {told.candidates[1].words}" in lines
    assert f"     base  {told.rejected[0].words} (not_preferred)" in lines
    assert told.baseline in lines
    assert lines[-1] == f"policy {config.policy.revision}, fleet {config.fleet.revision}"
    document = json.loads(json.dumps(told.as_json()))
    assert document["candidates"][0]["parts"][1]["words"] == "idle"


def test_the_text_of_a_refusal_and_of_a_request_without_a_model(config: Config) -> None:
    refused = str(explained(config, request(model="nope")))
    assert "Candidates" not in refused
    assert "model     nope" in refused.splitlines()
    told = explained(config, request(model=""), CHAT)
    assert "model     none named: any target" in str(told).splitlines()
    assert told.target == ""


def test_a_decision_made_before_is_told_as_it_was(config: Config) -> None:
    features, seen = request(), config.fleet.idle()
    decision = decide(features, MATH, seen, config.policy, Draw(0.9, 0.0), 0.0)
    assert isinstance(decision, Decision)
    told = explain(features, MATH, replace(decision, policy_revision="old"), config.policy, seen)
    assert told.policy_revision == "old"
    refusal = NoCandidate(
        reasons.EMPTY_POOL, "d", busy=False, route=None, rejected=(), policy_revision="p", fleet_revision="f"
    )
    assert (
        explain(features, MATH, refusal, config.policy, seen).verdict
        == "No backend: no backend serves the model. d."
    )


AUTO = "learning: {mode: auto}\nclasses: [{name: chat, ttft: 2s, tpot: 900ms, match: {stream: true}}, {name: bulk}]\n"


def automatic(extra: str = AUTO) -> Config:
    loaded = load(FLEET, POLICY + extra)
    assert isinstance(loaded, Loaded)
    return loaded.value


def learnt(config: Config, **in_flight: int) -> Snapshot:
    busy = with_load(config, **in_flight)
    models = {"fast": SERVER_MODEL, "base": SERVER_MODEL}
    states = tuple(replace(one, model=models.get(one.backend.name)) for one in busy.states)
    plan = Plan({"chat": frozenset({"fast"})}, caps={"fast": 40})
    return replace(busy, states=states, guide=Guide(plan={"m/x": plan}))


def test_predicted_seconds_are_told_in_words() -> None:
    config = automatic()
    told = explained(config, request(), snapshot=learnt(config, fast=3))
    by_name = {one.backend: one.words for one in told.candidates}
    assert "the first token after 0.0" in by_name["fast"]
    assert "ms each; the 3 there lose " in by_name["fast"]
    assert "nothing is known of its speed" in by_name["short"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("chat", "chat: TTFT within 2 s; 900 ms a token; kept for it: fast"), ("bulk", "bulk")],
)
def test_the_class_is_told_with_its_limits_and_servers(name: str, words: str) -> None:
    config = automatic()
    seen, service = learnt(config), next(one for one in config.policy.classes if one.name == name)
    decision = decide(request(), MATH, seen, config.policy, Draw(0.99, 0.0), 0.0, None, service)
    told = explain(request(), MATH, decision, config.policy, seen)
    assert told.service == words
    assert f"class     {words}" in str(told)


def test_a_shadow_is_told() -> None:
    config = automatic("learning: {mode: shadow}\n")
    told = explained(config, request(), snapshot=learnt(config))
    assert told.shadow.startswith("The learnt score would take ")
    assert told.shadow in str(told)
    assert told.service == ""
