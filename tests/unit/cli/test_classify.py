from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli import classify
from gateway.core.features import WORKLOADS

DATA: Final = Path(__file__).parents[4] / "shared" / "data" / "classify"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
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


def document(*arguments: str, stdin: str | bytes | None = None) -> dict[str, Any]:
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
    assert "code request" in lines[0]["reason"]


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
    assert "1 request, CPU" in said
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
    lines = document(file, "--policy", str(policy))["lines"]
    assert {one["found"] for one in lines} == {"grounded"}
    assert "nothing was sure enough" in lines[0]["reason"]
    assert "(confidence 1.00): for code: " in lines[0]["reason"]
    policy.write_text("version: 1\n", encoding="utf-8")
    done = run(file, "--policy", str(policy))
    assert (done.exit_code, "routes" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{}", "no request, or one that is no object"),
        ("[1", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"request": "hi"}', "no request, or one that is no object"),
        ('{"request": null, "prompt": "x"}', "no request, or one that is no object"),
        ('{"prompt": "x", "model": 3}', "the body"),
        ('{"prompt": "x", "label": 3}', 'the label is 3; a label is text such as "code"'),
        ('{"prompt": "x", "label": ["code"]}', 'the label is ["code"]'),
        ("[" * 100_000, "not JSON"),
        ('{"request": {"messages": NaN}}', "the body"),
        (b'{"prompt": "\xff"}', "not UTF-8 text, at byte 12 of the line"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_the_others_go_on(line: str | bytes, says: str) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    done = run("-", "--json", stdin=b"\n".join((json.dumps(body("hello")).encode(), raw, b'{"prompt": "x"}')))
    assert done.exit_code == 2
    assert f"-:2: {says}" in done.stderr
    assert "1 of 3 lines could not be used." in done.stderr
    read = json.loads(done.stdout)
    assert (read["count"], read["skipped"]) == (2, 1)


def test_a_file_without_any_line_that_can_be_used_gives_no_result() -> None:
    done = run("-", "--json", stdin="[1]\n" * 30)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("not a JSON object") == 20
    assert "30 of 30 lines could not be used, 10 of them not named here." in done.stderr


@pytest.mark.parametrize("text", ["", "\n\n", " \r\n", "\ufeff"])
def test_an_empty_file_is_refused(text: str) -> None:
    done = run("-", stdin=text)
    assert (done.exit_code, "-: there is no request in it" in done.stderr) == (2, True)


def test_a_file_that_is_not_there_is_named() -> None:
    done = run("no-such-file.jsonl")
    assert (done.exit_code, done.stderr) == (2, "no-such-file.jsonl: No such file or directory\n")


TEXT = json.dumps({"label": "code", "request": body("Write a loop in Python.")})


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{TEXT}\r\n\r\n{TEXT}".encode(),
        f"{TEXT}\n \n{TEXT}\n\n".encode(),
        gzip.compress(f"{TEXT}\n{TEXT}".encode()),
    ],
    ids=["from an editor on Windows", "with empty lines", "gzip"],
)
def test_files_come_in_several_forms(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows").write_bytes(content)
    read = document(str(tmp_path / "rows"))
    assert (read["count"], read["accuracy"]) == (2, 1.0)
    assert document("-", stdin=content)["count"] == 2


@pytest.mark.parametrize(
    "content",
    [gzip.compress(TEXT.encode())[:-9], b"\x1f\x8bx", b"\x1f\x8b\x08" + b"x" * 30],
    ids=["cut short", "of an unknown method", "of nothing sensible"],  # what gzip writes holds the time
)
def test_a_broken_gzip_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.gz").write_bytes(content)
    done = run(str(tmp_path / "rows.gz"))
    assert (done.exit_code, "not a whole gzip file" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "line",
    [
        {"label": "code", "request": body("Write a loop in Python."), "prompt": "x", "messages": 3},
        {"label": "code", **body("Write a loop in Python.")},
        {"workload": "code", "request": body("Write a loop in Python.")},
        {"label": " code ", "request": body("Write a loop in Python.")},
        {"label": "code", "prompt": "Write a loop in Python."},
        {"label": "code", "input": "Write a loop in Python."},
        {"label": "code", "request": {"model": "m", "stream": True, **body("Write a loop in Python.")}},
    ],
)
def test_a_line_says_its_request_and_label_in_several_ways(line: dict[str, Any]) -> None:
    read = document("-", stdin=json.dumps(line))
    assert (read["labelled"], read["accuracy"]) == (1, 1.0)


@pytest.mark.parametrize("label", [{}, {"label": ""}, {"label": None}, {"label": "  "}])
def test_a_line_may_have_no_label_beside_others_that_have(label: dict[str, Any]) -> None:
    lines = [TEXT, json.dumps({**label, "request": body("hello")})]
    done = run("-", "--json", stdin="\n".join(lines))
    assert done.exit_code == 0
    assert (json.loads(done.stdout)["count"], json.loads(done.stdout)["labelled"]) == (2, 1)
    assert done.stderr == "Note: 1 line without a label: classified, not scored.\n"


def test_a_label_that_no_request_can_get_is_wrong_and_noted() -> None:
    strange = json.dumps({"label": "poetry", "request": body("Write a poem about the sea.")})
    done = run("-", "--json", stdin=f"{TEXT}\n{strange}\n{strange}")
    read = json.loads(done.stdout)
    assert (done.exit_code, read["accuracy"]) == (0, pytest.approx(1 / 3))
    assert read["per_class"]["poetry"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 2}
    assert "2 lines with the label 'poetry', which no request can get: counted as wrong" in done.stderr


@pytest.mark.parametrize("text", ["   \n ", "🙂🙂", "", "?!", "\u200b"])
def test_what_has_no_words_gets_the_default_and_no_confidence(text: str) -> None:
    (line,) = document("-", stdin=json.dumps(body(text)))["lines"]
    assert (line["found"], line["confidence"], line["source"]) == ("chat", 0.0, "default")


@pytest.mark.parametrize(
    "content",
    [
        None, [], {}, 3, "aGVsbG8gd29ybGQ" * 5000, "half a pair \ud800 and \udfff",
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "input_audio"}],
        [{"type": "text", "text": "Write a loop in Python."}, {"type": "image_url"}],
    ],
)  # fmt: skip
def test_odd_content_gets_a_label(content: object) -> None:
    row = {"id": "\ud800", "label": "chat", "request": {"messages": [{"role": "user", "content": content}]}}
    assert document("-", stdin=json.dumps(row))["labelled"] == 1
    assert run("-", stdin=json.dumps(row)).exit_code == 0


def test_ten_thousand_messages_get_a_label() -> None:
    messages = [{"role": role, "content": "go on"} for _ in range(5000) for role in ("user", "assistant")]
    assert document("-", stdin=json.dumps({"messages": messages}))["count"] == 1


@pytest.mark.parametrize("width", [80, 140])
def test_tables_fit_the_terminal(file: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = [line for line in run(file, "--by", "kind").stdout.splitlines() if line.startswith(("│", "┃"))]
    assert max(map(len, table)) <= width
    assert not any("…" in line for line in table)


def test_a_key_that_no_line_has_is_said(file: str) -> None:
    assert "No labelled line has the key 'sort'." in run(file, "--by", "sort").stdout


@pytest.mark.parametrize("file", ["dev.jsonl", "train_permissive.jsonl"])
def test_rows_of_the_data_are_all_scored(file: str, tmp_path: Path) -> None:
    whole = DATA / file
    if not whole.exists():
        pytest.skip("labelled requests are not part of the repository")
    lines = whole.read_bytes().split(b"\n")[:-1]
    some = tmp_path / file
    some.write_bytes(b"\n".join(lines[:: len(lines) // 500]))
    done = run(str(some), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    read = json.loads(done.stdout)
    assert read["count"] == read["labelled"] >= 500
    assert {"accuracy", "macro_f1", "per_class", "cpu_ms"} <= set(read)
    assert set(read["per_class"]) == set(WORKLOADS)


THINGS = (
    "rent", "loan", "sale", "work", "supply", "licence", "lease", "purchase", "service", "merger", "insurance",
    "repair",
)  # fmt: skip


def examples(tmp_path: Path, *more: dict[str, Any], count: int = len(THINGS)) -> str:
    lines = [
        {"label": "legal", "request": body(f"Review the termination clause of this {thing} contract.")}
        for thing in THINGS[:count]
    ]
    path = tmp_path / "examples.jsonl"
    path.write_text("\n".join(map(json.dumps, [*lines, *more])), encoding="utf-8")
    return str(path)


def test_labels_of_ones_own_are_learnt_and_used(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    said = run(examples(tmp_path), "--train", str(own))
    assert said.exit_code == 0, said.output
    assert f"Wrote legal to {own}, from 12 lines" in said.stdout
    assert "legal: 12 different examples" in said.stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nclassify: {examples: own.json}\nroutes: [{name: all, prefer: [any]}]\n", encoding="utf-8"
    )
    asked = {"label": "legal", "request": body("Review the termination clause of my boat contract.")}
    done = run("-", "--policy", str(policy), "--json", stdin=json.dumps(asked))
    read = json.loads(done.stdout)
    assert (read["lines"][0]["found"], read["lines"][0]["source"]) == ("legal", "examples")
    assert (read["accuracy"], done.stderr) == (1.0, "")


def test_how_right_they_are_is_told_as_json_too(tmp_path: Path) -> None:
    read = document(examples(tmp_path), "--train", str(tmp_path / "own.json"))
    assert read["per_class"]["legal"]["recall"] > 0.9


def test_as_many_examples_as_are_needed_are_enough(tmp_path: Path) -> None:
    own = str(tmp_path / "own.json")
    assert run(examples(tmp_path, count=10), "--train", own).exit_code == 0
    done = run(examples(tmp_path, count=9), "--train", own)
    assert done.exit_code == 2
    assert "label 'legal' has 9 different examples; give it 10 at least, 30 are better" in done.stderr


@pytest.mark.parametrize(
    ("more", "target", "says"),
    [
        (body("no label"), "own.json", ":13: no label to learn"),
        ({"label": "", "request": body("x")}, "own.json", ":13: no label to learn"),
        ({"label": "a b", "request": body("x")}, "own.json", ":13: 'a b' cannot be a name; use up to 63"),
        ({"label": "other", "request": body("x")}, "own.json", ":13: 'other' stands for something else"),
        ({"label": "sql", "request": {"model": 3}}, "own.json", ":13: the body must be"),
        ({"label": "sql", "request": 3}, "own.json", ":13: no request"),
        (
            {"label": "sql", "request": body("Review the termination clause of this rent contract.")},
            "own.json",
            ":13: is 'sql', and the same request is 'legal' in line 1",
        ),
        (
            {"label": "sql", "request": body("🎉🎂")},
            "own.json",
            ":13: holds no letter or digit to learn from",
        ),
        ({"label": "sql", "request": body("x")}, "own.json", "label 'sql' has 1 different examples"),
        ({"label": "legal", "request": body("x")}, "no/such/folder.json", "No such file"),
    ],
)
def test_what_cannot_be_learnt_is_named(tmp_path: Path, more: dict[str, Any], target: str, says: str) -> None:
    done = run(examples(tmp_path, more), "--train", str(tmp_path / target))
    assert done.exit_code == 2
    assert says in done.stderr
    assert not (tmp_path / target).exists()


def test_learning_takes_no_options_of_scoring(tmp_path: Path) -> None:
    done = run(examples(tmp_path), "--train", str(tmp_path / "own.json"), "--rules")
    assert (done.exit_code, "--train only learns" in done.stderr) == (2, True)


def test_more_examples_than_can_be_learnt_from_are_refused(tmp_path: Path) -> None:
    line = json.dumps({"label": "legal", "request": body("x")})
    done = run("-", "--train", str(tmp_path / "own.json"), stdin="\n".join([line] * 2001))
    assert (done.exit_code, "2001 lines; give at most 2000" in done.stderr) == (2, True)
