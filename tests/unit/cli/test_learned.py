from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from gateway.cli import asking, learned

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
