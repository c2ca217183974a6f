from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli import classify

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: str | None = None) -> Result:
    app = typer.Typer()
    classify.register(app)
    return CliRunner().invoke(app, list(arguments), input=stdin)


def body(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


ROWS = [
    {
        "id": "r1",
        "label": "code",
        "kind": "easy",
        "request": body("Write a Python function that adds two numbers."),
    },
    {"id": "r2", "label": "multilingual", "kind": "easy", "request": body("Pourquoi le ciel est-il bleu ?")},
    {"id": "r3", "label": "math", "kind": "hard", "request": body("Any ideas for a birthday party?")},
    body("What is the derivative of x^3 at x = 4?"),
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n", encoding="utf-8")
    return str(path)


def document(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    done = run(*arguments, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_labelled_lines_are_scored(file: str) -> None:
    read = document(file, "--by", "kind", "--by", "none")
    assert (read["count"], read["labelled"], read["accuracy"]) == (4, 3, pytest.approx(2 / 3))
    assert read["per_class"]["code"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "count": 1}
    assert read["confusion"]["math"] == {"chat": 1}
    assert 0 < read["macro_f1"] < 1
    assert 0 <= read["calibration_error"] <= 1
    assert read["covered"]["0.5"]["share"] > 0
    assert read["by"] == {
        "kind": {"easy": {"count": 2, "accuracy": 1.0}, "hard": {"count": 1, "accuracy": 0.0}},
        "none": {},
    }


def test_the_speed_is_told(file: str) -> None:
    read = document(file)
    assert 0 < read["cpu_ms_p50"] <= read["cpu_ms_p99"]
    assert read["cpu_ms"] > 0


def test_each_line_has_its_label_and_reason(file: str) -> None:
    lines = document(file)["lines"]
    assert [one["found"] for one in lines] == ["code", "multilingual", "chat", "math"]
    assert (lines[0]["id"], lines[0]["line"], lines[1]["language"]) == ("r1", 1, "fr")
    assert "rule code_asked" in lines[0]["reason"]


def test_lines_without_labels_are_classified_and_not_scored() -> None:
    read = document("-", stdin=json.dumps(body("Prove that 2 + 2 = 4")))
    assert [one["found"] for one in read["lines"]] == ["math"]
    assert "accuracy" not in read


def test_the_text_has_reasons_a_table_and_the_speed(file: str) -> None:
    said = run(file, "--by", "kind").stdout
    assert "1: right: code, because" in said
    assert "3: wrong, it is math: chat, because" in said
    assert "4: math, because" in said
    assert "accuracy 0.667" in said
    assert "hard" in said
    assert "4 requests, CPU" in said


def test_without_labels_the_text_has_no_table() -> None:
    said = run("-", stdin=json.dumps(body("Prove that 2 + 2 = 4"))).stdout
    assert "1 requests, CPU" in said
    assert "accuracy" not in said


def test_only_wrong_lines_and_only_some_are_shown(file: str) -> None:
    assert [one["id"] for one in document(file, "--wrong")["lines"] if "id" in one] == ["r3"]
    assert document(file, "--show", "1")["lines"][0]["id"] == "r1"
    assert document(file, "--show", "0")["lines"] == []


def test_the_rules_can_be_asked(file: str) -> None:
    assert {one["source"].partition(":")[0] for one in document(file, "--rules")["lines"]} == {"rule"}


def test_a_policy_says_what_is_sure_enough(file: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nclassify: {default: grounded, threshold: 100%}\nroutes: [{name: all, prefer: [any]}]\n",
        encoding="utf-8",
    )
    assert {one["found"] for one in document(file, "--policy", str(policy))["lines"]} == {"grounded"}
    policy.write_text("version: 1\n", encoding="utf-8")
    done = run(file, "--policy", str(policy))
    assert (done.exit_code, "routes" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no request in it"),
        ("{}", ":1: a line is an object"),
        ("[1", ":1: not JSON"),
        ('{"prompt": "x", "model": 3}', "-:1: the body"),
    ],
)
def test_what_is_no_request_is_named(text: str, says: str) -> None:
    done = run("-", stdin=text)
    assert done.exit_code == 2
    assert says in done.stderr


THINGS = ("rent", "loan", "sale", "work", "supply", "licence", "lease", "purchase", "service", "merger")


def examples(tmp_path: Path, *more: dict[str, Any]) -> str:
    lines = [
        {"label": "legal", "request": body(f"Review the termination clause of this {thing} contract.")}
        for thing in THINGS
    ]
    path = tmp_path / "examples.jsonl"
    path.write_text("\n".join(map(json.dumps, [*lines, *more])), encoding="utf-8")
    return str(path)


def test_labels_of_ones_own_are_learnt_and_used(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    said = run(examples(tmp_path), "--train", str(own))
    assert said.exit_code == 0, said.output
    assert "Wrote legal to" in said.stdout
    assert "legal: 10 lines" in said.stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nclassify: {examples: own.json}\nroutes: [{name: all, prefer: [any]}]\n", encoding="utf-8"
    )
    asked = json.dumps(body("Is the termination clause of my gym contract valid?"))
    read = document("-", "--policy", str(policy), stdin=asked)
    assert (read["lines"][0]["found"], read["lines"][0]["source"]) == ("legal", "examples")


def test_how_right_they_are_is_told_as_json_too(tmp_path: Path) -> None:
    read = document(examples(tmp_path), "--train", str(tmp_path / "own.json"))
    assert read["per_class"]["legal"]["recall"] > 0.9


@pytest.mark.parametrize(
    ("more", "target", "says"),
    [
        (body("no label"), "own.json", ":11: the line has no label to learn"),
        ({"label": "sql", "request": body("x")}, "own.json", "label 'sql' has 1 examples"),
        ({"label": "legal", "request": body("x")}, "no/such/folder.json", "No such file"),
    ],
)
def test_what_cannot_be_learnt_is_named(tmp_path: Path, more: dict[str, Any], target: str, says: str) -> None:
    done = run(examples(tmp_path, more), "--train", str(tmp_path / target))
    assert (done.exit_code, says in done.stderr) == (2, True)
