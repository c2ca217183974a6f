from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.features import extract
from gateway.core.model import Model, TrainedClassifier
from gateway.training import corpus, train
from gateway.training.train import SEED, Steps, main

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {
    "math": "Solve the equation x + 3 = {}.",
    "code": "Write a Python function that returns {}.",
    "chat": "Tell me a story about the number {}.",
    "tool_use": "Switch on lamp {}.",
    "grounded": "Summarize: " + "It rained on that day in spring. " * 10 + "{}",
    "multilingual": "Pourquoi le ciel est-il bleu {} ?",
    "translation": "Translate to German: good day, number {}",
}


def line(kind: str, number: int) -> str:
    request: dict[str, Any] = {"messages": [{"role": "user", "content": TEXTS[kind].format(number)}]}
    if kind == "tool_use":
        request["tools"] = [{"type": "function", "function": {"name": "lamp"}}]
    label = "multilingual" if kind == "translation" else kind
    language = {"multilingual": "fr", "translation": "de", "math": "und"}.get(kind, "en")
    return json.dumps({"label": label, "language": language, "request": request})


LINES = [line(kind, number) for number in range(6) for kind in TEXTS]


@pytest.fixture(scope="module")
def made() -> Model:
    return train.train(corpus.read(LINES, seed=SEED), Steps(content=8, language=4))


def test_what_was_taught_is_known(made: Model) -> None:
    classifier = TrainedClassifier(made)
    for kind in TEXTS:
        row = json.loads(line(kind, 77))
        view = corpus.seen(row["request"], kind)
        assert classifier.label(view, extract(view)).label == row["label"]


def test_the_same_data_make_the_same_file(made: Model) -> None:
    again = train.train(corpus.read(LINES, seed=SEED), Steps(content=8, language=4))
    assert again.to_bytes() == made.to_bytes()


def test_the_command_writes_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, quick = train.train, Steps(content=4, language=2)
    monkeypatch.setattr(train, "train", lambda rows: whole(rows, quick))
    data, file = tmp_path / "rows.jsonl", tmp_path / "made.model"
    data.write_text("\n".join(LINES), encoding="utf-8")
    own = tmp_path / "own.jsonl"
    own.write_text(LINES[0], encoding="utf-8")
    main([str(data), str(file), "--own", str(own)])
    assert Model.from_bytes(file.read_bytes()).version == train.VERSION


def test_the_command_has_help() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "gateway.training.train", "--help"], capture_output=True, text=True, check=True
    )
    assert "labelled requests" in said.stdout


def test_kernels_for_newer_processors_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda _, command, environment: started.append((command, environment)))
    monkeypatch.setattr(train, "main", lambda arguments: started.append((["main", *arguments], {})))
    monkeypatch.delenv("NPY_DISABLE_CPU_FEATURES", raising=False)
    train.alike(["a", "b"])
    command, environment = started[0]
    assert command == [sys.executable, "-m", "gateway.training.train", "a", "b"]
    assert environment["OPENBLAS_CORETYPE"] == "Haswell"
    started.clear()
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", environment["NPY_DISABLE_CPU_FEATURES"])
    train.alike(["a"])
    assert started == [(["main", "a"], {})]
