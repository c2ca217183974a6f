"""Two policies beside each other, on the shipped prompts and on a log that a simulated gateway wrote."""

import json

import pytest
import typer
from typer.testing import CliRunner

from gateway.cli import diff
from tests.unit.cli.test_replay import FLEET, LEAST, PLAIN, ROLES, line, policy, run

BY_WORKLOAD = """
version: 1
models: {fleet: google/gemma-4-31B-it}
routes:
  - {name: math, match: {workload: math}, prefer: [dflash7]}
  - {name: all, prefer: [mtp4]}
"""
LEARNING = """
version: 1
models: {fleet: google/gemma-4-31B-it}
learning: {mode: auto}
routes:
  - {name: all, prefer: [any]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("diff")
    chosen, log = run(policy(0.4))
    rows = [row for row in log.rows if log.start <= row.arrived < log.end]
    (made / "log.jsonl").write_bytes(b"".join(line(chosen[row.serial], row) for row in rows))
    texts = {
        "fleet": FLEET,
        "least": LEAST,
        "plain": PLAIN,
        "workload": BY_WORKLOAD,
        "learning": LEARNING,
        "roles": ROLES,
    }
    for name, text in texts.items():
        (made / f"{name}.yaml").write_text(text)
    return made


@pytest.fixture
def call(folder):
    app = typer.Typer()
    app.callback()(lambda: None)
    diff.register(app)

    def made(old, new, *args):
        files = (
            str(folder / f"{old}.yaml"),
            str(folder / f"{new}.yaml"),
            "--fleet",
            str(folder / "fleet.yaml"),
        )
        return CliRunner().invoke(app, ["diff", *files, *args])

    return made


def test_of_one_file_nothing_differs(call):
    result = call("workload", "workload")
    assert result.exit_code == 0
    assert "No setting differs." in result.output
    assert "idle: the 216 requests go where they went." in result.output


def test_settings_and_shares(call):
    result = call("plain", "workload")
    assert result.exit_code == 1
    assert "- routes.all.prefer: plain → mtp4" in result.output
    assert "math: plain -100%, dflash7 +100%" in result.output
    assert "code: plain -100%, mtp4 +100%" in result.output


def test_prompts_ask_both_policies_for_the_same_model(call, folder):
    names = ("one: google/gemma-4-31B-it", "two: google/gemma-4-31B-it")
    routes = """
routes:
  - {name: first, match: {model: one}, prefer: [mtp4]}
  - {name: all, prefer: [plain]}
"""
    for file, order in (("forth", names), ("back", names[::-1])):
        text = f"version: 1\nmodels: {{{', '.join(order)}}}{routes}"
        (folder / f"{file}.yaml").write_text(text)
    result = call("forth", "back")
    assert result.exit_code == 0, result.output
    assert "No setting differs." in result.output


def test_json(call):
    said = json.loads(call("plain", "workload", "--json").output)
    idle, busy = said["moves"]
    assert said["differences"][-1] == "routes.all.prefer: plain → mtp4"
    assert (idle["load"], busy["load"]) == ("idle", "16 open on each server")
    assert idle["were"] == {"plain": 1.0}
    assert set(idle["become"]) == {"mtp4", "dflash7"}
    assert idle["moved"] == 1.0
    assert idle["by_label"]["math"]["become"] == {"dflash7": 1.0}


def test_the_requests_of_a_log(call, folder):
    said = json.loads(call("least", "plain", "--log", str(folder / "log.jsonl"), "--json").output)
    (moves,) = said["moves"]
    assert moves["load"] == diff.OF_LOG
    assert moves["become"] == {"plain": 1.0}
    assert set(moves["were"]) == {"plain", "mtp4", "dflash7"}
    assert 0.2 < moves["moved"] < 0.9


def test_requests_that_a_policy_has_no_server_for(call, folder):
    (folder / "renamed.yaml").write_text(PLAIN.replace("fleet:", "other:"))
    result = call("plain", "renamed", "--log", str(folder / "log.jsonl"))
    assert "no server" in result.output


def test_what_the_files_cannot_tell_is_said(call, folder):
    assert diff.LEARNS in call("plain", "learning").output
    assert diff.LEARNS not in call("plain", "workload").output
    assert diff.LEARNS not in call("plain", "learning", "--log", str(folder / "log.jsonl")).output


def test_that_a_policy_keeps_servers_for_classes_is_said(call, folder):
    for args in ((), ("--log", str(folder / "log.jsonl"))):
        assert f"roles.yaml would do: it {diff.ROLES}" in call("plain", "roles", *args).output
    assert diff.ROLES not in call("plain", "learning").output
    assert json.loads(call("roles", "plain", "--json").output)["roles"] == [str(folder / "roles.yaml")]


@pytest.mark.parametrize(
    ("old", "args", "message"),
    [
        ("missing", (), "missing.yaml: No such file or directory"),
        ("fleet", (), "fleet.yaml"),
        ("plain", ("--log", "/nowhere/log.jsonl"), "/nowhere/log.jsonl: No such file or directory"),
    ],
)
def test_bad_input(call, old, args, message):
    result = call(old, "plain", *args)
    assert result.exit_code == 2
    assert message in result.output
