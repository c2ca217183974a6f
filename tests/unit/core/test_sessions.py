from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.core.answer import NATURES
from gateway.core.features import WORKLOADS, RequestView, Turn
from gateway.core.sessions import (
    REMEMBERED,
    STRENGTH,
    WORKLOADS_BY_NATURE,
    agrees,
    remember,
    unseen,
    weigh,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

EVEN = {label: 1 / len(WORKLOADS) for label in WORKLOADS}


def odds(natures: Sequence[str]) -> dict[str, float]:
    """By how much each label gains on one that no answer showed."""
    weighed = weigh(EVEN | {"none": 0.0}, natures)
    lowest = min(weighed[label] for label in WORKLOADS)
    return {label: weighed[label] / lowest - 1 for label in WORKLOADS}


def test_every_nature_stands_for_labels_and_every_label_has_one() -> None:
    assert tuple(WORKLOADS_BY_NATURE) == NATURES
    assert {label for labels in WORKLOADS_BY_NATURE.values() for label in labels} == set(WORKLOADS)


def test_the_last_few_answers_are_remembered() -> None:
    natures: tuple[str, ...] = ()
    for nature in ("text", "code", "math", "code", "text"):
        natures = remember(natures, nature)
    assert natures == ("code", "math", "code", "text")
    assert len(natures) == REMEMBERED


@pytest.mark.parametrize("nature", NATURES)
@pytest.mark.parametrize("times", [1, 2, 4])
def test_where_all_answers_were_alike_their_labels_gain_the_whole_strength(nature: str, times: int) -> None:
    gained = {label: value for label, value in odds([nature] * times).items() if value > 1e-9}
    assert gained == pytest.approx(dict.fromkeys(WORKLOADS_BY_NATURE[nature], STRENGTH))


def test_the_newest_answer_counts_twice_as_much_as_the_one_before() -> None:
    gained = odds(["math", "code"])
    assert gained["code"] == pytest.approx(STRENGTH * 2 / 3)
    assert gained["math"] == pytest.approx(STRENGTH / 3)


def test_probabilities_still_add_up_and_what_is_impossible_stays_so() -> None:
    weighed = weigh({"code": 0.0, "chat": 0.6, "grounded": 0.4}, ["code", "text"])
    assert sum(weighed.values()) == pytest.approx(1.0)
    assert weighed["code"] == 0.0
    assert weighed["chat"] / weighed["grounded"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("workload", "nature", "expected"),
    [
        ("code", "code", True), ("code", "text", False), ("grounded", "text", True), ("chat", "math", False),
        ("legal", "text", None),
    ],
)  # fmt: skip
def test_an_answer_agrees_with_its_label_or_does_not_or_cannot(
    workload: str, nature: str, expected: bool | None
) -> None:
    assert agrees(workload, nature) is expected


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (("user",), True), (("system", "user"), True), ((), True), (("user", "assistant", "user"), False),
        (("user", "tool"), False),
    ],
)  # fmt: skip
def test_a_request_with_answers_in_it_needs_no_memory(roles: tuple[str, ...], expected: bool) -> None:
    view = RequestView("chat", "m", turns=tuple(Turn(role, "x", 1) for role in roles))
    assert unseen(view) is expected


def test_a_nature_that_nobody_knows_speaks_for_no_label() -> None:
    scores = {"math": 0.25, "code": 0.75}
    assert weigh(scores, ("a poem",)) == pytest.approx(scores)
