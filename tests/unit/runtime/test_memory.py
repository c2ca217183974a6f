from __future__ import annotations

from gateway.runtime.memory import rows


def test_rows_begin_with_nothing_and_do_not_overlap() -> None:
    one, two = rows(2, 3)
    assert [*one] == [*two] == [0, 0, 0]
    one[2], two[0] = -(2**63), 2**63 - 1
    assert ([*one], [*two]) == ([0, 0, -(2**63)], [2**63 - 1, 0, 0])
