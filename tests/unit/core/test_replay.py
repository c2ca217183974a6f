import math
from dataclasses import replace

import numpy as np
import pytest

from gateway.core.policy import Match, Selector, WeightedScorer
from gateway.core.predict import ServerModel
from gateway.core.replay import BLOCKS, Figure, Logged, destinations, estimate
from gateway.core.virtual import VirtualServer
from tests.factories import classification, features, policy, route, snapshot, state

# A server that takes 10 ms a token, and one that takes 20.
MODELS = {
    "fast": ServerModel(step_seconds=(0.01, 0.01), prefill_seconds=0.0, start_steps=0.0),
    "slow": ServerModel(step_seconds=(0.02, 0.02), prefill_seconds=0.0, start_steps=0.0),
}
TRUE = {"fast": 0.01, "slow": 0.02}
FLEET = snapshot(state("fast"), state("slow"))
TO_FAST = policy(route(prefer=(Selector(name="fast"),)))
TO_SLOW = policy(route(prefer=(Selector(name="slow"),)))


def log(count=300, *, off=1.0, probability=0.5, gap=10.0, **given):
    """Requests sent to either server by lot, far apart; ``off`` is how wrong the models are about times."""
    rng = np.random.default_rng(2)
    made = []
    for number in range(count):
        name = "fast" if rng.random() < probability else "slow"
        tokens = int(rng.integers(50, 150))
        made.append(
            Logged(
                features=features(),
                classification=classification("chat"),
                snapshot=FLEET,
                now=number * gap,
                backend=name,
                propensity=probability if name == "fast" else 1.0 - probability,
                seconds=(tokens - 1) * TRUE[name] * off,
                output_tokens=tokens,
                **given,
            )
        )
    return made


def mean(logged, name, off=1.0):
    return np.mean([(one.output_tokens - 1) * TRUE[name] * off for one in logged])


@pytest.mark.parametrize(("other", "name"), [(TO_FAST, "fast"), (TO_SLOW, "slow")])
def test_another_policy_is_what_its_server_is(other, name):
    logged = log()
    found = estimate(logged, other, MODELS)
    assert found.seconds.value == pytest.approx(mean(logged, name), rel=0.01)
    assert found.shares == {name: 1.0}
    assert found.were["fast"] == pytest.approx(0.5, abs=0.1)
    assert found.same == found.were[name]
    assert found.evidence == pytest.approx(0.5, abs=0.1)
    assert found.logged.value == pytest.approx(np.mean([one.seconds for one in logged]))
    assert found.difference.value == pytest.approx(found.seconds.value - found.logged.value)
    assert (found.requests, found.refused) == (300, 0.0)


def test_a_model_that_is_wrong_is_mended_by_what_was_seen():
    logged = log(off=1.7)
    found = estimate(logged, TO_FAST, MODELS)
    assert found.seconds.value == pytest.approx(mean(logged, "fast", 1.7), rel=0.01)
    right = estimate(log(), TO_FAST, MODELS)
    assert found.seconds.error == pytest.approx(1.7 * right.seconds.error, rel=0.02), (
        "as exact as a right one"
    )


def test_a_server_that_was_never_used_is_what_the_model_says():
    logged = [
        replace(one, backend="slow", propensity=1.0, seconds=(one.output_tokens - 1) * 0.02) for one in log()
    ]
    found = estimate(logged, TO_FAST, MODELS)
    assert found.seconds.value == pytest.approx(mean(logged, "fast"), rel=0.01)
    assert found.evidence == 0.0


def test_load_follows_from_the_policys_own_choices():
    crowded = tuple(0.01 * (1.0 + n) for n in range(40))
    models = {
        name: ServerModel(step_seconds=crowded, prefill_seconds=0.0, start_steps=0.0) for name in MODELS
    }
    servers = {name: VirtualServer(model) for name, model in models.items()}
    logged = log(gap=0.9)
    for number, one in enumerate(logged):
        servers[one.backend].submit(number, one.output_tokens - 1.0, 0.0, one.now)
    ended = {}
    for server in servers.values():
        server.advance(math.inf)
        ended |= server.ended
    logged = [replace(one, seconds=ended[number] - one.now) for number, one in enumerate(logged)]
    both = estimate(logged, policy(route(scorers=(WeightedScorer("load", 1.0),))), models)
    alone = estimate(logged, TO_FAST, models)
    assert both.seconds.value < both.logged.value < 0.8 * alone.seconds.value
    assert both.shares["fast"] == pytest.approx(0.5, abs=0.1)


def test_the_interval_is_that_of_a_mean():
    logged = log()
    error = 1.96 * np.std([one.seconds for one in logged]) / np.sqrt(len(logged))
    assert estimate(logged, TO_FAST, MODELS).logged.error == pytest.approx(error, rel=0.4)


def test_the_interval_narrows_with_requests():
    few, many = (estimate(log(count), TO_FAST, MODELS).seconds.error for count in (60, 960))
    assert 0.0 < many < few


def test_prompts_count():
    models = {name: replace(model, prefill_seconds=0.001) for name, model in MODELS.items()}
    told = estimate(log(prompt_tokens=1000), TO_FAST, models).seconds.value
    guessed = estimate(log(), TO_FAST, models).seconds.value
    assert told == pytest.approx(guessed, rel=0.05)  # both are mended to what was seen


def test_requests_that_the_policy_refuses_are_counted():
    logged = log()
    mixed = [
        replace(one, classification=classification("code")) if number % 3 == 0 else one
        for number, one in enumerate(logged)
    ]
    only_chat = policy(route(match=Match(workloads=frozenset({"chat"}))))
    found = estimate(mixed, only_chat, MODELS)
    assert found.refused == pytest.approx(1 / 3)
    assert found.requests == 200


def test_too_few_requests_say_nothing():
    with pytest.raises(ValueError, match=f"log {BLOCKS} at least"):
        estimate(log(BLOCKS - 1), TO_FAST, MODELS)


def test_a_figure_is_shown_with_its_error():
    assert str(Figure(1.5, 0.25)) == "1.500 ± 0.250"


def test_where_a_policy_sends_logged_requests():
    logged = log(40)
    assert destinations(logged, TO_FAST, MODELS) == ["fast"] * 40
    elsewhere = policy(route(), aliases={})
    assert destinations(logged, elsewhere, MODELS) == [""] * 40


def test_what_the_log_tells_little_of_widens_the_errors():
    logged = log()
    known = estimate(logged, TO_FAST, MODELS)
    slow = [
        replace(one, backend="slow", propensity=1.0, seconds=(one.output_tokens - 1) * 0.02) for one in logged
    ]
    guessed = estimate(slow, TO_FAST, MODELS)
    assert known.untold == 0
    assert known.told
    assert guessed.untold == guessed.requests
    # All on one server that a step there may take a factor of exp(0.3) longer on, one standard deviation.
    assert guessed.seconds.error > 1.96 * 0.3 * guessed.seconds.value
    assert guessed.difference.error > 1.96 * 0.3 * guessed.seconds.value


@pytest.mark.parametrize(
    ("difference", "untold", "told", "slower"),
    [
        (Figure(0.1, 0.2), 0, True, False),
        (Figure(0.1, 0.2), 50, False, False),
        (Figure(0.3, 0.2), 50, True, True),
        (Figure(-0.3, 0.2), 50, True, False),
    ],
)
def test_what_is_in_doubt_and_rests_on_the_model_is_not_told(difference, untold, told, slower):
    found = replace(estimate(log(), TO_FAST, MODELS), difference=difference, untold=untold)
    assert (found.told, found.slower) == (told, slower)


def test_that_the_policy_refuses_the_requests_is_why_too_few_are_left():
    with pytest.raises(
        ValueError, match="the policy has no server for 300 of the 300 requests, and 30 at least"
    ):
        estimate(log(), policy(route(), aliases={}), MODELS)


def test_requests_that_took_no_time_are_no_reason_to_fail():
    logged = [replace(one, seconds=0.0) for one in log(60)]
    assert estimate(logged, TO_FAST, MODELS).logged.value == 0.0
