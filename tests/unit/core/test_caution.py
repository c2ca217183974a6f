from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.core.caution import PERIOD, Caution
from gateway.core.outcome import Outcome, Usage
from tests.factories import TARGET, record

if TYPE_CHECKING:
    from gateway.core.outcome import Record


def answer(seconds: float, *, baseline: bool = False, at: float = 0.0) -> Record:
    outcome = Outcome("ok", 200, ttft=0.1, decode_seconds=seconds, usage=Usage(10, 101))
    done = record(outcome, at=at)
    decision = replace(done.decision, target=TARGET)
    return replace(done, decision=decision, backend="b", baseline=baseline)


def seen(routed: float, baseline: float, times: int = 20, at: float = 0.0) -> Caution:
    caution = Caution()
    for number in range(times):
        noise = 1.0 + 0.1 * (number % 3)
        caution.add(answer(routed * noise, at=at))
        caution.add(answer(baseline * noise, baseline=True, at=at))
    return caution


def test_what_is_surely_slower_than_no_speculation_is_told() -> None:
    assert seen(2.0, 1.0).slower() == {(TARGET, "math")}


def test_target_models_are_not_compared_with_each_other() -> None:
    caution = Caution()
    for number in range(20):
        noise = 1.0 + 0.1 * (number % 3)
        small, big = answer(2.0 * noise, baseline=True), answer(5.0 * noise)
        caution.add(small)
        caution.add(answer(1.0 * noise))
        caution.add(replace(big, decision=replace(big.decision, target="big")))
    assert caution.slower() == frozenset()


def test_what_is_faster_or_not_sure_is_not() -> None:
    assert seen(1.0, 2.0).slower() == frozenset()
    assert seen(1.03, 1.0).slower() == frozenset()
    assert seen(2.0, 1.0, times=2).slower() == frozenset()
    assert Caution().slower() == frozenset()


def test_after_a_while_it_gets_another_chance() -> None:
    caution = seen(2.0, 1.0)
    caution.add(answer(1.0, at=PERIOD + 1.0))
    assert caution.slower() == frozenset()
