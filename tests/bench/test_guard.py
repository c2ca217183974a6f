"""Speed cannot be lost unnoticed: what a request and a chunk cost is counted and compared."""

from __future__ import annotations

import select

import pytest

from tests.bench import guard

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the mock needs Linux")


def _twice(number: int) -> int:
    return sum([number, number])


def test_the_same_work_has_the_same_count_and_more_has_more() -> None:
    counts = []
    for times in (1, 1, 10):
        with guard.Instructions() as instructions:
            for _ in range(times):
                _twice(1)
        counts.append(instructions.count)
    assert counts[0] == counts[1]
    assert 9 <= (counts[2] - counts[1]) / _cost() <= 9.5


def _cost() -> int:
    with guard.Instructions() as one:
        _twice(1)
    with guard.Instructions() as two:
        _twice(1)
        _twice(1)
    return two.count - one.count


def test_no_request_and_no_chunk_costs_more_than_it_did() -> None:
    known = guard.baseline()
    if known is None:
        pytest.skip("nothing was counted for this version of Python yet")
    found = guard.measure()
    beyond = {
        name: f"{count:.0f} instructions, {known[name]:.0f} before"
        for name, count in found.items()
        if count > guard.TOLERANCE[name] * known[name]
    }
    assert not beyond, "look for what costs more, or commit to it by python -m tests.bench.guard --write"
