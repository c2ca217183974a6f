"""The shipped classifier on requests written afterwards, apart from the data, to find its limits.

The fresh ones are for looking only: who trains on them, or chooses words by them, has no measure left. Those of
``dev_languages.jsonl`` were written to choose words and weights by. Of ``short_requests.jsonl`` the first showed which
kinds of requests failed, and the second which words were missing; the third came after all that. The floors are
what the model reaches.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gateway import models
from gateway.core.features import extract
from gateway.training.score import Guess, score
from gateway.wire.inbound import Malformed, view
from tests.unit.training.test_apart_from_dev import WRITTEN, alike, asked, grams
from tests.unit.training.test_apart_from_dev import rows as read

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.classify import Classification

    Row = dict[str, Any]

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
FRESH: Final = FIXTURES / "fresh_requests.jsonl"
LANGUAGES: Final = FIXTURES / "dev_languages.jsonl"
SHORT: Final = FIXTURES / "short_requests.jsonl"
REWORDED: Final = 0.45
"""Share of character 5-grams in common; short requests of one form ("Как отсортировать …?") come close to it."""


@lru_cache(maxsize=3)
def guessed(file: Path) -> list[tuple[Row, Classification]]:
    classifier = models.trained()

    def guess(row: Row) -> Classification:
        seen = view("chat", json.dumps(row["request"]).encode(), {})
        assert not isinstance(seen, Malformed)
        return classifier.label(seen, extract(seen))

    return [(row, guess(row)) for row in read(file)]


def right(file: Path, of: Callable[[Row], bool]) -> float:
    chosen = [found.label == row["label"] for row, found in guessed(file) if of(row)]
    return sum(chosen) / len(chosen)


def calibration_error(file: Path) -> float:
    return score(
        [Guess(row["label"], found.label, found.confidence) for row, found in guessed(file)]
    ).calibration_error


@pytest.mark.parametrize(("kind", "floor"), [("mixed", 0.90), ("foreign", 0.96), ("tools", 0.82)])
def test_most_fresh_ones_are_right(kind: str, floor: float) -> None:
    assert right(FRESH, lambda row: row["kind"] == kind) >= floor


@pytest.mark.parametrize("kind", ["first", "second", "third"])
def test_most_short_ones_are_right(kind: str) -> None:
    assert right(SHORT, lambda row: row["kind"] == kind) >= 0.92


def test_most_loops_of_agents_go_on_or_end_as_they_should() -> None:
    assert right(FRESH, lambda row: row["request"]["messages"][-1]["role"] == "tool") >= 0.8


@pytest.mark.parametrize(("label", "floor"), [("math", 0.97), ("code", 0.96), ("multilingual", 0.97)])
def test_most_in_other_languages_are_right(label: str, floor: float) -> None:
    assert right(LANGUAGES, lambda row: row["label"] == label) >= floor


@pytest.mark.parametrize(
    ("file", "most"), [(FRESH, 0.05), (LANGUAGES, 0.08)], ids=lambda it: getattr(it, "name", "")
)
def test_confidence_stays_true(file: Path, most: float) -> None:
    assert calibration_error(file) <= most


@pytest.mark.parametrize("file", [FRESH, LANGUAGES, SHORT], ids=lambda file: file.name)
def test_none_of_them_is_trained_on(file: Path) -> None:
    trained = {asked(row) for one in WRITTEN for row in read(one)}
    assert trained.isdisjoint(asked(row) for row in read(file))


@pytest.mark.parametrize("file", [FRESH, LANGUAGES, SHORT], ids=lambda file: file.name)
def test_none_of_them_is_trained_on_in_other_words_where_it_came_first(file: Path) -> None:
    later = [grams(asked(row)) for one in WRITTEN if one.name.startswith("own_") for row in read(one)]
    mine = [(row["id"], grams(asked(row))) for row in read(file)]
    assert [name for name, has in mine if any(alike(has, had) >= REWORDED for had in later)] == []
