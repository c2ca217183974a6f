"""A gateway whose files are edited while it runs: what is broken is told and stays out, what is good comes in."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.contract.stack import eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.stack import Loop, Stack

FLEET = """\
version: 1
backends:
  - {name: base, url: http://127.0.0.1:1, model: google/gemma-4-31B-it, served_model: tiny}
  - {name: fast, url: http://127.0.0.1:2, model: google/gemma-4-31B-it, served_model: tiny, method: dflash, draft_tokens: 7}
"""
POLICY = """\
version: 1
models: {tiny: google/gemma-4-31B-it}
allow_pin: true
routes:
  - name: math
    match: {workload: math}
    prefer: [fast, any]
  - name: default
    prefer: [fast, base]
"""
BROKEN = {
    "unknown backend": (
        "prefer: [fast, any]\n",
        "prefer: [fats, any]\n",
        "policy.yaml:7:14: routes[0].prefer[0]: there is no backend 'fats'; did you mean 'fast'?",
    ),
    "duplicate key": (
        "allow_pin: true\n",
        "allow_pin: true\nallow_pin: false\n",
        "policy.yaml:4:1: allow_pin: the key 'allow_pin' is given twice, first at line 3, column 1; keep one of them",
    ),
    "wrong type": (
        "prefer: [fast, base]\n",
        "prefer: [fast, base]\n    max_attempts: many\n",
        "policy.yaml:10:19: routes[1].max_attempts: this is the text 'many'; write a whole number",
    ),
    "unreachable route": (
        "prefer: [fast, base]\n",
        "prefer: [fast, base]\n  - name: late\n    match: {workload: code}\n    prefer: [base]\n",
        "policy.yaml:10:11: routes[2].name: it is never reached: route 'default' at line 8 takes all its requests; move it above 'default', or narrow the match of that",
    ),
}
CASES = pytest.mark.parametrize(("old", "new", "told"), BROKEN.values(), ids=list(BROKEN))
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello there."}], "max_tokens": 5}

_numbers = itertools.count()


@pytest.fixture(scope="module")
def files(loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(loop, tmp_path_factory.mktemp("files"), FLEET, POLICY) as found:
        yield found


@pytest.fixture
def edited(files: Stack) -> Iterator[Stack]:
    """The gateway with good files, which it has back when the test is over."""
    fleet = files.fleet.read_text()
    yield files
    files.fleet.write_text(fleet)
    put(files, good())


def put(stack: Stack, policy: str) -> None:
    """Write a good policy file and wait until it is in force."""
    stack.policy.write_text(policy)
    revision = stack.http.post("/-/policy/check", content=policy).json()["revision"]
    eventually(
        lambda: stack.http.get("/-/policy").json(),
        lambda found: (found["revision"], found["problems"]) == (revision, []),
    )


def broken(old: str, new: str) -> str:
    assert old in POLICY
    return POLICY.replace(old, new)


def good() -> str:
    """The policy with a remark, so that its revision is one that was never in force."""
    return f"{POLICY}# edition {next(_numbers)}\n"


def served_by(stack: Stack) -> tuple[str, str]:
    """Backend and policy of a request."""
    answer = stack.http.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200
    return answer.headers["x-specroute-backend"], answer.headers["x-specroute-policy"]


@CASES
def test_a_broken_policy_is_answered_with_place_and_remedy(
    edited: Stack, old: str, new: str, told: str
) -> None:
    before = edited.http.get("/-/policy").json()
    answer = edited.http.post("/-/policy/check", content=broken(old, new))
    assert answer.status_code == 422
    found = answer.json()
    assert found["ok"] is False
    assert [problem["text"] for problem in found["problems"]] == [told]
    (problem,) = found["problems"]
    assert told.startswith(f"{problem['file']}:{problem['line']}:{problem['column']}: ")
    assert told.endswith(f"{problem['wrong']}; {problem['right']}")
    assert edited.http.get("/-/policy").json() == before


def test_every_mistake_is_answered_at_once(edited: Stack) -> None:
    text = broken(*BROKEN["wrong type"][:2]).replace("[fast, any]", "[fats, any]")
    found = edited.http.post("/-/policy/check", params={"file": "mine.yaml"}, content=text).json()
    assert [(one["file"], one["line"]) for one in found["problems"]] == [("mine.yaml", 7), ("mine.yaml", 10)]


def test_a_good_policy_is_said_to_be_good_and_not_put_in_force(edited: Stack) -> None:
    answer = edited.http.post("/-/policy/check", content=good())
    assert answer.status_code == 200
    assert answer.json()["ok"] is True
    assert answer.json()["revision"] != edited.http.get("/-/policy").json()["revision"]


@CASES
def test_a_file_that_breaks_leaves_the_last_good_one_in_force(
    edited: Stack, old: str, new: str, told: str
) -> None:
    before = served_by(edited)
    edited.policy.write_text(broken(old, new))
    expected = [told.replace("policy.yaml", str(edited.policy), 1)]
    status = eventually(
        lambda: edited.http.get("/-/policy").json(),
        lambda found: [problem["text"] for problem in found["problems"]] == expected,
    )
    assert status["revision"] == before[1]
    assert edited.http.get("/status").json()["policy"] == status
    assert served_by(edited) == before
    put(edited, good())
    backend, revision = served_by(edited)
    assert backend == before[0]
    assert revision != before[1]


def test_an_edit_decides_where_the_next_request_goes(edited: Stack) -> None:
    for names, first in (("[base]", "base"), ("[fast]", "fast"), ("[base, fast]", "base")):
        put(edited, good().replace("[fast, base]", names))
        assert served_by(edited)[0] == first


def test_a_server_taken_out_of_the_fleet_gets_no_more(edited: Stack) -> None:
    put(edited, good().replace("[fast, base]", "[{method: dflash}, any]").replace("[fast, any]", "[any]"))
    assert served_by(edited)[0] == "fast"
    text = edited.fleet.read_text()
    edited.fleet.write_text("".join(line for line in text.splitlines(keepends=True) if "dflash" not in line))
    eventually(edited.backends, lambda found: set(found) == {"base"})
    assert served_by(edited)[0] == "base"
    edited.fleet.write_text(text)
    eventually(edited.backends, lambda found: set(found) == {"base", "fast"})
    assert served_by(edited)[0] == "fast"


def test_reload_answers_for_the_files(edited: Stack) -> None:
    edited.policy.write_text(broken(*BROKEN["unknown backend"][:2]))
    answer = edited.http.post("/-/reload")
    assert answer.status_code == 422
    assert len(answer.json()["problems"]) == 1
    edited.policy.write_text(good())
    answer = edited.http.post("/-/reload")
    assert answer.status_code == 200
    assert answer.json()["problems"] == []
