from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from gateway.core.plan import Limits
from gateway.core.policy import AUTO, CANARY, FROZEN, SHADOW, STATIC, Policy
from gateway.policy.learned import dump
from gateway.policy.load import Invalid, Loaded, load, load_policy
from tests.factories import SERVER_MODEL

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = "version: 1\nroutes: [{name: all, prefer: [any]}]\n"


def policy(text: str, folder: Path | None = None) -> Policy:
    loaded = load_policy(ROUTES + text, folder=folder)
    assert isinstance(loaded, Loaded), loaded
    return loaded.value


def problems(text: str, folder: Path | None = None) -> list[str]:
    loaded = load_policy(ROUTES + text, folder=folder)
    assert isinstance(loaded, Invalid)
    return [str(one) for one in loaded.problems]


def test_a_policy_is_static_unless_it_says_otherwise() -> None:
    learning = policy("").learning
    assert (learning.mode, learning.share, learning.explore, learning.floor) == (STATIC, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("written", "mode", "share", "explore", "floor"),
    [
        ("shadow", SHADOW, 0.0, 0.0, 0.0),
        ("{canary: 10%}", CANARY, 0.1, 0.03, 0.01),
        ("auto, explore: 1%, floor: 0", AUTO, 1.0, 0.01, 0.0),
    ],
)
def test_modes_say_who_decides(written: str, mode: str, share: float, explore: float, floor: float) -> None:
    learning = policy(f"learning: {{mode: {written}}}\n").learning
    assert (learning.mode, learning.share) == (mode, share)
    assert (learning.explore, learning.floor) == (explore, floor)


def test_a_frozen_policy_goes_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "learned.yaml").write_text(dump({"a": SERVER_MODEL}))
    learning = policy("learning: {mode: frozen, file: learned.yaml}\n", tmp_path).learning
    assert (learning.mode, learning.share, learning.explore) == (FROZEN, 1.0, 0.0)
    assert set(learning.known) == {"a"}


def test_the_file_is_part_of_the_revision(tmp_path: Path) -> None:
    revisions = set()
    for known in ({}, {"a": SERVER_MODEL}):
        (tmp_path / "learned.yaml").write_text(dump(known))
        revisions.add(policy("learning: {mode: auto, file: learned.yaml}\n", tmp_path).revision)
    assert len(revisions) == 2


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "learning: {mode: clever}\n",
            "'clever' is not a mode; write static, shadow, auto, frozen or {canary: 10%}",
        ),
        ("learning: {mode: {canary: 30}}\n", "the share 30 is not between 0 and 1"),
        ("learning: {mode: frozen}\n", "there is nothing to go by"),
        ("learning: {file: no.yaml}\n", "'no.yaml' cannot be used: No such file or directory"),
        ("learning: {file: bad.yaml}\n", "'bad.yaml' cannot be used: version: Field required"),
        ("classes: [{name: a, match: {key_sha256: [x]}}]\n", "'x' is not a SHA-256 digest"),
        ("classes: [{name: a, tpot: 20}]\n", "20 is not a duration"),
        ("classes: [{name: a}, {name: a}]\n", "there already is a class 'a', at line 3"),
    ],
)
def test_mistakes_are_told(text: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("servers: {}\n")
    assert any(wrong in one for one in problems(text, tmp_path))


@pytest.mark.parametrize(
    ("file", "wrong"),
    [
        ("", "there is nothing to go by"),
        (", file: no.yaml", "'no.yaml' cannot be used"),
    ],
)
def test_of_a_file_that_is_not_there_it_is_not_said_which_servers_it_lacks(
    file: str, wrong: str, tmp_path: Path
) -> None:
    found = load(FLEET, f"{ROUTES}learning: {{mode: frozen{file}}}\n", folder=tmp_path)
    assert isinstance(found, Invalid)
    assert found.warnings == ()
    (one,) = found.problems
    assert one.wrong.startswith(wrong)


def test_without_a_folder_the_file_is_not_read() -> None:
    loaded = load_policy(ROUTES + "learning: {file: learned.yaml}\n")
    assert isinstance(loaded, Loaded)
    assert "was not read" in str(loaded.warnings[0])


def test_classes_are_compiled() -> None:
    digest = sha256(b"secret").hexdigest()
    found = policy(
        "trust_class: false\nclasses:\n"
        "  - name: interactive\n    ttft: 1s\n    tpot: 20ms\n    priority: 2\n    wait: 3s\n"
        f"    match: {{header: {{X-Team: 'chat.*'}}, key_sha256: {digest}, tenant: [t], endpoint: chat, model: m,\n"
        "            stream: true, min_max_tokens: 1, max_max_tokens: 99}\n"
        "  - {name: bulk}\n"
    )
    assert not found.trust_class
    one, bulk = found.classes
    assert (one.name, one.limits, one.priority, one.wait) == ("interactive", Limits(1.0, 0.02), 2, 3.0)
    match = one.match
    assert match.headers[b"x-team"].fullmatch(b"chat-1")
    assert match.keys == {sha256(b"secret").digest()}
    assert (match.tenants, match.endpoints, match.models) == ({"t"}, {"chat"}, {"m"})
    assert (match.stream, match.min_max_tokens, match.max_max_tokens) == (True, 1, 99)
    assert (bulk.limits, bulk.wait) == (Limits(), None)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("classes: [{name: a, tpot: 20ms}]\n", True),
        ("classes: [{name: a, ttft: 1s}]\nlearning: {mode: static}\n", True),
        ("classes: [{name: a, tpot: 20ms}]\nlearning: {mode: shadow}\n", False),
        ("classes: [{name: a}]\n", False),
    ],
)
def test_limits_that_nothing_is_done_about_are_warned_of(text: str, warned: bool) -> None:
    loaded = load_policy(ROUTES + text)
    assert isinstance(loaded, Loaded)
    assert any("nothing is done about the limits" in str(one) for one in loaded.warnings) == warned


FLEET = """version: 1
backends:
  - {name: a, url: "http://a:1", model: m/x, method: mtp, draft_tokens: 3}
  - {name: b, url: "http://b:1", model: m/x}
"""


@pytest.mark.parametrize(
    ("mode", "known", "wrong"),
    [
        ("frozen", {"a": "m/x/mtp/3/", "b": "m/x/none/0/"}, []),
        ("frozen", {"a": "", "b": ""}, []),  # of a sweep
        ("auto", {"a": "m/x/mtp/3/"}, []),
        ("auto", {}, []),
        ("frozen", {}, [f"it does not know '{one}', of which nothing will be learnt either" for one in "ab"]),
        ("frozen", {"a": "m/x/mtp/3/"}, ["it does not know 'b', of which nothing will be learnt either"]),
        (
            "auto",
            {"a": "m/x/mtp/2/"},
            ["what it knows of 'a' was learnt of 'm/x/mtp/2/', and that is 'm/x/mtp/3/'"],
        ),
        ("auto", {"c": ""}, ["it knows 'c', which the fleet does not have"]),
        (
            "auto",
            {f"x{at}": "" for at in range(10)},
            [
                "it knows 'x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7' and 2 more, which the fleet does not have"
            ],
        ),
    ],
)
def test_a_file_of_what_was_learnt_is_held_against_the_fleet(
    mode: str, known: dict[str, str], wrong: list[str], tmp_path: Path
) -> None:
    text = dump({name: replace(SERVER_MODEL, fingerprint=of) for name, of in known.items()})
    (tmp_path / "learned.yaml").write_text(text)
    given = f"{ROUTES}learning: {{mode: {mode}, file: learned.yaml}}\n"
    loaded = load(FLEET, given, folder=tmp_path)
    assert isinstance(loaded, Loaded), loaded
    assert [one.wrong for one in loaded.warnings] == wrong
    assert {one.path for one in loaded.warnings} <= {"learning.file"}
