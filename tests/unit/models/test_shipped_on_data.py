"""The bars the shipped classifier is held to, on labelled requests it was not trained on."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from gateway import models
from gateway.core.features import extract
from gateway.training.score import Guess, covered, score
from gateway.wire.inbound import Malformed, view
from tests.unit.training.test_apart_from_dev import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = dict[str, Any]

ROOT: Final = Path(__file__).parents[3]
DATA: Final = ROOT.parent / "shared" / "data" / "classify"


@lru_cache(maxsize=1)
def rows() -> list[tuple[Row, Guess]]:
    file = DATA / "dev.jsonl"
    if not file.exists():
        pytest.skip("labelled requests are not part of the repository")
    classifier = models.trained()

    def guess(row: Row) -> Guess:
        seen = view("chat", json.dumps(row["request"]).encode(), {})
        assert not isinstance(seen, Malformed)
        found = classifier.label(seen, extract(seen))
        return Guess(row["label"], found.label, found.confidence)

    read = [json.loads(line) for line in file.read_text(encoding="utf-8").strip().split("\n")]
    return [(row, guess(row)) for row in read]


def guesses(chosen: Callable[[Row], bool]) -> list[Guess]:
    return [guess for row, guess in rows() if chosen(row)]


def accuracy(chosen: Callable[[Row], bool]) -> float:
    return score(guesses(chosen)).accuracy


def new_source(row: Row) -> bool:
    return bool(row["dev_kind"] == "dev_only_source")


def test_labels_of_sources_that_are_new() -> None:
    scores = score(guesses(new_source))
    assert scores.accuracy >= 0.95
    assert scores.macro_f1 >= 0.95


def test_rows_made_to_mislead() -> None:
    assert accuracy(lambda row: "hard" in row) >= 0.91
    assert accuracy(lambda row: "hard" in row and new_source(row)) >= 0.92


def test_tools_are_declared_and_not_needed_or_needed() -> None:
    assert accuracy(lambda row: row.get("hard") == "tools_declared_plain_output") >= 0.80
    assert score(guesses(lambda row: True)).per_class["tool_use"].recall >= 0.96


def test_mathematics_and_code_in_other_languages_stay_what_they_are() -> None:
    foreign = guesses(lambda row: row["label"] in {"math", "code"} and row["language"] not in {"en", "und"})
    assert len(foreign) >= 60
    assert score(foreign).accuracy >= 0.95
    assert sum(guess.label == "multilingual" for guess in foreign) <= 3


def test_confidence_is_the_share_of_right_labels() -> None:
    found = guesses(new_source)
    assert score(found).calibration_error <= 0.04
    share, right = covered(found, 0.6)
    assert share >= 0.9
    assert right >= 0.94


@pytest.mark.timeout(1200)
def test_the_script_makes_the_shipped_file_again(tmp_path: Path) -> None:
    data = DATA / "train_permissive.jsonl"
    if not data.exists():
        pytest.skip("labelled requests are not part of the repository")
    if not os.environ.get("SPECROUTE_RETRAIN"):
        pytest.skip("takes minutes; set SPECROUTE_RETRAIN=1 to run it")
    made = tmp_path / models.FILE
    command = [sys.executable, "-m", "gateway.training.train", data, made, "--own", *WRITTEN]
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603 - our own interpreter
    assert filecmp.cmp(made, str(files(models) / models.FILE), shallow=False)
