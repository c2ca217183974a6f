from __future__ import annotations

import pytest

from gateway.policy import source as module
from gateway.policy.source import MOST_VALUES, read, yaml_parser


def problems(text: str) -> list[tuple[int, int, str, str, str]]:
    return [(p.line, p.column, p.path, p.wrong, p.right) for p in read(text, "f.yaml")[1]]


def test_every_key_and_value_has_a_position() -> None:
    source, found = read("a: 1\nb:\n  - x\n  - {c: yes, d: 2.5}\n", "f.yaml")
    assert found == []
    assert source is not None
    assert source.data == {"a": 1, "b": ["x", {"c": "yes", "d": 2.5}]}
    assert source.keys[("b",)] == (2, 1)
    assert source.values[("b", 0)] == (3, 5)
    assert source.keys[("b", 1, "d")] == (4, 14)
    assert source.values[("b", 1, "d")] == (4, 17)


def test_a_file_whose_text_stays_is_parsed_once_and_each_reader_has_problems_of_its_own() -> None:
    first, said = read("a: 1\na: 2\n", "f.yaml")
    said.clear()
    again, found = read("a: 1\na: 2\n", "f.yaml")
    assert again is first
    assert len(found) == 1
    assert read("a: 1\na: 2\n", "g.yaml")[1][0].file == "g.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("off", "off"),
        ("none", "none"),
        ("2026-01-01", "2026-01-01"),
        ("2026-13-45", "2026-13-45"),
        ("12:30", "12:30"),
        ("5%", "5%"),
        ("true", True),
        ("null", None),
        ("", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("1e3", 1000.0),
        ("010", 10),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    source, found = read(f"a: {text}\n", "f.yaml")
    assert found == []
    assert source is not None
    assert source.data == {"a": value}
    assert type(source.data["a"]) is type(value)


def test_keys_are_text() -> None:
    source, found = read("1: a\ntrue: b\n", "f.yaml")
    assert found == []
    assert source is not None
    assert source.data == {"1": "a", "true": "b"}


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    source, _ = read("\ufeffa: 1\n", "f.yaml")
    assert source is not None
    assert source.data == {"a": 1}


def test_a_duplicate_key_names_both_positions_and_keeps_the_first_value() -> None:
    source, found = read("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n", "f.yaml")
    assert [(p.line, p.column, p.path) for p in found] == [(5, 3, "b.c"), (6, 1, "a")]
    assert "first at line 3, column 3" in found[0].wrong
    assert "first at line 1, column 1" in found[1].wrong
    assert source is not None
    assert source.data == {"a": 1, "b": {"c": 1, "d": 2}}


def test_an_anchor_gives_its_value_wherever_it_is_used() -> None:
    source, found = read("a: &x [1, 2]\nb: *x\n", "f.yaml")
    assert found == []
    assert source is not None
    assert source.data == {"a": [1, 2], "b": [1, 2]}
    assert source.values[("b", 1)] == (1, 11)


def test_an_anchor_may_be_set_again() -> None:
    source, found = read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "f.yaml")
    assert found == []
    assert source is not None
    assert source.data == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize(
    ("text", "line", "column", "right"),
    [
        ("a:\n\t- b\n", 2, 1, "spaces, not with tabs"),
        ("\ta: 1\n", 1, 1, "spaces, not with tabs"),
        ("a: @x\n", 1, 4, "in quotes"),
        ("a: b: c\n", 1, 5, "in quotes"),
        ("a: [1,\n", 2, 1, "close the bracket"),
        ("a: 'x", 1, 6, "close the quote"),
        ("- a\nb: 1\n", 2, 1, "same column"),
        ("a: 1\nb\nc: 2\n", 3, 1, "space after the colon"),
        ("a: 1\n---\nb: 2\n", 2, 1, "one document"),
        ("a: *b\n", 1, 4, "in quotes"),
        ("- *\n", 1, 4, "in quotes"),
        ("a: }\n", 1, 4, "check quotes, brackets"),
        ("a: 1\nb: \x01\n", 2, 4, "remove it"),
        ("a: 1\nb: \ud83d\n", 2, 4, "remove it"),
    ],
)
def test_a_syntax_error_has_a_position_and_a_remedy(text: str, line: int, column: int, right: str) -> None:
    source, found = read(text, "f.yaml")
    assert source is None
    assert [(p.line, p.column) for p in found] == [(line, column)]
    assert right in found[0].right


def test_a_syntax_error_says_where_what_it_is_in_begins() -> None:
    _, (found,) = read("a: 1\nb: 'x\nc: 2\n", "f.yaml")
    assert found.wrong.endswith("(while scanning a quoted scalar that starts at line 2)"), found.wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("", "empty"), ("# nothing\n", "empty"), ("- a\n", "a list"), ("word\n", "a single value")],
)
def test_a_file_that_holds_no_keys_is_refused(text: str, wrong: str) -> None:
    source, found = read(text, "f.yaml")
    assert source is None
    assert [(p.line, p.column, p.right) for p in found] == [(1, 1, "start with 'version: 1'")]
    assert wrong in found[0].wrong


@pytest.mark.parametrize(
    ("text", "path", "wrong"),
    [
        ("a:\n  b: !secret x\n", "a.b", "tag !secret"),
        ("a:\n  ? [x]\n  : 1\n", "a", "cannot be a key"),
        (f"a:\n  b: {'9' * 5000}\n", "a.b", "not a usable number"),
        ('a:\n  b: "\\ud83d"\n', "a.b", "half a character"),
        ('a:\n  "\\ud83d": 1\n', "a", "half a character"),
    ],
)
def test_what_is_not_plain_data_is_a_problem_in_its_place(text: str, path: str, wrong: str) -> None:
    source, found = read(text, "f.yaml")
    assert source is not None
    assert [(p.line, p.path) for p in found] == [(2, path)]
    assert wrong in found[0].wrong


def test_endless_and_exploding_structures_are_refused() -> None:
    assert "refers to itself" in problems("a: &x [*x]\n")[0][3]
    assert "nested too deeply" in problems("a: " + "[" * 500 + "]" * 500)[0][3]
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    assert f"more than {MOST_VALUES} values" in problems(bomb)[0][3]


def test_a_problem_points_at_the_nearest_place_that_exists() -> None:
    source, _ = read("a:\n  b: 1\n", "f.yaml")
    assert source is not None
    missing = source.problem(("a", "c", 0), "it is missing", "add it")
    assert (missing.line, missing.column, missing.path) == (2, 3, "a.c[0]")
    assert source.problem(("a", "b"), "w", "r", key=True).column == 3
    assert source.problem(("a", "b"), "w", "r", warning=True).column == 6


def test_parsing_lets_streams_go_first_before_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = []
    monkeypatch.setattr(module, "step_aside", lambda: chances.append(1))
    assert yaml_parser().load("a: [1, 2]\nb: c") == {"a": [1, 2], "b": "c"}
    assert len(chances) == 7
