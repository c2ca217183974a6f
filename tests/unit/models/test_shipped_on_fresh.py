"""The shipped classifier on requests written afterwards by somebody who had not seen the data, to find its limits.

They are for looking only: who trains on them has no measure left. The floors are what the model reaches.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gateway import models
from gateway.core.features import extract
from gateway.wire.inbound import Malformed, view
from tests.unit.training.test_apart_from_dev import WRITTEN, asked
from tests.unit.training.test_apart_from_dev import rows as read

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = dict[str, Any]

FRESH: Final = Path(__file__).parents[2] / "fixtures" / "fresh_requests.jsonl"


@lru_cache(maxsize=1)
def guessed() -> list[tuple[Row, str]]:
    classifier = models.trained()

    def label(row: Row) -> str:
        seen = view("chat", json.dumps(row["request"]).encode(), {})
        assert not isinstance(seen, Malformed)
        return classifier.label(seen, extract(seen)).label

    return [(row, label(row)) for row in read(FRESH)]


def right(of: Callable[[Row], bool]) -> float:
    chosen = [label == row["label"] for row, label in guessed() if of(row)]
    return sum(chosen) / len(chosen)


@pytest.mark.parametrize(("kind", "floor"), [("mixed", 0.86), ("foreign", 0.68), ("tools", 0.74)])
def test_most_are_right(kind: str, floor: float) -> None:
    assert right(lambda row: row["kind"] == kind) >= floor


def test_none_of_them_is_trained_on() -> None:
    trained = {asked(row) for file in WRITTEN for row in read(file)}
    assert trained.isdisjoint(asked(row) for row in read(FRESH))
