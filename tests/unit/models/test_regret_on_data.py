"""What wrong labels cost: throughput lost on requests of dev, each going to the server fastest for its label."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Final

import pytest

from backends.sim import profiles
from backends.sim.configuration import DATA_SETS
from gateway import models
from gateway.core.classify import classify
from gateway.core.features import WORKLOADS, extract
from gateway.core.policy import ClassifierSettings
from gateway.core.predict import ask
from gateway.training.corpus import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Speeds = Mapping[str, Sequence[float]]

DATA: Final = Path(__file__).parents[4] / "shared" / "data" / "classify" / "dev.jsonl"
BAR: Final = 0.005
SEQUENCES: Final = (1, 8, 32, 128)
EQUAL: Final[Mapping[str, float]] = dict.fromkeys(WORKLOADS, 1 / 6)
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    "equal": EQUAL,
    **{f"half {label}": {**dict.fromkeys(WORKLOADS, 0.1), label: 0.5} for label in WORKLOADS},
}
"""Shares of workloads in the traffic."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of dev.

    Attributes:
        truth: Its label.
        label: What it is taken for.
        likely: By what each label counts where the router predicts speeds.
    """

    truth: str
    label: str
    likely: Mapping[str, float]


@lru_cache(maxsize=2)
def requests(unsure: str) -> tuple[Asked, ...]:
    """Requests from sources that nothing was trained on, as a policy with the other defaults takes them."""
    if not DATA.exists():
        pytest.skip("labelled requests are not part of the repository")
    settings = ClassifierSettings(unsure=unsure)  # type: ignore[arg-type]
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    found = []
    for row in rows:
        if row["dev_kind"] == "dev_only_source":
            view = seen(row["request"], row["id"])
            features = extract(view)
            label = classify(view, features, settings, models.trained())
            likely: dict[str, float] = {}
            for cell, share in ask(features, label).classes:
                likely[cell.workload] = likely.get(cell.workload, 0.0) + share
            found.append(Asked(row["label"], label.label, likely))
    return tuple(found)


def at_random() -> tuple[Asked, ...]:
    """The same requests with labels that say nothing of them."""
    draw = Random(1).choice  # noqa: S311 - seeded: the same labels every time
    return tuple(
        Asked(one.truth, label, {label: 1.0}) for one in requests("mix") for label in (draw(WORKLOADS),)
    )


def by_label(speeds: Speeds, one: Asked) -> int:
    """The server that a table of routes names for the label."""
    row = speeds[one.label]
    return max(range(len(row)), key=row.__getitem__)


def by_probability(speeds: Speeds, one: Asked) -> int:
    """The server on which a token is predicted to take least time, each label counting by its probability."""
    times = [
        sum(share / speeds[label][at] for label, share in one.likely.items())
        for at in range(len(next(iter(speeds.values()))))
    ]
    return min(range(len(times)), key=times.__getitem__)


def lost(
    speeds: Speeds,
    asked: Sequence[Asked],
    mix: Mapping[str, float],
    choose: Callable[[Speeds, Asked], int] = by_label,
) -> float:
    """Share of the throughput lost against sending each request to the server fastest for its true label.

    Args:
        speeds: Tokens a second of each server, by true label.
        asked: The requests.
        mix: Share of each true label in the traffic.
        choose: Where a request goes.
    """
    took = needed = 0.0
    for truth, share in mix.items():
        times = [1 / speeds[truth][choose(speeds, one)] for one in asked if one.truth == truth]
        took += share * fmean(times)
        needed += share / max(speeds[truth])
    return 1 - needed / took


def by_one_server(speeds: Speeds, mix: Mapping[str, float]) -> float:
    """What is lost where every request goes to the one server that is best for the mix."""
    servers = range(len(next(iter(speeds.values()))))
    took = min(sum(share / speeds[label][at] for label, share in mix.items()) for at in servers)
    return 1 - sum(share / max(speeds[label]) for label, share in mix.items()) / took


@lru_cache(maxsize=1)
def transferred() -> Mapping[tuple[str, int], Speeds]:
    """Speeds by target and batch where workloads differ as in other sources, servers as published."""
    return {
        (target, sequences): {
            label: [one.mean_accepted_length(label) / one.step(sequences) for one in servers]
            for label in WORKLOADS
        }
        for target in profiles.targets()
        for servers in ([one for one in profiles.configurations(target) if one.cells],)
        for sequences in SEQUENCES
    }


def published() -> Mapping[str, Speeds]:
    """Speeds by target as they were published, which is for mathematics and code alone."""
    return {
        target: {
            label: [
                fmean(one.cells[name].tokens_per_second for name, of in DATA_SETS.items() if of == label)
                for one in profiles.configurations(target)
                if one.cells
            ]
            for label in ("math", "code")
        }
        for target in profiles.targets()
    }


def losses(
    asked: Sequence[Asked], mix: str, choose: Callable[[Speeds, Asked], int] = by_label
) -> list[float]:
    return [lost(speeds, asked, MIXES[mix], choose) for speeds in transferred().values()]


def with_some_wrong(share: float) -> tuple[Asked, ...]:
    """The requests with so many of their labels drawn anew."""
    random = Random(2)  # noqa: S311 - seeded: the same labels every time
    return tuple(
        wrong if random.random() < share else one
        for one, wrong in zip(requests("mix"), at_random(), strict=True)
    )


@pytest.mark.parametrize("choose", [by_label, by_probability])
@pytest.mark.parametrize("unsure", ["default", "mix"])
def test_wrong_labels_cost_less_than_half_a_percent_of_the_throughput(
    unsure: str, choose: Callable[[Speeds, Asked], int]
) -> None:
    found = losses(requests(unsure), "equal", choose)
    assert fmean(found) < BAR
    assert sum(one < BAR for one in found) >= len(found) / 2
    assert max(found) < 3 * BAR


@pytest.mark.parametrize("mix", MIXES)
def test_they_cost_no_more_where_half_of_the_traffic_is_of_one_kind(mix: str) -> None:
    found = losses(requests("mix"), mix, by_probability)
    assert fmean(found) < BAR
    assert max(found) < 3 * BAR


@pytest.mark.parametrize("mix", MIXES)
def test_they_cost_a_small_part_of_what_labels_gain(mix: str) -> None:
    one_server = [by_one_server(speeds, MIXES[mix]) for speeds in transferred().values()]
    assert fmean(losses(requests("mix"), mix, by_probability)) < fmean(one_server) / 3


def test_worse_labels_would_be_noticed() -> None:
    assert fmean(losses(with_some_wrong(0.1), "equal")) > 1.4 * BAR
    found = losses(at_random(), "equal")
    assert fmean(found) > 8 * BAR
    assert sum(one > BAR for one in found) > 0.8 * len(found)


def of_published(asked: Sequence[Asked], speeds: Speeds) -> float:
    """What is lost of mathematics and code; what is taken for something else goes where the slower one goes."""
    slower = min(speeds, key=lambda label: max(speeds[label]))
    known = [
        Asked(one.truth, one.label if one.label in speeds else slower, one.likely)
        for one in asked
        if one.truth in speeds
    ]
    return lost(speeds, known, dict.fromkeys(speeds, 0.5))


def test_of_the_published_speeds_they_cost_hardly_any() -> None:
    assert {
        target for target, speeds in published().items() if of_published(requests("default"), speeds) >= BAR
    } == set()


def test_of_published_targets_only_three_have_servers_between_which_labels_choose() -> None:
    matter = [speeds for speeds in published().values() if of_published(at_random(), speeds) > 1e-6]
    assert len(matter) == 3
    assert fmean(of_published(at_random(), speeds) for speeds in matter) > BAR
