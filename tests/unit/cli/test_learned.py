from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from gateway.cli import asking, learned
from gateway.policy.learned import parse

FOUND = {
    "mode": "auto", "share": 1.0, "explored": 3, "roles": {},
    "statements": {"m/x": ["routing by workload pays +5.0% over spreading load alone"]},
}  # fmt: skip


@pytest.fixture
def run(monkeypatch):
    import typer

    app = typer.Typer()
    learned.register(app)
    app.command("other")(lambda: None)

    def answer(url, **_):
        page = {
            "/status": httpx.Response(200, json={"learning": FOUND}),
            "/-/learned": httpx.Response(200, text="version: 1\n"),
        }
        found = next((one for path, one in page.items() if url.endswith(path)), httpx.Response(404))
        found.request = httpx.Request("GET", url)
        return found

    monkeypatch.setattr(httpx, "get", answer)
    return lambda *args: CliRunner().invoke(app, ["learned", *args])


def test_the_file_is_printed_as_it_is(run):
    assert run().stdout == "version: 1\n"


def test_words_say_what_is_advised(run):
    said = run("--words").stdout
    assert "mode auto; 3 requests explored" in said
    assert "m/x\n  routing by workload pays +5.0%" in said


@pytest.mark.parametrize(("mode", "why"), [("static", "learning: {mode: shadow}"), ("auto", "not said yet")])
def test_words_say_why_nothing_is_advised(monkeypatch, run, mode, why):
    monkeypatch.setitem(FOUND, "mode", mode)
    monkeypatch.setitem(FOUND, "statements", {})
    assert why in run("--words").stdout


def test_json_is_for_scripts(run):
    assert json.loads(run("--json").stdout) == FOUND


def test_a_gateway_that_cannot_be_asked_is_bad_input(monkeypatch, run):
    def refuse(url, **_):
        raise httpx.ConnectError("nobody there")

    monkeypatch.setattr(asking, "WITHIN", 0.1)
    monkeypatch.setattr(httpx, "get", refuse)
    found = run("http://h:1")
    assert found.exit_code == 2
    assert "nobody there" in found.stderr


FLEET = "version: 1\nbackends: [{name: a, url: 'http://h:1', model: m/x, method: mtp, draft_tokens: 3}]\n"


@pytest.fixture
def files(tmp_path):
    measured = {
        "method": "mtp", "draft_tokens": 3, "workload": "code", "concurrency": 1, "requests": 9,
        "tokens_per_second": {"value": 90.0}, "tpot": {"value": 0.01}, "mean_accepted_length": 2.0,
    }  # fmt: skip
    evidence = {
        "version": 1, "source": "t", "target": "m/x", "measured": "2026-11-30", "measurements": [measured]
    }  # fmt: skip
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "evidence.json").write_text(json.dumps(evidence))
    return tmp_path


def of_a_sweep(run, folder):
    return run("--evidence", str(folder / "evidence.json"), "--fleet", str(folder / "fleet.yaml"))


def test_measurements_of_a_sweep_become_such_a_file(run, files):
    (model,) = parse(of_a_sweep(run, files).stdout).values()
    assert model.step(1) == pytest.approx(0.02)


def test_a_fleet_of_other_configurations_has_no_prior(run, files):
    (files / "fleet.yaml").write_text(FLEET.replace("draft_tokens: 3", "draft_tokens: 4"))
    found = of_a_sweep(run, files)
    assert found.exit_code == 1
    assert "measured" in found.stderr


@pytest.mark.parametrize("name", ["fleet.yaml", "evidence.json"])
def test_files_that_are_none_are_bad_input(run, files, name):
    (files / name).write_text("{}")
    assert of_a_sweep(run, files).exit_code == 2
