"""What holds of learning and of the score that follows, whatever servers do and clients ask.

What a learner that routes must pass, and the test here or elsewhere that holds it to that:

=====================================================  =========================================================
an arm that improves never gets a smaller share         a_server_that_gets_better_never_gets_fewer
same speed, other lengths: same score                   lengths_of_answers_do_not_change_what_a_token_is_thought...
chunks bunched otherwise: same choice                   how_tokens_are_bunched_into_events_changes_nothing
a slow client changes no estimate                       a_slow_client_changes_nothing_of_a_servers_speed
a load ramp moves the share across the crossing once    a_rising_load_moves_requests_across_a_crossing_once
a restart: no negative rate, learnt again               a_server_that_comes_back_is_learnt_again; counters that
                                                        fall: tests/unit/core/test_counters.py
a constant mix is said to tell nothing                  a_mix_that_never_changes_tells_nothing
a storm of cancellations leaves what is known           a_storm_of_cancellations_leaves_what_is_known
budget and floor hold in every stretch of time          budget_and_floor_hold_in_any_stretch
what is not seen for ten minutes is less sure           what_was_not_seen_for_ten_minutes_may_be_the_best_again
four workers agree                                      four_workers_that_see_a_quarter_each_agree
exact acceptance and that of events agree               events_tell_what_the_server_tells_where_each_is_a_step
another policy's estimate agrees with running it        tests/unit/core/test_replay.py, and bar 14 of the bench
=====================================================  =========================================================
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.core import attribution, reasons
from gateway.core.choice import Draw
from gateway.core.classify import Classification
from gateway.core.curve import affine
from gateway.core.decide import Decision, decide
from gateway.core.fleet import Guide
from gateway.core.learn import Arm, Learner, Sample, Span
from gateway.core.observe import finished
from gateway.core.outcome import Attempt, Outcome, Speculation, Usage
from gateway.core.policy import AUTO, Learning
from gateway.core.predict import SAMPLED, Ask, Cell, ServerModel, predict
from gateway.core.purse import BURST, DEBT, Purse
from tests.factories import TARGET, features, policy, record, route, snapshot, state

if TYPE_CHECKING:
    from collections.abc import Sequence

CODE = Cell("code", 0, SAMPLED)
ASK = Ask(((CODE, 1.0),), 200.0, 0, None)
THETAS = st.floats(0.15, 1.0)
STEPS = st.builds(affine, st.floats(0.005, 0.05), st.floats(0.0, 4.0))
MODELS = st.builds(
    ServerModel,
    fingerprint=st.sampled_from("xyz"),
    other_steps_per_token=THETAS,
    step_seconds=STEPS,
    prefill_seconds=st.floats(0.0, 5e-4),
    stretch=st.floats(1.0, 2.0),
    measured=st.just(100.0),
)
FLEETS = st.lists(st.tuples(MODELS, st.integers(0, 60)), min_size=2, max_size=6)
CLASSES = Classification("code", 1.0, "hint")
W = ("model", "w")


def share(fleet: Sequence[tuple[ServerModel, int]], which: str) -> float:
    """Probability with which a server comes first, over all draws."""
    states = [
        state(name, model=model, in_flight=busy) for name, (model, busy) in zip("abcdef", fleet, strict=False)
    ]
    found = decide(
        features(), CLASSES, snapshot(*states), policy(route(), learning=Learning(AUTO, 1.0)),
        Draw(0.99, 0.0), 0.0,
    )  # fmt: skip
    assert isinstance(found, Decision)
    first = found.candidates[0]
    return found.propensity if first.backend == which else 0.0


@given(FLEETS, st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_a_server_that_gets_better_never_gets_fewer(
    fleet: list[tuple[ServerModel, int]], accepts: float, steps: float
) -> None:
    (model, busy), *others = fleet
    better = replace(
        model,
        other_steps_per_token=model.other_steps_per_token * accepts,
        step_seconds=tuple(one * steps for one in model.step_seconds),
    )
    assert share([(better, busy), *others], "a") >= share([(model, busy), *others], "a")


@given(FLEETS)
def test_a_request_more_never_makes_a_server_more_attractive(fleet: list[tuple[ServerModel, int]]) -> None:
    (model, busy), *others = fleet
    assert share([(model, busy + 1), *others], "a") <= share([(model, busy), *others], "a")


def answers(
    seed: int, theta: float, tokens: int, count: int, step: float = 0.02, **given: Any
) -> list[Sample]:
    """Requests on one server with some spread between them."""
    draws = random.Random(seed)  # noqa: S311 - no secret
    found = []
    for at in range(count):
        steps = max(2.0, tokens * theta * draws.gauss(1.0, 0.1))
        found.append(
            Sample(
                "a",
                at * 2.0,
                {"code": 1.0},
                steps=steps,
                decoded=float(tokens),
                output_tokens=tokens,
                spans=(Span(4.0, steps * step, steps),),
                **given,
            )
        )
    return found


def learnt(samples: list[Sample], prior: float = 0.5) -> ServerModel:
    learner = Learner()
    learner.arm(
        "a",
        Arm(
            "a",
            draft_tokens=8,
            prior=ServerModel(other_steps_per_token=prior, step_seconds=affine(0.03, 0.5)),
        ),
    )
    for place, sample in enumerate(samples):
        learner.update(sample)
        if place % 4 == 0:
            learner.publish(sample.at)
    return learner.publish(1e6)["a"]


SEEDS = st.integers(0, 10_000)


@settings(max_examples=15)
@given(SEEDS, st.floats(0.2, 0.8), st.integers(100, 300), st.integers(400, 1500))
def test_lengths_of_answers_do_not_change_what_a_token_is_thought_to_take(
    seed: int, theta: float, short: int, long: int
) -> None:
    models = [learnt(answers(seed, theta, tokens, 60)) for tokens in (short, long)]
    tpots = [predict(model, ASK, 3.0).tpot for model in models]
    assert tpots[0] == pytest.approx(tpots[1], rel=0.06)


class Four:
    def mean(self, _backend: str, _since: float, _until: float, /) -> float:
        return 4.0


def told(events: int, grade: str = "exact", **given: Any) -> Sample:
    """100 tokens after the first in 40 steps and two seconds, bunched into so many events."""
    spec = Speculation("exact", 40, 160, 60) if grade == "exact" else Speculation("not_measured")
    outcome = Outcome(
        "ok",
        200,
        ttft=0.2,
        decode_seconds=2.0,
        events=events + 1,
        usage=Usage(50, 101),
        speculation=spec,
        **given,
    )
    done = replace(
        record(outcome), attempts=(Attempt("a", "done", "", 200, 1.0, 3.2),), backend="a", draft_tokens=4
    )
    sample = finished(done, None, Four())
    assert sample is not None
    return sample


@given(st.integers(2, 100))
def test_how_tokens_are_bunched_into_events_changes_nothing(events: int) -> None:
    assert told(events) == told(40)


def test_events_tell_what_the_server_tells_where_each_is_a_step() -> None:
    exact, events = told(40), told(40, "stream")
    assert events.steps / events.decoded == pytest.approx(exact.steps / exact.decoded, rel=0.03)
    assert told(4, "stream").steps == 0.0, "with ten steps in an event nothing is told"


@settings(max_examples=15)
@given(SEEDS, st.floats(1.5, 20.0))
def test_a_slow_client_changes_nothing_of_a_servers_speed(seed: int, slower: float) -> None:
    usual = answers(seed, 0.4, 300, 40)
    slow = answers(seed, 0.4, 300, 20, step=0.02 * slower, backpressured=True)
    mixed = sorted([*usual, *slow], key=lambda one: one.at)
    assert learnt(mixed).step(4) == pytest.approx(learnt(usual).step(4), rel=0.03)


@settings(max_examples=15)
@given(SEEDS, st.integers(1, 200))
def test_a_storm_of_cancellations_leaves_what_is_known(seed: int, cancelled: int) -> None:
    whole = answers(seed, 0.4, 300, 60)
    cut = [
        replace(one, output_tokens=None, steps=one.steps / 10, decoded=one.decoded / 10, spans=())
        for one in answers(seed, 0.4, 300, cancelled)
    ]
    before, after = learnt(whole), learnt(sorted([*whole, *cut], key=lambda one: one.at))
    assert after.output_tokens == before.output_tokens
    assert predict(after, ASK, 3.0).completion == pytest.approx(
        predict(before, ASK, 3.0).completion, rel=0.06
    )


@given(THETAS, st.floats(0.3, 0.9), st.floats(1.5, 6.0))
def test_a_rising_load_moves_requests_across_a_crossing_once(
    theta: float, faster: float, steeper: float
) -> None:
    plain = ServerModel("plain", other_steps_per_token=1.0, step_seconds=affine(0.02, 0.5), measured=1.0)
    draft = ServerModel(
        "draft", other_steps_per_token=theta * faster, step_seconds=affine(0.02, 0.5 * steeper), measured=1.0
    )
    costs = [
        [sum(predict(model, ASK, float(load))[2:]) for model in (plain, draft)] for load in range(0, 200, 4)
    ]
    assume(abs(costs[0][0] - costs[0][1]) > 1e-6)
    chosen = [one[0] < one[1] for one in costs]
    assert sum(before != after for before, after in pairwise(chosen)) <= 1


@settings(max_examples=30)
@given(SEEDS, st.floats(0.01, 0.1), st.floats(0.005, 0.05), st.integers(10, 400))
def test_budget_and_floor_hold_in_any_stretch(seed: int, explore: float, floor: float, length: int) -> None:
    purse, draws = Purse(), random.Random(seed)  # noqa: S311 - no secret
    explored, measured = [], []
    for _ in range(1200):
        baseline = W in purse.due()
        explores = not baseline and W in purse.explorable() and draws.random() < explore
        purse.decided(W, explore, floor, explored=explores, baseline=baseline, pays=True, cost=5.0, lost=0.0)
        explored.append(explores)
        measured.append(baseline)
    for start in range(0, 1200 - length, max(1, length // 3)):
        assert sum(explored[start : start + length]) <= explore * length + BURST
        assert sum(measured[start : start + length]) >= floor * length - 2 * DEBT - 1


@settings(max_examples=10)
@given(SEEDS, st.floats(0.25, 0.7))
def test_four_workers_that_see_a_quarter_each_agree(seed: int, theta: float) -> None:
    samples = answers(seed, theta, 300, 240)
    seen = [predict(learnt(samples[worker::4]), ASK, 3.0).completion for worker in range(4)]
    assert max(seen) <= 1.08 * min(seen)


@settings(max_examples=10)
@given(SEEDS, st.floats(0.25, 0.7), st.sampled_from([0.3, 0.5, 0.95]), st.sampled_from([0.7, 1.0, 1.4]))
def test_a_wrong_prior_is_recovered_from_within_200_requests(
    seed: int, theta: float, believed: float, off: float
) -> None:
    samples = answers(seed, theta, 300, 200, step=0.03 * off)
    found = learnt(samples, believed)
    assert found.steps_per_token[CODE] == pytest.approx(theta, rel=0.05)
    assert found.step(4) == pytest.approx(0.03 * off, rel=0.03)


@settings(max_examples=10)
@given(SEEDS, st.floats(0.25, 0.7), st.floats(0.5, 2.0))
def test_a_server_that_comes_back_is_learnt_again(seed: int, theta: float, slower: float) -> None:
    learner = Learner()
    learner.arm("a", Arm("a", draft_tokens=8, prior=ServerModel(step_seconds=affine(0.03, 0.5))))
    for sample in answers(seed, theta, 300, 100):
        learner.update(sample)
        learner.publish(sample.at)
    learner.restarted("a")
    for sample in answers(seed, theta / 1.3, 300, 100, step=0.02 * slower):
        learner.update(replace(sample, at=sample.at + 1000.0))
        known = learner.publish(sample.at + 1000.0)["a"]
        assert min(known.step_seconds) > 0.0
        assert 0.0 < known.steps_per_token[CODE] <= 1.0
    assert known.step(4) == pytest.approx(0.02 * slower, rel=0.05)
    assert known.steps_per_token[CODE] == pytest.approx(theta / 1.3, rel=0.1)


TWO = ("code", "chat")


def taught(
    seed: int, truth: Sequence[tuple[float, float, float]], wrong: Sequence[float], each: int
) -> list[ServerModel]:
    """What is known of servers after so many requests of each workload on each, from a prior that is wrong.

    Args:
        seed: Of the spread between requests.
        truth: By server, steps a token by workload, and the growth of its steps.
        wrong: By server, factor on the prior's step times.
        each: Requests of each workload.
    """
    learner, draws = Learner(), random.Random(seed)  # noqa: S311 - no secret
    for place, (_, _, growth) in enumerate(truth):
        table = affine(0.02 * wrong[place], growth)
        prior = ServerModel(other_steps_per_token=0.5, step_seconds=table, other_output_tokens=300.0)
        learner.arm(str(place), Arm(str(place), draft_tokens=8, prior=prior))
    for at in range(each):
        for place, (*thetas, growth) in enumerate(truth):
            for workload, theta in zip(TWO, thetas, strict=True):
                batch = float(draws.randrange(1, 32))
                steps = max(2.0, 300 * theta * draws.gauss(1.0, 0.15))
                spans = (
                    Span(batch, steps * ServerModel(step_seconds=affine(0.02, growth)).step(batch), steps),
                )
                learner.update(
                    Sample(
                        str(place), at * 2.0, {workload: 1.0}, steps=steps, decoded=300.0, spans=spans,
                        output_tokens=300,
                    )
                )  # fmt: skip
        if at % 4 == 0:
            learner.publish(at * 2.0)
    known = learner.publish(each * 2.0)
    return [known[str(place)] for place in range(len(truth))]


SERVERS = st.tuples(st.floats(0.2, 0.9), st.floats(0.2, 0.9), st.floats(0.2, 3.0))


@settings(max_examples=8)
@given(
    SEEDS, st.lists(SERVERS, min_size=3, max_size=3), st.lists(st.floats(0.6, 1.6), min_size=3, max_size=3)
)
def test_from_a_wrong_prior_200_requests_lead_within_three_percent_of_the_right_choice(
    seed: int, truth: list[tuple[float, float, float]], wrong: list[float]
) -> None:
    known = taught(seed, truth, wrong, 200)
    right = [
        ServerModel(
            steps_per_token={Cell("code", 0, SAMPLED): code, Cell("chat", 0, SAMPLED): chat},
            step_seconds=affine(0.02, growth),
            other_output_tokens=300.0,
        )
        for code, chat, growth in truth
    ]
    lost = []
    for workload in TWO:
        asked = Ask(((Cell(workload, 0, SAMPLED), 1.0),), 200.0, 0, None)
        for queue in (0.0, 4.0, 16.0, 30.0):
            believed = [sum(predict(model, asked, queue)[2:]) for model in known]
            costs = [sum(predict(model, asked, queue)[2:]) for model in right]
            lost.append(costs[believed.index(min(believed))] / min(costs) - 1.0)
    assert sum(lost) / len(lost) <= 0.03


def test_what_was_not_seen_for_ten_minutes_may_be_the_best_again() -> None:
    learner = Learner()
    for name in "ab":
        learner.arm(name, Arm(name, draft_tokens=8, prior=ServerModel(step_seconds=affine(0.02, 0.5))))
    for name, theta in (("a", 0.4), ("b", 0.52)):
        for sample in answers(1, theta, 300, 280):
            learner.update(replace(sample, backend=name))

    def explores(now: float) -> bool:
        known = learner.publish(now)
        states = [state(name, model=known[name]) for name in "ab"]
        seen = snapshot(*states, guide=Guide(explorable=frozenset({(TARGET, "code")})))
        learning = Learning(AUTO, 1.0, explore=0.03)
        found = decide(features(), CLASSES, seen, policy(route(), learning=learning), Draw(0.0, 0.0), now)
        assert isinstance(found, Decision)
        return found.reason == reasons.EXPLORES

    assert not explores(560.0)
    assert explores(3000.0)


@settings(max_examples=10)
@given(SEEDS, st.floats(0.2, 0.8))
def test_a_mix_that_never_changes_tells_nothing(seed: int, part: float) -> None:
    draws, counted = random.Random(seed), attribution.empty()  # noqa: S311 - no secret
    for _ in range(40):
        tokens = draws.uniform(100.0, 1000.0)
        mix = {"code": part * tokens, "chat": (1.0 - part) * tokens}
        counted = attribution.update(counted, mix, 0.3 * tokens, 0.7 * tokens)
    assert {one.why_not for one in attribution.estimates(counted).values()} == {"not_identifiable"}
