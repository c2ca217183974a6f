"""What counters are said to tell of workloads is so: simulated traffic whose requests all differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from gateway.core import attribution

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Mix = Callable[[int, np.random.Generator], Mapping[str, float]]

LENGTHS: Final = {"code": 3.8, "chat": 1.9, "math": 2.6}
"""Mean accepted lengths in the middle of each workload's requests."""

DRAFT_TOKENS: Final = 5
SEEDS: Final = 20


def constant(_window: int, _draws: np.random.Generator) -> dict[str, float]:
    """Half and half: only chance makes windows differ."""
    return {"code": 0.5, "chat": 0.5}


def varied(window: int, _draws: np.random.Generator) -> dict[str, float]:
    part = 0.3 if window % 8 < 4 else 0.7
    return {"code": part, "chat": 1.0 - part}


def blocks(window: int, _draws: np.random.Generator) -> dict[str, float]:
    part = 0.05 if window % 8 < 4 else 0.95
    return {"code": part, "chat": 1.0 - part}


def rare(_window: int, _draws: np.random.Generator) -> dict[str, float]:
    return {"chat": 0.97, "code": 0.03}


def three(_window: int, draws: np.random.Generator) -> dict[str, float]:
    return dict(zip(LENGTHS, map(float, draws.dirichlet(np.ones(3))), strict=True))


def told(mix: Mix, requests: int, windows: int, spread: float, seed: int) -> list[dict[str, float]]:
    """After each window, how far each number that is given is from what the requests themselves add up to.

    Args:
        mix: Share of each workload among the requests of a window.
        requests: Mean number of them.
        windows: How many.
        spread: Standard deviation of the logarithm of a request's mean accepted length.
        seed: Of the draws.
    """
    draws, counted, errors = np.random.default_rng(seed), attribution.empty(), []
    sums = {workload: np.zeros(2) for workload in LENGTHS}
    for window in range(windows):
        tokens, seen = {}, np.zeros(2)
        for workload, share in mix(window, draws).items():
            size = draws.integers(50, 300, draws.poisson(requests * share))
            lengths = LENGTHS[workload] * np.exp(draws.normal(0.0, spread, len(size)))
            drafts = float(np.sum(size / np.clip(lengths, 1.01, DRAFT_TOKENS + 1)))
            sums[workload] += (both := np.array([drafts, size.sum() - drafts]))
            seen += both
            if len(size):
                tokens[workload] = float(size.sum())
        counted = attribution.update(counted, tokens, *map(float, seen))
        found = attribution.estimates(counted)
        lengths_told = {
            workload: one.mean_accepted_length
            for workload, one in found.items()
            if one.mean_accepted_length is not None
        }
        exact = {workload: 1.0 + sums[workload][1] / sums[workload][0] for workload in lengths_told}
        errors.append({name: abs(length / exact[name] - 1.0) for name, length in lengths_told.items()})
    return errors


@pytest.mark.parametrize("spread", [0.25, 0.5])
@pytest.mark.parametrize("requests", [20, 100])
@pytest.mark.parametrize("mix", [constant, varied, blocks, rare, three])
def test_nineteen_of_twenty_numbers_are_within_three_percent(mix: Mix, requests: int, spread: float) -> None:
    given = [
        error
        for seed in range(SEEDS)
        for errors in told(mix, requests, 40, spread, seed)
        for error in errors.values()
    ]
    assert sum(error > 0.03 for error in given) <= 0.05 * len(given)


@pytest.mark.parametrize("requests", [20, 100])
def test_a_mix_that_only_chance_changes_gets_no_number(requests: int) -> None:
    assert not [
        errors for seed in range(SEEDS) for errors in told(constant, requests, 60, 0.25, seed) if errors
    ]


@pytest.mark.parametrize(
    ("mix", "workloads"), [(varied, {"code", "chat"}), (blocks, {"code", "chat"}), (three, set(LENGTHS))]
)
def test_mixes_that_change_get_their_numbers(mix: Mix, workloads: set[str]) -> None:
    for seed in range(3):
        assert told(mix, 400, 60, 0.25, seed)[-1].keys() == workloads
