"""Labels of one's own beside the shipped model: what they find, and what they take away from built-in labels."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gateway import models
from gateway.cli.own_labels import others
from gateway.core.classify import classify
from gateway.core.features import extract
from gateway.core.policy import ClassifierSettings
from gateway.training.corpus import seen
from gateway.training.examples import learn

if TYPE_CHECKING:
    from gateway.core.examples import LearntLabels
    from gateway.core.features import RequestView

ROOT: Final = Path(__file__).parents[3]
DEV: Final = ROOT.parent / "shared" / "data" / "classify" / "dev.jsonl"
OWN: Final = ("legal", "medical", "sql")
WRITTEN: Final = [
    json.loads(line) for line in (ROOT / "tests/fixtures/own_labels.jsonl").read_text("utf-8").splitlines()
]


def written(part: str) -> list[tuple[str, RequestView]]:
    return [(row["label"], seen(row["request"], part)) for row in WRITTEN if row["part"] == part]


@lru_cache(maxsize=1)
def learnt() -> LearntLabels:
    return learn(written("examples"), others(), models.trained()).labels


def label(view: RequestView, *, own: bool, threshold: float) -> str:
    settings = ClassifierSettings(threshold=threshold, examples=learnt() if own else None)
    return classify(view, extract(view), settings, models.trained()).label


@pytest.mark.parametrize("threshold", [0.5, 0.6])
def test_nine_of_ten_that_get_an_own_label_are_of_it(threshold: float) -> None:
    found = [(truth, label(view, own=True, threshold=threshold)) for truth, view in written("held out")]
    given = [truth == said for truth, said in found if said in OWN]
    assert sum(given) >= 0.9 * len(given)
    assert sum(given) >= 0.4 * sum(truth in OWN for truth, _ in found)


@pytest.mark.parametrize("threshold", [0.5, 0.6])
def test_built_in_labels_lose_less_than_a_hundredth_to_them(threshold: float) -> None:
    if not DEV.exists():
        pytest.skip("labelled requests are not part of the repository")
    rows: list[dict[str, Any]] = [json.loads(line) for line in DEV.read_text("utf-8").splitlines()]
    views = [(row["label"], seen(row["request"], row["id"])) for row in rows]
    before, after = (
        sum(truth == label(view, own=own, threshold=threshold) for truth, view in views) / len(views)
        for own in (False, True)
    )
    assert before - after <= 0.01


def test_a_threshold_that_nothing_reaches_leaves_built_in_labels_alone() -> None:
    taken = [label(view, own=True, threshold=1.0) for truth, view in written("held out") if truth in OWN]
    assert set(taken) <= {ClassifierSettings().default, "tool_use"}
