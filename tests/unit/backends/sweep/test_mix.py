from __future__ import annotations

import pytest

from backends.sweep.mix import shares
from backends.sweep.model import Work

CODE, CHAT, LONG, DRAWN = Work("code"), Work("chat"), Work("chat", "8k"), Work("chat", "short", "sampled")


@pytest.mark.parametrize(
    ("mix", "expected"),
    [
        (None, {CODE: 3, CHAT: 1, LONG: 1, DRAWN: 1}),
        ({"code": 1.0, "chat": 1.0}, {CODE: 3, CHAT: 1, LONG: 1, DRAWN: 1}),
        ({"chat": 2.0, "chat 8k": 1.0}, {CHAT: 1, LONG: 1, DRAWN: 1}),
        ({"chat": 2.0, "chat 8k": 1.0, "chat sampled": 3.0}, {CHAT: 2, LONG: 1, DRAWN: 3}),
        ({"chat 8k": 1.0}, {LONG: 1}),
        ({"math": 1.0}, {}),
    ],
)
def test_a_share_is_of_a_workload_or_of_one_kind_of_its_requests(
    mix: dict[str, float] | None, expected: dict[Work, float]
) -> None:
    found = shares([CODE, CHAT, LONG, DRAWN, CODE], mix)
    assert found == pytest.approx({one: share / sum(expected.values()) for one, share in expected.items()})
