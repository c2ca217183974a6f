from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core import reasons
from gateway.core.breaker import Breaker
from gateway.core.filters import CHARS_PER_TOKEN_AT_MOST, incapable, unavailable
from gateway.core.refused import Refused, shape_of
from tests.factories import features, state

NOW = 100.0


def test_a_healthy_server_below_its_limit_is_available() -> None:
    assert unavailable(state(in_flight=1, max_in_flight=2), NOW) is None


def test_a_server_that_failed_too_often_is_out_for_a_time() -> None:
    one = replace(state(), breaker=Breaker("consecutive_failures", until=104.0))
    assert unavailable(one, NOW) == (reasons.BREAKER_OPEN, "it failed too often, next trial in 4.0 s")
    assert unavailable(one, 104.0) is None


def test_a_server_is_left_alone_for_as_long_as_it_asked() -> None:
    one = replace(state(), retry_at=107.0)
    assert unavailable(one, NOW) == (reasons.RETRY_AFTER, "it asked to be left alone for another 7.0 s")
    assert unavailable(one, 107.0) is None


def test_a_server_that_is_back_gets_little_at_first() -> None:
    one = replace(state(in_flight=2, max_in_flight=8), breaker=Breaker(since=98.0, warm_at=106.0))
    words = "2 requests in flight, its limit while it warms up"
    assert unavailable(one, NOW) == (reasons.WARMING_UP, words)
    assert unavailable(one, 101.0) is None
    full = replace(one, in_flight=8)
    assert unavailable(full, NOW) == (reasons.FULL, "8 requests in flight, its limit")


def test_a_server_at_its_limit_is_full() -> None:
    no = unavailable(state(in_flight=2, max_in_flight=2), NOW)
    assert no == (reasons.FULL, "2 requests in flight, its limit")


def test_an_unhealthy_server_says_why() -> None:
    assert unavailable(state(healthy=False, reason="/health answered 503"), NOW) == (
        reasons.UNHEALTHY,
        "/health answered 503",
    )


def test_unhealthy_weighs_more_than_full() -> None:
    no = unavailable(state(healthy=False, reason="reset", in_flight=9, max_in_flight=2), NOW)
    assert no == (reasons.UNHEALTHY, "reset")


def test_a_server_that_refuses_nothing_takes_every_parameter() -> None:
    assert incapable(state(), features(parameters=frozenset({"min_p", "seed"})), NOW) is None


def test_a_refused_parameter_is_named() -> None:
    one = state(refuses=frozenset({"min_p", "logit_bias", "seed"}))
    no = incapable(one, features(parameters=frozenset({"min_p", "logit_bias", "top_k"})), NOW)
    assert no == (reasons.REFUSES_PARAMETER, "refuses logit_bias, min_p")


def test_a_parameter_that_is_not_refused_does_no_harm() -> None:
    assert (
        incapable(state(refuses=frozenset({"min_p"})), features(parameters=frozenset({"seed"})), NOW) is None
    )


@pytest.mark.parametrize(
    ("prompt_chars", "max_tokens", "fits"),
    [
        (0, None, True),
        (0, 100, True),
        (0, 101, False),
        (100 * CHARS_PER_TOKEN_AT_MOST, None, True),
        (101 * CHARS_PER_TOKEN_AT_MOST - 1, None, True),
        (101 * CHARS_PER_TOKEN_AT_MOST, None, False),
        (50 * CHARS_PER_TOKEN_AT_MOST, 50, True),
        (50 * CHARS_PER_TOKEN_AT_MOST, 51, False),
    ],
)
def test_only_what_certainly_passes_the_context_length_is_out(
    prompt_chars: int, max_tokens: int | None, fits: bool
) -> None:
    no = incapable(state(max_model_len=100), features(prompt_chars=prompt_chars, max_tokens=max_tokens), NOW)
    assert no == (None if fits else (reasons.CONTEXT_TOO_LONG, "prompt and answer need more than 100 tokens"))


def test_an_unknown_context_length_stops_nothing() -> None:
    assert incapable(state(max_model_len=None), features(prompt_chars=10**9, max_tokens=10**9), NOW) is None


def test_what_it_turned_out_to_refuse_is_not_sent_to_it_for_a_time() -> None:
    asked = features(parameters=frozenset({"tools"}))
    one = replace(state(), refused={shape_of(asked): Refused(2, NOW + 30.0)})
    words = "refused the last 2 such requests, next trial in 30 s"
    assert incapable(one, asked, NOW) == (reasons.REFUSES_PARAMETER, words)
    assert incapable(one, features(), NOW) is None
    assert incapable(one, asked, NOW + 30.0) is None
