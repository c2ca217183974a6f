from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gateway.cli import check

POLICIES = Path(__file__).parents[3] / "policies"
FLEET = "version: 1\nbackends:\n  - {name: a, url: 'http://h:1', model: m/x}\n"
POLICY = "version: 1\nroutes:\n  - {name: r, prefer: [a]}\n"


def run(*arguments: str) -> Result:
    app = typer.Typer()
    check.register(app)
    return CliRunner().invoke(app, arguments)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "fleet.yaml").write_text(FLEET, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    return tmp_path


def test_the_samples_are_right_and_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run("--fleet", str(POLICIES / "fleet.yaml"), "--policy", str(POLICIES / "policy.yaml"), "--strict")
    assert done.exit_code == 0, done.output
    assert "google/gemma-4-31B-it" in done.output
    assert "Qwen/Qwen3.6-35B-A3B" in done.output
    assert "gemma31-dflash7, then gemma31-dspark7, then gemma31-mtp4" in done.output
    assert "qwen35-dflash7, then qwen35-mtp6, then qwen35-none" in done.output
    assert "model qwen3.6-35b" in done.output
    assert "workload tool_use" in done.output
    assert "no warnings" in done.output


def test_without_options_the_files_of_this_folder_are_checked(folder: Path) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert "http://h:1" in done.output
    assert "every request" in done.output


def test_mistakes_are_listed_by_position_and_counted(folder: Path) -> None:
    (folder / "fleet.yaml").write_text(FLEET + "    methid: mtp\n  - 5\n", encoding="utf-8")
    (folder / "policy.yaml").write_text(
        "version: 1\nroutes:\n  - {name: r, prefer: [b]}\n  - 7\n", encoding="utf-8"
    )
    done = run()
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0].startswith("fleet.yaml:4:")
    (folder / "fleet.yaml").write_text(FLEET, encoding="utf-8")
    done = run()
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "policy.yaml:3:24: routes[0].prefer[0]: there is no backend 'b'; backends: a",
        "policy.yaml:4:5: routes[1]: this is the number 7; write keys with values, indented below",
        "2 mistakes, no warnings",
    ]


def test_one_file_by_itself(folder: Path) -> None:
    done = run("--fleet", "fleet.yaml")
    assert done.exit_code == 0
    assert "first match wins" not in done.output
    (folder / "policy.yaml").write_text(POLICY.replace("[a]", "[nowhere, {method: mtp}]"), encoding="utf-8")
    done = run("--policy", "policy.yaml")
    assert done.exit_code == 0
    assert "nowhere" in done.output
    assert "method: mtp" in done.output
    assert "h:1" not in done.output


def test_warnings_count_only_when_asked(folder: Path) -> None:
    (folder / "policy.yaml").write_text(POLICY.replace("[a]", "[any, a]"), encoding="utf-8")
    assert run().exit_code == 0
    assert (
        "policy.yaml:3:29: warning: routes[0].prefer[1]: every backend it names is named earlier"
        in run().output
    )
    assert run("--strict").exit_code == 1


def test_keys_in_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "fleet.yaml").write_text(FLEET.replace("m/x", "m/x, api_key_env: CHECK_KEY"), encoding="utf-8")
    monkeypatch.delenv("CHECK_KEY", raising=False)
    assert run().exit_code == 1
    assert "CHECK_KEY is not set" in run().output
    assert run("--no-env").exit_code == 0
    monkeypatch.setenv("CHECK_KEY", "canary")
    assert run().exit_code == 0
    assert "canary" not in run("--json").output


def test_json_holds_the_same(folder: Path) -> None:
    right = json.loads(run("--json").stdout)
    assert right["ok"] is True
    assert right["problems"] == right["warnings"] == []
    assert right["fleet"]["backends"] == ["a"]
    assert right["policy"]["routes"] == ["r"]
    (folder / "policy.yaml").write_text("version: 1\nroutes: []\n", encoding="utf-8")
    done = run("--json")
    wrong = json.loads(done.stdout)
    assert done.exit_code == 1
    assert wrong["ok"] is False
    assert wrong["fleet"] is wrong["policy"] is None
    assert [(one["line"], one["column"], one["path"]) for one in wrong["problems"]] == [(2, 1, "routes")]
    (folder / "policy.yaml").write_text(POLICY.replace("[a]", "[any, a]"), encoding="utf-8")
    strict = json.loads(run("--json", "--strict").stdout)
    assert (strict["ok"], len(strict["warnings"])) == (False, 1)


def test_a_preferred_target_that_has_no_backend_in_the_route(folder: Path) -> None:
    fleet = (
        FLEET
        + "  - {name: b, url: 'http://h:2', model: m/y}\n"
        + "".join(f"  - {{name: c{number}, url: 'http://h:3{number}', model: m/x}}\n" for number in range(3))
    )
    (folder / "fleet.yaml").write_text(fleet, encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY.replace("[a]", "[a, 'c*']"), encoding="utf-8")
    done = run()
    assert done.exit_code == 0
    assert "a, then one of 3" in done.output
    assert "none of m/y" in done.output


def test_preferences_that_change_with_the_load(folder: Path) -> None:
    fleet = FLEET + "  - {name: b, url: 'http://h:2', model: m/x}\n"
    (folder / "fleet.yaml").write_text(fleet, encoding="utf-8")
    policy = "version: 1\nroutes:\n  - {name: r, prefer: [{name: a, max_in_flight: 11}, b, any]}\n"
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    done = run()
    assert done.exit_code == 0, done.output
    assert "a (up to 11 in flight), then b, then a" in done.output


def test_brackets_in_names_are_printed_as_they_are(folder: Path) -> None:
    (folder / "fleet.yaml").write_text(FLEET.replace("m/x", "'m[/x]'"), encoding="utf-8")
    (folder / "policy.yaml").write_text(POLICY.replace("[a]", "['[ab]', any]"), encoding="utf-8")
    done = run()
    assert done.exit_code == 0, done.output
    assert "m[/x]" in done.output
    assert "[ab]" in run("--policy", "policy.yaml").output


def test_a_file_that_cannot_be_read_is_bad_input(folder: Path) -> None:
    done = run("--fleet", "nowhere.yaml")
    assert done.exit_code == 2
    assert done.stderr == "nowhere.yaml: No such file or directory\n"
    (folder / "fleet.yaml").write_bytes(b"version: \xff\n")
    done = run()
    assert done.exit_code == 2
    assert done.stderr == "fleet.yaml: not UTF-8 text, at byte 9\n"


def test_help_has_an_example() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert "specroute check --fleet" in done.output
