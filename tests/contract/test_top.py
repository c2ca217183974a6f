"""``specroute top`` and ``/-/board`` against a gateway at work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from typer.testing import CliRunner

from gateway.cli import top

if TYPE_CHECKING:
    from tests.contract.stack import Stack


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    top.register(app)
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_the_terminal_shows_what_the_gateway_did(stack: Stack) -> None:
    body = {
        "model": "gemma-4-31b",
        "stream": True,
        "messages": [{"role": "user", "content": "Solve 2x = 4 for x."}],
    }
    headers = {"x-specroute-backend": "gemma31-dflash7", "x-request-id": "top-1"}
    assert stack.http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
    stack.records.of("top-1")
    code, shown = run(stack.url, "--once")
    assert code == 0
    for words in ("gemma31-dflash7", "math", "the caller chose it", "ready", "Acceptance by position"):
        assert words in shown
    code, text = run(stack.url, "--json")
    found = json.loads(text)
    assert code == 0
    (row,) = [
        cell for cell in found["cells"] if (cell["workload"], cell["backend"]) == ("math", "gemma31-dflash7")
    ]
    assert row["requests"] >= 1
    assert row["acceptance_rate"] is not None
    decision = next(each for each in found["decisions"] if each["request_id"] == "top-1")
    assert (decision["backend"], decision["workload"], decision["status"]) == (
        "gemma31-dflash7",
        "math",
        "ok",
    )


def test_nobody_there_is_bad_input() -> None:
    code, said = run("http://127.0.0.1:9", "--once")
    assert code == 2
    assert "does not answer" in said
