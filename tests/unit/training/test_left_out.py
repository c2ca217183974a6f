from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.training import corpus, left_out, train
from gateway.training.score import Guess
from gateway.training.train import Steps
from tests.unit.training.test_train import TEXTS, line

if TYPE_CHECKING:
    from pathlib import Path


def sourced(kind: str, number: int, source: str) -> str:
    return json.dumps({**json.loads(line(kind, number)), "source": source})


LINES = [sourced(kind, number, "ab"[number % 2]) for number in range(6) for kind in TEXTS]


def test_sources_are_kept_whole_in_groups_of_like_size() -> None:
    rows = [{"source": name} for name, size in (("a", 5), ("b", 3), ("c", 2), ("d", 1)) for _ in range(size)]
    assert left_out.folds(rows, 2) == [frozenset("ad"), frozenset("bc")]
    assert left_out.folds(rows, 9) == [frozenset(name) for name in "abcd"]


def test_each_line_is_labelled_by_a_model_that_saw_nothing_of_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained_on: list[set[str]] = []
    read = corpus.read

    def noted(lines: list[str], *more: Any, **options: Any) -> Any:
        trained_on.append({json.loads(one)["source"] for one in lines})
        return read(lines, *more, **options)

    monkeypatch.setattr(corpus, "read", noted)
    found = list(left_out.guesses(LINES, count=2, steps=Steps(content=8, language=4)))
    assert trained_on == [{"b"}, {"a"}]
    assert [one.source for one in found] == ["a"] * 21 + ["b"] * 21
    assert sum(one.guess.right for one in found) >= 36


def test_the_worst_source_comes_first() -> None:
    right, wrong = Guess("math", "math", 0.9), Guess("math", "chat", 0.9)
    found = [left_out.LeftOut(source, guess) for source, guess in (("a", right), ("b", wrong), ("b", right))]
    told = left_out.summary(found)
    assert list(told["by_source"]) == ["b", "a"]
    assert told["by_source"]["b"] == {"accuracy": 0.5, "rows": 2}
    assert told["accuracy"] == pytest.approx(2 / 3)


def test_the_command_prints_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, own = tmp_path / "rows.jsonl", tmp_path / "own.jsonl"
    data.write_text("\n".join(LINES), encoding="utf-8")
    own.write_text(line("math", 99), encoding="utf-8")
    quick = Steps(content=4, language=2)
    monkeypatch.setattr("gateway.training.left_out.train", lambda rows, _steps: train.train(rows, quick))
    left_out.main([str(data), "--own", str(own), "--folds", "2"])
    assert json.loads(capsys.readouterr().out)["count"] == len(LINES)
