from __future__ import annotations

import numpy as np
import pytest

from gateway.core import attribution
from gateway.core.attribution import Estimate, State

MATH, CHAT = (0.25, 0.75), (0.5, 0.5)
"""Drafts and accepted tokens a token: mean accepted lengths 4 and 2."""


def counted(mixes: list[dict[str, float]], noise: float = 0.0, **rates: tuple[float, float]) -> State:
    """The state after windows with these tokens by workload."""
    generator = np.random.default_rng(7)
    state = attribution.empty()
    for mix in mixes:
        drafts, accepted = (
            sum(tokens * rates[name][which] for name, tokens in mix.items()) for which in (0, 1)
        )
        off = generator.normal(0.0, noise * np.sqrt(sum(mix.values())), 2)
        state = attribution.update(state, mix, drafts + off[0], accepted + off[1])
    return state


def varied(windows: int = 40) -> list[dict[str, float]]:
    generator = np.random.default_rng(3)
    return [{"math": float(m), "chat": float(c)} for m, c in generator.uniform(50, 900, (windows, 2))]


def test_two_workloads_are_told_apart_by_changing_mixes() -> None:
    found = attribution.estimates(counted(varied(), math=MATH, chat=CHAT))
    assert found["math"].mean_accepted_length == pytest.approx(4.0, rel=1e-6)
    assert found["chat"].mean_accepted_length == pytest.approx(2.0, rel=1e-6)
    assert found["math"].inflation < 10


def test_noise_is_averaged_out_and_shows_in_the_error() -> None:
    found = attribution.estimates(counted(varied(200), noise=0.3, math=MATH, chat=CHAT))
    for name, length in (("math", 4.0), ("chat", 2.0)):
        assert found[name].mean_accepted_length == pytest.approx(length, rel=found[name].error)
        assert 0 < found[name].error < attribution.MOST_ERROR


def test_a_mix_that_never_changes_is_said_to_tell_nothing() -> None:
    mixes = [{"math": 300.0 * size, "chat": 100.0 * size} for size in range(1, 30)]
    found = attribution.estimates(counted(mixes, math=MATH, chat=CHAT))
    assert {one.why_not for one in found.values()} == {"not_identifiable"}
    assert {one.mean_accepted_length for one in found.values()} == {None}


def test_one_that_stands_apart_is_told_although_two_others_are_not() -> None:
    mixes = varied(30)
    for mix in mixes:
        mix["code"] = 2 * mix["chat"]
    found = attribution.estimates(counted(mixes, math=MATH, chat=CHAT, code=(0.3, 0.7)))
    assert found["math"].mean_accepted_length == pytest.approx(4.0, rel=1e-3)
    assert found["chat"].why_not == found["code"].why_not == "not_identifiable"


def test_one_workload_alone_needs_no_others() -> None:
    found = attribution.estimates(counted([{"math": 100.0}] * 12, math=MATH))
    assert found["math"].mean_accepted_length == pytest.approx(4.0)
    assert found["math"].inflation == pytest.approx(1.0)


def test_a_workload_that_comes_later_gets_its_row() -> None:
    mixes: list[dict[str, float]] = [{"math": 100.0}] * 5
    found = attribution.estimates(counted(mixes + varied(), math=MATH, chat=CHAT))
    assert found["chat"].mean_accepted_length == pytest.approx(2.0, rel=1e-6)


def test_too_few_windows_tell_nothing() -> None:
    found = attribution.estimates(counted(varied(9), math=MATH, chat=CHAT))
    assert {one.why_not for one in found.values()} == {"too_few_windows"}


def test_a_server_that_never_drafts_has_no_length() -> None:
    found = attribution.estimates(counted([{"math": 100.0}] * 12, math=(0.0, 0.0)))
    assert found["math"] == Estimate(None, pytest.approx(1.0), 0.0, "no_drafts")


def test_drafts_of_which_none_is_accepted_have_length_one() -> None:
    found = attribution.estimates(
        counted([{"math": 100.0, "chat": 50.0}, *varied()], math=MATH, chat=(1.0, 0.0))
    )
    assert found["chat"].mean_accepted_length == pytest.approx(1.0, abs=1e-6)


def test_a_workload_that_changes_its_nature_all_the_time_is_uncertain() -> None:
    generator = np.random.default_rng(1)
    state = attribution.empty()
    for share in generator.uniform(0.1, 0.9, 20):
        state = attribution.update(state, {"math": 100.0}, 100.0 * share, 100.0 * (1 - share))
    assert attribution.estimates(state)["math"].why_not == "too_uncertain"


def test_an_empty_window_and_no_window_say_nothing() -> None:
    nothing = attribution.empty()
    assert attribution.update(nothing, {"math": 0.0}, 0.0, 0.0) is nothing
    assert attribution.estimates(attribution.empty()) == {}


def test_the_old_is_forgotten() -> None:
    old = [{"math": 100.0}] * 5
    state = counted(old, math=MATH)
    for _ in range(600):
        state = attribution.update(state, {"math": 100.0}, 50.0, 50.0)
    assert attribution.estimates(state)["math"].mean_accepted_length == pytest.approx(2.0, rel=0.01)


def test_noise_makes_no_workload_draft_less_than_nothing() -> None:
    found = attribution.estimates(counted(varied(), noise=0.1, math=MATH, chat=(0.0, 0.0)))
    assert found["chat"].why_not == "no_drafts"
    assert found["math"].mean_accepted_length == pytest.approx(4.0, rel=0.01)


def test_what_cannot_be_told_apart_is_bounded_as_well_as_may_be() -> None:
    mixes = [{"math": 300.0 + size, "chat": 100.0} for size in range(20)]
    found = attribution.estimates(counted(mixes, noise=5.0, math=MATH, chat=(0.0, 0.0)))
    assert found["chat"].mean_accepted_length is None
