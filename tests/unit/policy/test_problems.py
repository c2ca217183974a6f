from __future__ import annotations

from gateway.policy.problems import Problem, spell, suggest


def test_a_problem_reads_as_one_line_that_editors_can_jump_to() -> None:
    problem = Problem(
        "policy.yaml", 12, 7, "routes[0].prefer[1]", "no backend is called 'x'", "did you mean 'y'?"
    )
    assert str(problem) == (
        "policy.yaml:12:7: routes[0].prefer[1]: no backend is called 'x'; did you mean 'y'?"
    )


def test_a_warning_and_a_problem_of_the_whole_file_say_so() -> None:
    assert str(Problem("f.yaml", 1, 1, "", "it is empty", "fill it", warning=True)) == (
        "f.yaml:1:1: warning: it is empty; fill it"
    )


def test_problems_sort_by_position() -> None:
    late = Problem("a.yaml", 10, 1, "a", "w", "r")
    early = Problem("a.yaml", 9, 4, "z", "w", "r")
    other = Problem("b.yaml", 1, 1, "a", "w", "r")
    assert sorted([other, late, early]) == [early, late, other]


def test_json_names_every_field() -> None:
    assert Problem("f", 1, 2, "p", "w", "r").as_json() == {
        "file": "f", "line": 1, "column": 2, "path": "p", "wrong": "w", "right": "r", "warning": False,
    }  # fmt: skip


def test_a_path_is_spelled_as_in_code() -> None:
    assert spell(()) == ""
    assert spell(("routes", 0, "prefer", 1)) == "routes[0].prefer[1]"


def test_a_remedy_for_a_name_is_the_nearest_or_all() -> None:
    assert suggest("dflahs", ["none", "dflash"], "methods") == "did you mean 'dflash'?"
    assert suggest("zzz", ["none", "dflash"], "methods") == "methods: dflash, none"
    assert suggest("zzz", [], "backends") == "there are no backends yet"


def test_what_looks_like_a_key_is_in_no_part_of_a_problem() -> None:
    key = "sk-canary-4f9d2c71"
    problem = Problem("f.yaml", 1, 2, spell(("labels", key)), f"{key!r} is wrong", f"remove {key}")
    assert str(problem) == "f.yaml:1:2: labels.…: '…' is wrong; remove …"
