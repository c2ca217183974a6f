from __future__ import annotations

from gateway.runtime.shared import Memory


def test_a_dead_worker_has_nothing_open_and_leads_nobody() -> None:
    memory = Memory(2)
    one, two = memory.of(0), memory.of(1)
    one.tally.put("a", 1)
    two.tally.changes()
    assert (one.agreed.leads, two.agreed.leads) == (True, False)
    memory.clear(0)
    two.tally.changes()
    assert two.tally.elsewhere("a") == 0
    assert two.agreed.leads
    two.notes.leave((1, 2, 3, 4))
    assert [*memory.of(0).notes.news()] == [(1, 2, 3, 4)]
