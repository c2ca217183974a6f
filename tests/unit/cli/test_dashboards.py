from __future__ import annotations

import json
import re
from pathlib import Path

import typer
from typer.testing import CliRunner

from gateway.cli import dashboards

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    dashboards.register(app)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_the_files_of_this_repository_are_up_to_date() -> None:
    example = re.search(
        r"specroute dashboards --out (\S+) --fleet ([^*\s]+)", dashboards.dashboards.__doc__ or ""
    )
    assert example is not None
    out, fleet = (str(ROOT / path) for path in example.groups())
    assert run("--out", out, "--fleet", fleet, "--check") == (0, "")


def test_files_are_written_once_and_checked(tmp_path: Path) -> None:
    code, said = run("--out", str(tmp_path), "--check")
    assert code == 1
    assert said.count("is not up to date") == 5
    assert list(tmp_path.iterdir()) == []
    code, said = run("--out", str(tmp_path))
    assert (code, said.count(" written\n")) == (0, 5)
    assert run("--out", str(tmp_path)) == (0, "")
    assert run("--out", str(tmp_path), "--check") == (0, "")
    code, said = run("--out", str(tmp_path), "--json")
    assert json.loads(said)["changed"] == []
    assert len(json.loads(said)["files"]) == 5


def test_a_fleet_becomes_scrape_targets(tmp_path: Path) -> None:
    code, _ = run("--out", str(tmp_path), "--fleet", str(ROOT / "policies" / "fleet.yaml"))
    assert code == 0
    found = json.loads((tmp_path / "prometheus" / "targets.json").read_text())
    assert found[1]["targets"] == ["127.0.0.1:8102"]
    assert found[1]["labels"]["backend"] == "gemma31-mtp4"


def test_a_fleet_file_with_a_mistake_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("version: 1\nbackends: 3\n")
    code, said = run("--out", str(tmp_path), "--fleet", str(tmp_path / "fleet.yaml"))
    assert code == 2
    assert "fleet.yaml:2" in said


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = run("--out", str(tmp_path / "file" / "in it"))
    assert code == 2
    assert "Not a directory" in said
