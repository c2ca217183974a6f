from __future__ import annotations

from typing import Any

import pytest

from gateway.policy.schema import BackendSection, FleetFile, PolicyFile, RouteSection
from gateway.policy.source import Source, read
from gateway.policy.validate import check, check_list


def source(text: str) -> Source:
    found, problems = read(text, "f.yaml")
    assert found is not None
    assert problems == []
    return found


def said(model: type[Any], text: str) -> list[tuple[int, int, str, str, str]]:
    read_ = source(text)
    problems = check(model, read_.data, read_).problems
    return [(one.line, one.column, one.path, one.wrong, one.right) for one in problems]


BACKEND = "name: a\nurl: http://h:1\nmodel: m/x\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_in_flight: many", (4, 16, "max_in_flight", "this is the text 'many'", "write a whole number")),
        ("max_in_flight: 1.5", (4, 16, "max_in_flight", "this is the number 1.5", "write a whole number")),
        ("max_in_flight: true", (4, 16, "max_in_flight", "this is the switch true", "write a whole number")),
        ("max_in_flight: [1]", (4, 16, "max_in_flight", "this is a list", "write a whole number")),
        (
            "max_in_flight: {a: 1}",
            (4, 16, "max_in_flight", "this is keys with values", "write a whole number"),
        ),
        ("max_in_flight:", (4, 1, "max_in_flight", "there is no value", "write a whole number")),
        (
            "max_in_flight: 0",
            (4, 16, "max_in_flight", "0 is out of range", "it should be greater than or equal to 1"),
        ),
        (
            "refuses: [tools, toolz]",
            (4, 18, "refuses[1]", "there is no parameter 'toolz'", "did you mean 'tools'?"),
        ),
        ("refuses: min_p", (4, 10, "refuses", "this is the text 'min_p'", "write a list, such as [a, b]")),
        (
            "labels: [a]",
            (4, 9, "labels", "this is a list", "write keys with values, indented below"),
        ),
        (
            "labels:\n  gpus: 8",
            (5, 9, "labels.gpus", "this is the number 8", "write text, in quotes if it looks like a number"),
        ),
        (
            "draft: ''",
            (4, 8, "draft", "this is empty", "give it a value, or remove the key if it may be left out"),
        ),
        (
            "num_speculative_tokens: 3",
            (
                4,
                1,
                "num_speculative_tokens",
                "there is no key 'num_speculative_tokens' here",
                "did you mean 'draft_tokens'?",
            ),
        ),
        (
            "num-speculative-tokens: 3",
            (
                4,
                1,
                "num-speculative-tokens",
                "there is no key 'num-speculative-tokens' here",
                "did you mean 'draft_tokens'?",
            ),
        ),
        ("methid: mtp", (4, 1, "methid", "there is no key 'methid' here", "did you mean 'method'?")),
        ("method: mpt", (4, 9, "method", "there is no method 'mpt'", "did you mean 'mtp'?")),
    ],
)
def test_a_mistake_has_a_position_and_a_remedy(text: str, expected: tuple[int, int, str, str, str]) -> None:
    assert said(BackendSection, BACKEND + text + "\n") == [expected]


def test_a_key_that_resembles_none_is_answered_with_all_there_are() -> None:
    [(_, _, path, _, right)] = said(RouteSection, "name: a\nprefer: [any]\nmatch: {zzz: 1}\n")
    assert path == "match.zzz"
    assert right.startswith("keys here: endpoint, language, max_prompt_tokens")


def test_a_key_that_is_missing_comes_with_an_example() -> None:
    assert said(BackendSection, "url: http://h:1\nmodel: m/x\n") == [
        (1, 1, "name", "the key 'name' is missing", "add 'name: gemma31-mtp4'"),
    ]
    [(_, _, path, _, right)] = said(FleetFile, "version: 1\n")
    assert (path, right) == ("backends", "add 'backends:' and a list")


def test_a_backend_cannot_be_called_any() -> None:
    assert said(BackendSection, BACKEND.replace("name: a", "name: any")) == [
        (1, 7, "name", "'any' stands for every backend", "choose another name"),
    ]


def test_a_version_that_is_not_supported_says_which_is() -> None:
    assert said(FleetFile, "version: 2\nbackends: []\n") == [
        (1, 10, "version", "version 2 is not supported", "write 1"),
    ]


@pytest.mark.parametrize(
    ("prefer", "column", "path", "wrong"),
    [
        ("[any, {}]", 15, "prefer[1]", "the selector is empty"),
        ("[{methd: mtp}]", 11, "prefer[0].methd", "there is no key 'methd' here"),
        ("[{method: mpt}]", 19, "prefer[0].method", "there is no method 'mpt'"),
        ("[4]", 10, "prefer[0]", "this is the number 4"),
        ("[]", 9, "prefer", "this is empty"),
        ("any", 9, "prefer", "this is the text 'any'"),
    ],
)
def test_a_mistake_within_a_preference_is_placed_there(
    prefer: str, column: int, path: str, wrong: str
) -> None:
    assert [one[1:4] for one in said(RouteSection, f"name: a\nprefer: {prefer}\n")] == [(column, path, wrong)]


@pytest.mark.parametrize(
    ("match", "path", "wrong"),
    [
        ("{workload: maths}", "match.workload", "there is no workload 'maths'"),
        ("{workload: [code, maths]}", "match.workload[1]", "there is no workload 'maths'"),
        ("{workload: 3}", "match.workload", "this is the number 3"),
        ("{endpoint: chatt}", "match.endpoint", "there is no endpoint 'chatt'"),
        ("{language: english}", "match.language", "'english' is not a language code"),
        ("{stream: yes}", "match.stream", "this is the text 'yes'"),
        ("{min_prompt_tokens: 9, max_prompt_tokens: 8}", "match", "no prompt is longer than"),
    ],
)
def test_a_mistake_within_a_match_is_placed_there(match: str, path: str, wrong: str) -> None:
    [(line, _, where, what, _)] = said(RouteSection, f"name: a\nprefer: [any]\nmatch: {match}\n")
    assert (line, where) == (3, path)
    assert wrong in what


def test_a_scorer_that_does_not_exist_and_a_weight_that_is_endless() -> None:
    found = said(PolicyFile, "version: 1\nroutes: []\ndefaults:\n  score: {loda: 1, preference: .inf}\n")
    assert [(one[2], one[4]) for one in found] == [
        ("defaults.score.loda", "did you mean 'load'?"),
        ("defaults.score.preference", "write a finite number"),
    ]


def test_what_is_wrong_does_not_hide_what_is_right() -> None:
    read_ = source("url: nowhere\nmodel: m/x\nmax_in_flight: 7\n")
    checked = check(BackendSection, read_.data, read_)
    assert checked.damaged == {"name", "url"}
    assert checked.value is not None
    assert checked.value.max_in_flight == 7
    assert checked.value.name == "gemma31-mtp4"


def test_of_a_section_that_is_none_nothing_can_be_used() -> None:
    read_ = source("routes: [5, {}]\n")
    checked, problems = check_list(RouteSection, dict(read_.data), "routes", read_)
    assert checked[0].value is None
    assert [one.path for one in problems] == ["routes[0]", "routes[1].name", "routes[1].prefer"]
    assert problems[0].wrong == "this is the number 5"


def test_a_list_is_checked_item_by_item_and_once() -> None:
    read_ = source("version: 1\nbackends: []\n")
    data = dict(read_.data)
    checked, problems = check_list(BackendSection, data, "backends", read_)
    assert checked == []
    assert [(one.line, one.wrong) for one in problems] == [(2, "the list is empty")]
    assert data["backends"] == []
    assert read_.data is not data


def test_what_is_no_list_is_left_for_the_check_of_the_file() -> None:
    read_ = source("version: 1\nbackends: 5\n")
    data = dict(read_.data)
    assert check_list(BackendSection, data, "backends", read_) == ([], [])
    assert [one.wrong for one in check(FleetFile, data, read_).problems] == ["this is the number 5"]
