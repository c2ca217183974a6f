from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gateway import aside

if TYPE_CHECKING:
    import pytest


def test_a_thread_steps_aside_once_it_has_worked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    worked, slept = 0.0, []
    monkeypatch.setattr(aside, "_threads", threading.local())
    monkeypatch.setattr(aside.time, "thread_time", lambda: worked)
    monkeypatch.setattr(aside.time, "sleep", slept.append)
    for _ in range(100):
        worked += 0.0001
        aside.step_aside()
    assert 10 <= len(slept) <= 20
    assert set(slept) == {0.00005}
