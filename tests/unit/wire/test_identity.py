import re

import pytest

from gateway.wire.identity import draw, request_id


def of(given, **others):
    fields = {} if given is None else {b"x-request-id": given}
    return request_id(fields | {name.replace("_", "-").encode(): value for name, value in others.items()})


def test_a_given_id_is_kept():
    assert of(b"abc-1.2_3") == "abc-1.2_3"


@pytest.mark.parametrize("given", [None, b"", b"a b", b"\xff", b"x" * 129, b"a\nb", b"sk-canary-4f9d2c71"])
def test_an_unusable_id_is_replaced(given):
    assert re.fullmatch("[0-9a-f]{32}", of(given))


@pytest.mark.parametrize("given", [b"0123456789abcdef", b"req-0123456789abcdef", b"89abcdef"])
@pytest.mark.parametrize(
    "credential",
    [
        {"authorization": b"Bearer 0123456789abcdef"}, {"x_api_key": b"0123456789abcdef"},
        {"cookie": b"a=b; session=0123456789abcdef; c=d"}, {"ocp_apim_subscription_key": b"0123456789abcdef"},
    ],
)  # fmt: skip
def test_what_is_part_of_the_request_s_own_credentials_is_no_id(given, credential):
    assert re.fullmatch("[0-9a-f]{32}", of(given, **credential))


def test_a_short_id_may_be_within_a_credential_by_chance():
    assert of(b"7", authorization=b"Bearer 0123456789abcdef") == "7"


def test_a_credential_without_a_key_rules_nothing_out():
    assert of(b"abc-1", authorization=b"Basic", cookie=b"") == "abc-1"


def test_a_new_id_is_made_of_the_bytes_that_are_given():
    assert request_id({}, bytes(range(16))) == "000102030405060708090a0b0c0d0e0f"


def test_draws_follow_from_id_and_seed():
    assert draw("a", 1) == draw("a", 1)
    assert draw("a", 1) != draw("a", 2)
    assert draw("a", 1) != draw("b", 1)


def test_draws_spread_evenly():
    draws = [draw(str(i), 0).explore for i in range(2000)]
    assert 0.45 < sum(draws) / len(draws) < 0.55
    assert min(draws) >= 0.0
    assert max(draws) < 1.0
