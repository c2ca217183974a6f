from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.curve import affine
from gateway.core.learn import AT_A_TIME, LOOKUP, Arm, Learner, Sample, Span, guess
from gateway.core.predict import SAMPLED, Ask, Cell, ServerModel, predict

CODE = Cell("code", 0, SAMPLED)
STEP = 0.03
PRIOR = ServerModel(other_steps_per_token=0.4, step_seconds=affine(STEP, 1.0), prefill_seconds=1e-4)
DRAFT = Arm("draft", draft_tokens=4, prior=PRIOR)
PLAIN = Arm("plain", prior=replace(PRIOR, other_steps_per_token=1.0))


def answer(backend: str, at: float, steps: float = 100.0, tokens: float = 300.0, **given: Any) -> Sample:
    fields: dict[str, Any] = {
        "prompt_tokens": 100, "prompt_chars": 400, "prefill_tokens": 100, "ttft": 0.055, "steps": steps,
        "decoded": tokens, "spans": (Span(1.0, steps * STEP, steps),), "output_tokens": int(tokens) + 1,
    }  # fmt: skip
    fields |= given
    return Sample(backend, at, {"code": 1.0}, **{"computed_tokens": fields["prefill_tokens"]} | fields)


def learner(**arms: Arm) -> Learner:
    one = Learner()
    for name, arm in arms.items():
        one.arm(name, arm)
    return one


def taught(arm: Arm, times: int = 60, **given: Any) -> ServerModel:
    one = learner(a=arm)
    for at in range(times):
        one.update(answer("a", float(at * 10), **given))
        one.publish(float(at * 10))
    return one.publish(times * 10.0)["a"]


def test_before_the_first_request_the_prior_is_believed() -> None:
    model = learner(a=DRAFT).publish(0.0)["a"]
    assert model.fingerprint == "draft"
    assert model.other_steps_per_token == pytest.approx(0.4)
    assert model.step_seconds == pytest.approx(PRIOR.step_seconds)
    assert model.prefill_seconds == 1e-4
    assert model.measured == 0.0


def test_without_a_prior_a_longer_draft_is_thought_to_take_fewer_steps() -> None:
    assert guess(0).other_steps_per_token == 1.0
    assert guess(7).other_steps_per_token < guess(3).other_steps_per_token
    assert guess(7, LOOKUP).other_steps_per_token > guess(7).other_steps_per_token
    assert learner(a=Arm("x", draft_tokens=3)).publish(0.0)["a"].other_steps_per_token == pytest.approx(
        guess(3).other_steps_per_token
    )


def test_acceptance_step_times_and_lengths_are_learnt() -> None:
    model = taught(DRAFT, steps=60.0, spans=(Span(4.0, 60 * 0.05, 60.0),))
    assert model.steps_per_token[CODE] == pytest.approx(0.2, rel=0.05)
    assert model.step(4.0) == pytest.approx(0.05, rel=0.05)
    assert model.output_tokens["code"] == pytest.approx(301.0, rel=0.05)
    assert model.mean_steps == pytest.approx(62.0, rel=0.2)
    assert model.evidence["code"] > 30.0
    assert model.measured > 10.0


def test_a_server_without_a_draft_takes_a_step_a_token_whatever_it_answers() -> None:
    model = taught(PLAIN, steps=250.0, tokens=300.0)
    assert (model.steps_per_token, model.other_steps_per_token, model.spread) == ({}, 1.0, {})


def test_the_price_of_prompts_is_learnt_and_stretches_decoding() -> None:
    one = learner(a=PLAIN)
    for at in range(200):
        one.update(
            answer("a", float(at), prefill_tokens=2000, prompt_tokens=2000, ttft=0.045 + 0.4, spans=())
        )
        one.publish(float(at))
    model = one.publish(200.0)["a"]
    assert model.prefill_seconds == pytest.approx(2e-4, rel=0.1)
    assert model.stretch == pytest.approx(1 / 0.6, rel=0.1)


def test_prompts_beside_a_span_are_not_taken_for_slow_steps() -> None:
    one, draws = learner(a=PLAIN), random.Random(8)  # noqa: S311 - no secret
    for at in range(0, 600, 2):
        tokens = draws.randrange(4000)
        first, ttft = at + 0.5, 0.045 + tokens * 1e-4
        one.update(
            Sample("a", first, {"code": 1.0}, prefill_tokens=tokens, computed_tokens=tokens, ttft=ttft)
        )
        span = Span(1.0, 30 * STEP + tokens * 1e-4, 30.0)
        one.update(Sample("a", at + 1.35, {"code": 1.0}, steps=30, decoded=30, spans=(span,)))
        one.publish(float(at))
    assert one.publish(600.0)["a"].step(1.0) == pytest.approx(STEP, rel=0.05)


def test_spans_follow_each_other_up_to_the_sample() -> None:
    one = learner(a=PLAIN)
    spans = (Span(1.0, 3.0, 100.0), Span(2.0, 0.0, 0.0), Span(4.0, 6.0, 200.0))
    one.update(Sample("a", 9.0, {"code": 1.0}, steps=300, decoded=300, spans=spans))
    assert one.publish(9.0)["a"].measured == pytest.approx(1.0 * (1 - 0.5 / 600) + 0.5)


def test_a_single_step_tells_nothing_of_the_times() -> None:
    one = learner(a=PLAIN)
    one.update(answer("a", 9.0, ttft=None, spans=(Span(1.0, 90 * STEP, 1.0),)))
    found = one.publish(9.0)["a"]
    assert (found.measured, found.step(1.0)) == (0.0, pytest.approx(STEP))


def test_two_short_spans_that_took_long_are_no_change_of_the_server() -> None:
    one = learner(a=PLAIN)
    for second in range(60):
        one.update(answer("a", float(second), tokens=100.0))
        before = one.publish(float(second))["a"]
    for second in (60, 61):
        slow = Span(1.0, 3 * 3 * STEP, 3.0)
        one.update(answer("a", float(second), tokens=3.0, ttft=None, output_tokens=None, spans=(slow,)))
        after = one.publish(float(second))["a"]
    assert after.step(1.0) == pytest.approx(before.step(1.0), rel=0.05)


def test_the_usual_number_of_requests_follows_what_is_counted() -> None:
    one = learner(a=DRAFT)
    assert one.publish(0.0)["a"].usual is None
    one.count({"a": 8.0, "unknown": 3.0}, 100.0)
    assert one.publish(100.0)["a"].usual == 8.0
    for second in range(101, 121):
        one.count({"a": 2.0}, float(second))
    assert one.publish(120.0)["a"].usual == pytest.approx(2.0 + 6.0 * math.exp(-1.0))


def test_a_slow_client_teaches_acceptance_only() -> None:
    model = taught(DRAFT, steps=60.0, backpressured=True, spans=(Span(1.0, 99.0, 60.0),), ttft=9.0)
    assert model.steps_per_token[CODE] == pytest.approx(0.2, rel=0.05)
    assert model.step_seconds == pytest.approx(PRIOR.step_seconds, rel=0.01)
    assert model.prefill_seconds == 1e-4


def test_an_answer_of_several_servers_teaches_nothing() -> None:
    before = learner(a=DRAFT).publish(0.0)["a"]
    one = learner(a=DRAFT)
    one.update(answer("a", 0.0, resumed=True))
    assert one.publish(0.0)["a"] == before
    one.update(answer("unknown", 0.0))


def test_a_cancelled_answer_says_nothing_of_lengths() -> None:
    model = taught(DRAFT, output_tokens=None, spans=())
    assert "code" not in model.output_tokens
    assert model.steps_per_token[CODE] == pytest.approx(1 / 3, rel=0.05)


def test_steps_that_cannot_be_one_requests_are_bounded() -> None:
    assert taught(DRAFT, steps=10.0, tokens=300.0).steps_per_token[CODE] >= 0.2 * 0.99


def test_too_few_steps_say_nothing() -> None:
    assert taught(DRAFT, steps=1.0, tokens=5.0, spans=()).evidence == {}


def test_replicas_learn_acceptance_together() -> None:
    one = learner(a=DRAFT, b=DRAFT)
    for at in range(40):
        one.update(answer("a", float(at), steps=60.0, spans=(Span(1.0, 60 * 0.06, 60.0),)))
    models = one.publish(40.0)
    assert models["b"].steps_per_token == models["a"].steps_per_token
    assert models["b"].step(1.0) == pytest.approx(0.06, rel=0.2)


def test_acceptance_that_falls_with_load_is_found() -> None:
    one, draws = learner(a=DRAFT), random.Random(9)  # noqa: S311 - no secret
    for at in range(2000):
        busy = draws.random() < 0.5
        batch, theta = (64.0, 0.8) if busy else (2.0, 0.3)
        steps = 300.0 * theta
        one.update(answer("a", float(at), steps=steps, spans=(Span(batch, steps * STEP, steps),)))
        if at % 10 == 0:
            one.publish(float(at))
    model = one.publish(2000.0)["a"]
    calm = model.step(2.0) * model.steps_per_token[CODE]
    loaded = model.step(64.0) * model.steps_per_token[CODE]
    assert calm == pytest.approx(STEP * 0.3, rel=0.25)
    assert loaded == pytest.approx(STEP * 0.8, rel=0.25)


def test_a_server_that_gets_slow_is_noticed_within_seconds() -> None:
    one = learner(a=PLAIN)
    for at in range(100):
        one.update(answer("a", float(at), steps=30.0, tokens=30.0))
        one.publish(float(at))
    for at in range(100, 104):
        one.update(answer("a", float(at), steps=30.0, tokens=30.0, spans=(Span(1.0, 30 * STEP * 2.5, 30.0),)))
        one.publish(float(at))
    assert one.publish(104.0)["a"].step(1.0) == pytest.approx(2.5 * STEP, rel=0.15)


def test_requests_that_wait_are_not_taken_for_a_larger_batch() -> None:
    # Steps of a batch of 16 take twice those of one request; 24 more wait, and change nothing.
    prior = ServerModel(step_seconds=affine(0.02, 4.2))
    model = taught(
        Arm("f", prior=prior, max_running=16),
        times=200,
        steps=100.0,
        spans=(Span(40.0, 100.0 * prior.step(16.0), 100.0),),
    )
    assert model.step(16.0) == pytest.approx(prior.step(16.0), rel=0.01)


def test_a_server_that_compiles_at_first_is_not_taken_for_slow() -> None:
    stalled = (Span(1.0, 100 * 100.0 * STEP, 100.0),)
    assert taught(PLAIN, 1, spans=stalled, ttft=100.0).step(1.0) < 2.5 * STEP
    one = learner(a=PLAIN)
    one.update(answer("a", 0.0, spans=stalled, ttft=100.0))
    for at in range(1, 6):
        one.publish(float(at * 10))
        one.update(answer("a", float(at * 10)))
    model = one.publish(60.0)["a"]
    assert model.step(1.0) == pytest.approx(STEP, rel=0.3)
    assert model.prefill_seconds < 3.0 * PRIOR.prefill_seconds


def test_another_configuration_under_the_same_name_starts_anew() -> None:
    one = learner(a=DRAFT)
    for at in range(40):
        one.update(answer("a", float(at), steps=60.0))
    known = one.publish(40.0)["a"]
    one.arm("a", DRAFT)
    assert one.publish(40.0)["a"] == known, "the same one is kept"
    one.arm("a", replace(DRAFT, fingerprint="other"))
    assert one.publish(40.0)["a"].evidence == {}
    assert one.backends == {"a"}
    one.drop("a")
    one.drop("a")
    assert one.publish(41.0) == {}


def test_after_a_restart_little_is_trusted() -> None:
    one = learner(a=DRAFT)
    for at in range(40):
        one.update(answer("a", float(at), steps=60.0))
    before = one.publish(40.0)["a"]
    one.restarted("a")
    one.restarted("unknown")
    after = one.publish(40.0)["a"]
    assert after.evidence["code"] < 0.3 * before.evidence["code"]
    assert after.measured < 0.3 * before.measured


def test_a_server_that_nothing_is_known_of_is_thought_to_be_like_the_others_of_its_target() -> None:
    one = learner(a=Arm("a"), b=Arm("b", draft_tokens=4), c=Arm("c", target="other"))
    for at in range(40):
        one.update(answer("a", float(at), steps=60.0, tokens=60.0, spans=(Span(1.0, 60 * 0.002, 60.0),)))
        one.publish(float(at))
    models = one.publish(40.0)
    assert models["b"].step(1.0) < 0.005
    assert models["c"].step(1.0) == pytest.approx(0.02)


def test_a_better_acceptance_lowers_the_predicted_time() -> None:
    ask = Ask(((CODE, 1.0),), 100.0, 0, None)
    times = [predict(taught(DRAFT, steps=steps), ask, 3.0).completion for steps in (200.0, 120.0, 70.0)]
    assert times == sorted(times, reverse=True)


def test_of_many_servers_some_are_made_anew_at_a_time_and_all_in_turn() -> None:
    one = Learner()
    names = [f"s{at}" for at in range(AT_A_TIME * 2 + 3)]
    for name in names:
        one.arm(name, PLAIN)
    before = one.publish(0.0)
    seen = set()
    for at in range(3):
        after = one.publish(float(at))
        seen |= {name for name in names if after[name] is not before[name]}
        assert len(after) == len(names)
    assert seen == set(names)


@pytest.mark.parametrize("stop", range(9))
def test_servers_may_come_change_and_go_while_models_are_made_anew(stop: int) -> None:
    one = learner(a=DRAFT, b=PLAIN, c=PLAIN)
    kept = one.models["c"]
    for at in range(40):
        one.update(answer("c", float(at), steps=60.0))
    steps = one.renew(40.0)
    for _ in range(stop):
        next(steps)
    other = replace(DRAFT, fingerprint="other", draft_tokens=2)
    one.arm("a", other)
    one.drop("b")
    one.arm("d", PLAIN)
    list(steps)
    assert set(one.models) == {"a", "c", "d"}
    assert one.models["a"].fingerprint == "other"
    assert one.models["c"].measured > kept.measured
    assert one.models["c"] == one.publish(40.0)["c"]


def test_a_step_of_making_models_anew_is_about_one_server() -> None:
    one = Learner()
    for at in range(100):
        one.arm(f"s{at}", replace(PLAIN, fingerprint=f"f{at % 4}"))
    changed, before = [], one.models
    for _ in one.renew(1.0):
        after = one.models
        changed.append(sum(after[name] is not before[name] for name in after))
        before = after
    assert max(changed) == 1
    assert sum(changed) >= AT_A_TIME - 1
