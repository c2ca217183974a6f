from __future__ import annotations

import json

import pytest

from backends.sweep.model import BASELINE, Candidate, Cell, Condition, Round, Sample, cell_of
from tests.unit.backends.sweep.making import CODE, sample


@pytest.mark.parametrize(
    ("candidate", "label"),
    [(BASELINE, "none"), (Candidate("dflash", 7), "dflash-7"), (Candidate("gemma4-mtp", 4), "gemma4-mtp-4")],
)
def test_a_label_names_a_candidate_and_is_read_again(candidate: Candidate, label: str) -> None:
    assert candidate.label == label
    assert Candidate.of(label) == candidate
    assert candidate.is_baseline == (label == "none")


@pytest.mark.parametrize("label", ["dflash", "", "-7", "7", "none-3", "mtp-0"])
def test_what_is_no_label_is_refused_with_an_example(label: str) -> None:
    with pytest.raises(ValueError, match="write a method and its draft tokens: dflash-7"):
        Candidate.of(label)


def test_a_condition_names_what_is_not_usual() -> None:
    assert CODE.label == "code c8"
    assert Condition("chat", 1, "8k", "sampled").label == "chat c1 8k sampled"


def test_samples_and_rounds_survive_a_file() -> None:
    cell = Cell(Candidate("mtp", 2), Condition("math", 1, "8k", "sampled"))
    one = sample(cell, 3, steps=5, drafted=10, accepted=7, histogram=(1, 1, 3))
    assert Sample.from_json(json.loads(json.dumps(one.as_json()))) == one
    finished = Round(cell, 2, 9.5, 100.0, 200.0, (90.0, 60.0), 1024.0)
    assert Round.from_json(json.loads(json.dumps(finished.as_json()))) == finished
    assert cell_of(one.as_json()) == cell
