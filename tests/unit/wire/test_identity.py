import re

import pytest

from gateway.wire.identity import draw, request_id


def test_a_given_id_is_kept():
    assert request_id(b"abc-1.2_3") == "abc-1.2_3"


@pytest.mark.parametrize("given", [None, b"", b"a b", b"\xff", b"x" * 129, b"a\nb"])
def test_an_unusable_id_is_replaced(given):
    assert re.fullmatch("[0-9a-f]{32}", request_id(given))


def test_a_new_id_is_made_of_the_bytes_that_are_given():
    assert request_id(None, bytes(range(16))) == "000102030405060708090a0b0c0d0e0f"


def test_draws_follow_from_id_and_seed():
    assert draw("a", 1) == draw("a", 1)
    assert draw("a", 1) != draw("a", 2)
    assert draw("a", 1) != draw("b", 1)


def test_draws_spread_evenly():
    draws = [draw(str(i), 0).explore for i in range(2000)]
    assert 0.45 < sum(draws) / len(draws) < 0.55
    assert min(draws) >= 0.0
    assert max(draws) < 1.0
