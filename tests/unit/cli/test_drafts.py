from __future__ import annotations

import json
from typing import Any

import typer
from typer.testing import CliRunner, Result

from gateway.cli import drafts
from tests.unit.cli.test_drift import gateway


def estimate(batch: float, draft: float | None, most: float | None) -> dict[str, Any]:
    return {
        "batch": batch, "step": 0.025, "draft": draft, "low": 0.004 if draft else 0.0,
        "high": 0.006 if draft else None, "most": most, "grade": "estimate",
    }  # fmt: skip


FOUND = {
    "gemma31-dflash7": [estimate(1.0, 0.005, 0.0075), estimate(16.2, None, 0.011)],
    "gemma31-mtp4": [],
}


def run(*arguments: str) -> Result:
    app = typer.Typer()
    drafts.register(app)
    return CliRunner().invoke(app, arguments)


def status(found: dict[str, Any], wanting: dict[str, str] | None = None) -> bytes:
    return json.dumps({"draft_latency": found, "draft_latency_wanting": wanting or {}}).encode()


def test_each_server_is_told_by_batch_with_its_interval() -> None:
    with gateway(status(FOUND, {"gemma31-mtp4": "it has not decoded yet"})) as url:
        done = run(url)
    assert done.exit_code == 0
    rows = [" ".join(line.replace("│", " ").split()) for line in done.stdout.splitlines()]
    assert "gemma31-dflash7 1.0 25.00 5.00 20% 4.00 to 6.00 7.50" in rows
    assert "gemma31-dflash7 16.2 25.00 11.00" in rows
    assert rows[-1] == "What drafting takes on gemma31-mtp4 cannot be told yet: it has not decoded yet."


def test_where_nothing_is_known_it_says_what_it_takes() -> None:
    for found in ({}, {"a": []}, {"a": [estimate(1.0, None, None)]}):
        with gateway(status(found)) as url:
            assert run(url).exit_code == drafts.UNKNOWN
    with gateway(status({})) as url:
        assert run(url).stdout == "The fleet has no server with a draft.\n"


def test_where_nothing_is_known_there_is_no_table_of_nothing() -> None:
    with gateway(status({"a": [estimate(1.0, None, None)]}, {"a": "its baseline was asleep"})) as url:
        assert run(url).stdout == ("What drafting takes on a cannot be told yet: its baseline was asleep.\n")


def test_the_same_as_json() -> None:
    with gateway(status(FOUND)) as url:
        done = run(url, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == FOUND


def test_an_address_that_cannot_be_asked_is_refused() -> None:
    done = run("http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "cannot be asked" in done.stderr
