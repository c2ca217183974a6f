from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.learn import LOOKUP, Arm, Learner, Sample, Span
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.core.shortening import Shortening, excess, falling, length, rate_of

N = 4
THETA = 0.25
"""Steps a token of whole drafts."""


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9, 0.999])
def test_the_rate_of_acceptance_follows_from_the_steps_a_token(rate: float) -> None:
    assert rate_of(1.0 / length(rate, N), N) == pytest.approx(rate, abs=1e-6)


def test_more_steps_than_tokens_is_as_if_nothing_were_accepted() -> None:
    assert rate_of(1.5, N) == pytest.approx(0.0, abs=1e-6)
    assert excess(1.0, N, 0.5) == pytest.approx(1.0)


def test_the_shorter_drafts_are_the_more_steps_a_token_takes() -> None:
    assert excess(THETA, N, 0.0) == pytest.approx(1.0 / THETA)
    rate = rate_of(THETA, N)
    assert excess(THETA, N, 0.5) == pytest.approx(1.0 / (THETA * (1.0 + rate + rate**2)))
    assert excess(THETA, N, 0.97) == 1.0, "the end of an answer cuts its last draft short"


def test_without_evidence_drafts_are_whole() -> None:
    assert Shortening().table(THETA, N) == pytest.approx(1.0)


def test_drafts_are_whole_below_the_smallest_batch_at_which_short_ones_were_seen() -> None:
    short = Shortening()
    for _ in range(10):
        short.add(64.0, 0.0, 1.0)
    table = short.table(THETA, N)
    assert (table[1], table[63], table[64], table[256]) == pytest.approx((1.0, 1.0, 4.0, 4.0))


def test_between_two_batches_that_were_seen_the_factor_goes_over() -> None:
    short = Shortening()
    for _ in range(10):
        short.add(16.0, 1.0, 1.0)
        short.add(64.0, 0.0, 1.0)
    table = short.table(THETA, N)
    assert (table[16], table[40], table[64]) == pytest.approx((1.0, 2.0, 4.0))


def test_where_steps_get_shorter_drafts_do() -> None:
    short = Shortening(falls=(24, 48))
    for _ in range(10):
        short.add(64.0, 0.0, 1.0)
    table = short.table(THETA, N)
    assert (table[47], table[48], table[64]) == pytest.approx((1.0, 4.0, 4.0)), "at the last fall before it"
    for _ in range(10):
        short.add(16.0, 1.0, 1.0)
        short.add(30.0, 1.0, 1.0)
        short.add(80.0, 0.0, 1.0)
    table = short.table(THETA, N)
    assert (table[24], table[47], table[48], table[80]) == pytest.approx((1.0, 1.0, 4.0, 4.0))


def test_requests_that_met_both_sides_of_a_fall_tell_nothing_of_either() -> None:
    short = Shortening(falls=(97,))
    for _ in range(10):
        short.add(80.0, 0.5, 1.0)
        short.add(93.0, 0.25, 0.5)
        short.add(101.0, 0.25, 0.5)
        short.add(104.0, 0.0, 1.0)
    below, above = excess(THETA, N, 0.5), 1.0 / THETA
    table = short.table(THETA, N)
    assert (table[93], table[96]) == pytest.approx((below, below))
    assert (table[97], table[101], table[120]) == pytest.approx((above, above, above))


def test_drafts_are_never_longer_under_more_load() -> None:
    assert falling([(4.0, 4.0), (0.0, 2.0), (1.0, 1.0), (0.0, 1.0)]) == pytest.approx(
        [1.0, 1 / 3, 1 / 3, 0.0]
    )
    short = Shortening()
    for _ in range(99):
        short.add(64.0, 0.0, 1.0)
    short.add(250.0, 1.0, 1.0)
    assert short.table(THETA, N)[250] == pytest.approx(4.0, rel=0.05), "it was counted, but hardly decoded"


def test_an_engine_may_draft_less_even_for_one_request() -> None:
    short = Shortening()
    short.add(1.0, 0.0, 1.0)
    assert short.table(THETA, N) == pytest.approx(1.0 / THETA)


CODE = Cell("code", 0, SAMPLED)
PRIOR = ServerModel(other_steps_per_token=THETA, step_seconds=(0.02, 0.02))


def answer(at: float, steps: float, drafted: float | None, batch: float = 128.0, **given: Any) -> Sample:
    fields: dict[str, Any] = {"spans": (Span(batch, steps * 0.02, steps),)} | given
    return Sample(
        "s", at, {"code": 1.0}, prompt_tokens=100, steps=steps, decoded=400.0, drafted=drafted, **fields
    )


def taught(*samples: Sample, family: str = "model") -> ServerModel:
    learner = Learner()
    learner.arm("s", Arm("f", draft_tokens=N, prior=PRIOR, family=family))
    for at in range(50):
        for sample in samples:
            learner.update(sample)
        learner.publish(float(at))
    return learner.publish(50.0)["s"]


def cost(model: ServerModel, batch: float) -> float:
    """Seconds for a token at a batch."""
    return model.steps_per_token.get(CODE, model.other_steps_per_token) * model.step(batch)


def test_a_load_under_which_nothing_is_drafted_says_nothing_of_smaller_ones() -> None:
    model = taught(answer(0.0, steps=400.0, drafted=0.0))
    assert cost(model, 128.0) == pytest.approx(0.02, rel=0.02)
    assert cost(model, 16.0) == pytest.approx(THETA * 0.02, rel=0.02)
    assert model.evidence.get("code", 0.0) == 0.0


def test_short_drafts_tell_of_whole_ones_as_far_as_they_go() -> None:
    rate = 0.7
    steps = 400.0 / length(rate, 2)
    model = taught(answer(0.0, steps=steps, drafted=2.0 * steps))
    assert cost(model, 128.0) == pytest.approx(steps / 400.0 * 0.02, rel=0.05)
    assert cost(model, 8.0) == pytest.approx(0.02 / length(rate, N), rel=0.05)


@pytest.mark.parametrize(
    ("given", "family"),
    [({"drafted": None}, "model"), ({"drafted": 0.0}, LOOKUP), ({"drafted": 0.0, "spans": ()}, "model")],
    ids=["nobody tells", "nothing was found", "no time is known"],
)
def test_otherwise_steps_tell_of_acceptance_whatever_was_drafted(given: dict[str, Any], family: str) -> None:
    model = taught(answer(0.0, steps=400.0, **given), family=family)
    assert model.steps_per_token[CODE] == pytest.approx(1.0, rel=0.02)


def test_what_load_makes_of_drafts_is_not_taken_for_slower_steps() -> None:
    model = taught(answer(0.0, steps=400.0, drafted=0.0), answer(0.0, steps=100.0, drafted=400.0, batch=8.0))
    assert model.step(8.0) == pytest.approx(0.02, rel=0.05)
    assert math.isclose(model.step(128.0), 0.02 / THETA, rel_tol=0.05)


def test_a_server_has_the_steps_that_requests_take_at_its_usual_load() -> None:
    learner = Learner()
    learner.arm("s", Arm("f", draft_tokens=N, prior=PRIOR))
    short = answer(0.0, steps=400.0, drafted=0.0)
    whole = replace(short, classes={"chat": 1.0}, decoded=200.0, steps=100.0, drafted=400.0, spans=())
    for _ in range(50):
        learner.update(short)
        learner.update(whole)
    chat = Cell("chat", 0, SAMPLED)
    learner.count({"s": 128.0}, 50.0)
    busy = learner.publish(50.0)["s"]
    for cell in (CODE, chat):
        steps = busy.steps_per_token.get(cell, busy.other_steps_per_token)
        assert steps * busy.step(128.0) == pytest.approx(0.02, rel=0.05)
    learner.count({"s": 8.0}, 1000.0)
    assert learner.publish(1000.0)["s"].steps_per_token[chat] == pytest.approx(0.5, rel=0.1)


def test_short_drafts_cost_those_most_that_accept_most() -> None:
    short = Shortening()
    for _ in range(20):
        short.add(40.0, 0.2, 1.0)
    code, chat = Cell("code", 0, SAMPLED), Cell("chat", 0, SAMPLED)
    known = {code: 0.2, chat: 0.6}
    assert short.relative(known, 0.4, 15, 8.0) == known, "drafts are whole there"
    found, within = short.relative(known, 0.4, 15, 40.0), short.table(0.4, 15)[40]
    for cell, theta in known.items():
        assert found[cell] * within == pytest.approx(theta * excess(theta, 15, 0.2))
    assert found[chat] / found[code] < known[chat] / known[code]
