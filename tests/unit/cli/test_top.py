from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from gateway.cli import top

BACKEND = {
    "name": "fast", "method": "mtp", "draft_tokens": 4, "available": True, "unavailable": None, "reason": "",
    "in_flight": 3, "limit": 64, "running": 2, "waiting": None, "kv_usage": 0.5, "load_age_seconds": 20.0,
}  # fmt: skip
BOARD: dict[str, Any] = {
    "workers": 1,
    "totals": {
        "requests_per_second": 12.34, "failed_share": 0.25, "open": 7, "waiting": 2, "stream_speed": 98.7,
        "output_tokens_per_second": 12345.0, "acceptance_rate": 0.5, "gain_over_baseline": 1.5,
        "gain_over_best": 0.9,
    },
    "cells": [
        {"workload": "math", "backend": "fast", "method": "mtp", "requests": 12, "failed": 3, "first_token": 0.25, "speed": 123.4, "speedup": 1.5,
         "speedup_low": 1.2, "speedup_high": 1.9, "acceptance_rate": 0.5, "mean_accepted_length": 3.0},
        {"workload": "code", "backend": "idle", "method": "mtp", "requests": 0, "failed": 0, "first_token": None, "speed": None, "speedup": None,
         "speedup_low": None, "speedup_high": None, "acceptance_rate": None, "mean_accepted_length": None},
    ],
    "positions": [{"backend": "fast", "method": "mtp", "draft_tokens": 2, "shares": [0.9, 0.61]}],
    "status": {
        "policy": {"revision": "p1", "problems": [], "warnings": []},
        "fleet": {"backends": [BACKEND]},
        "learning": {"mode": "auto", "roles": {}, "statements": {"org/T": ["consolidate on [fast]"]}},
    },
    "decisions": [
        {"unix": 1_800_000_000.0, "workload": "math", "backend": "", "why": "no [bold]backend[/]", "status": "rejected",
         "result": "rejected 503"},
    ],
}  # fmt: skip


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    served: dict[str, Any] = {"board": BOARD, "asked": []}

    def answer(request: httpx.Request) -> httpx.Response:
        served["asked"].append(request)
        if isinstance(served["board"], Exception):
            raise served["board"]
        if isinstance(served["board"], str):
            return httpx.Response(200, html=served["board"])
        return httpx.Response(served.get("status", 200), json=served["board"])

    client = httpx.Client
    monkeypatch.setattr(
        httpx, "Client", lambda **given: client(**given, transport=httpx.MockTransport(answer))
    )
    return served


def run(*arguments: str) -> Result:
    app = typer.Typer()
    top.register(app)
    return CliRunner().invoke(app, list(arguments))


def shown(board: dict[str, Any]) -> str:
    return printed(board, 140)


def printed(board: dict[str, Any], columns: int, lines: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=columns)
    console.print(top.render(board, "http://gw", columns, lines))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_everything_is_shown() -> None:
    text = shown(BOARD)
    for words in (
        "12.3 requests/s, 7 open, 2 waiting, 25.00% failed", "99 tok/s a stream", "12,345 tok/s in all",
        "org/T: consolidate on [fast]", "1.50x no speculation", "policy p1", "mtp-4", "3/64", "90%", "61%", "ready", "250 ms", "20 s", "rejected 503", "nowhere",
    ):  # fmt: skip
        assert words in text
    assert "idle" not in text
    assert "workers" not in text
    assert "one of 4 workers" in shown(BOARD | {"workers": 4})
    assert "mistake" not in text


def test_without_traffic_of_late_there_is_no_figure_without_a_number() -> None:
    totals = BOARD["totals"] | {
        "requests_per_second": 0.0, "open": 0, "waiting": 0, "failed_share": None, "stream_speed": None,
        "output_tokens_per_second": 0.0,
    }  # fmt: skip
    text = shown(BOARD | {"totals": totals, "cells": []})
    assert "0.0 requests/s, 0 open, 0 waiting, none ended of late; since the start 1.50x" in text
    assert "tok/s" not in text.splitlines()[1]
    assert "Workload" not in text
    whole = shown(BOARD | {"totals": totals | {"failed_share": 0.0, "output_tokens_per_second": 9.0}})
    assert "0.00% failed, 9 tok/s in all;" in whole  # embeddings and whole answers have no stream


def test_an_older_gateway_is_shown_as_far_as_it_tells() -> None:
    cells = [
        {name: value for name, value in cell.items() if name not in {"failed", "first_token"}}
        for cell in BOARD["cells"]
    ]
    assert "123" in shown(BOARD | {"cells": cells})


def fleet(count: int) -> dict[str, Any]:
    backends = [BACKEND | {"name": f"b{number}", "available": number != 7} for number in range(count)]
    cells = [BOARD["cells"][0] | {"backend": f"b{number}", "requests": 1 + number} for number in range(count)]
    decisions = BOARD["decisions"] * 20
    status = BOARD["status"] | {"fleet": {"backends": backends}}
    return BOARD | {"status": status, "cells": cells, "decisions": decisions}


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (80, 10), (200, 12)])
@pytest.mark.parametrize("count", [1, 8, 50])
def test_a_screen_is_not_left_nor_broken(size: tuple[int, int], count: int) -> None:
    width, height = size
    lines = printed(fleet(count), width, height).splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    if count >= 8 and height >= 24:
        assert "b7" in "".join(lines)  # the one that is out comes first
        assert f"b{count - 1}" in "".join(lines)  # and of routes the busiest


LONG = "a-server-with-a-name-of-forty-characters"
TOLD = "first token after 39 ms, 346 tok/s, 5.43 tokens a step"


@pytest.mark.parametrize("lines", [None, 60])
@pytest.mark.parametrize("columns", [80, 100, 120, 140])
@pytest.mark.parametrize("name", ["gemma31-dflash7", LONG])
def test_headings_and_numbers_are_whole_whatever_the_width(
    columns: int, lines: int | None, name: str
) -> None:
    backend = BACKEND | {
        "name": name,
        "method": "gemma4-mtp",
        "reason": "/health: " + "connection refused " * 9,
    }
    cell = BOARD["cells"][0] | {"workload": "multilingual", "backend": name, "requests": 12_345}
    line = BOARD["decisions"][0] | {
        "workload": "multilingual", "backend": name, "result": TOLD, "why": "it has the lowest cost: " * 9,
    }  # fmt: skip
    board = BOARD | {
        "cells": [cell], "decisions": [line], "status": BOARD["status"] | {"fleet": {"backends": [backend]}},
    }  # fmt: skip
    found = printed(board, columns, lines)
    wide = columns >= 120
    for heading in (
        ("Fleet", *(["method"] if wide or lines is None else []), "state", "in flight", "running", "waiting", "KV", "seen", "why"),
        ("Workload", "backend", "requests" if wide else "req", "tok/s", "gain", "acceptance" if wide else "accept"),
        ("Decisions", "workload", "backend", "result", *(["why"] if wide else [])),
    ):  # fmt: skip
        (shown,) = [each for each in found.splitlines() if each.startswith(heading[0])]
        assert "…" not in shown
        assert all(word in shown for word in heading), shown
    assert max(map(len, found.splitlines())) <= columns
    for whole in ("12345", "250 ms", "1.50x", "3.00", "multilingual", "3/64", "20 s", "first token"):
        assert whole in found, whole
    assert len([each for each in found.splitlines() if name[:8] in each]) == 3


def test_rows_are_shared_out_in_turn() -> None:
    assert top.fitted([1, 9, 9, 0], 16) == [1, 5, 4, 0]
    assert top.fitted([1, 1], 50) == [1, 1]
    assert top.fitted([5, 5], 0) == [0, 0]


def test_words_from_outside_are_no_markup() -> None:
    assert "no [bold]backend[/]" in shown(BOARD)


def test_a_backend_that_is_out_and_a_kept_policy_are_said() -> None:
    out = BACKEND | {"available": False, "unavailable": "unhealthy", "reason": "[connect] refused"}
    policy = {"revision": "p1", "problems": [{"text": "x"}], "warnings": []}
    text = shown(BOARD | {"status": BOARD["status"] | {"policy": policy, "fleet": {"backends": [out]}}})
    assert "unhealthy" in text
    assert "[connect] refused" in text
    assert "the last good policy is kept" in text


def test_once_asks_once_and_tells_scripts(gateway: dict[str, Any]) -> None:
    result = run("http://gw/", "--once", "--window", "60", "--header", "authorization: Bearer k")
    assert result.exit_code == 0
    assert "mtp" in result.output
    (asked,) = gateway["asked"]
    assert str(asked.url) == "http://gw/-/board?window=60"
    assert asked.headers["authorization"] == "Bearer k"


def test_json_is_the_board(gateway: dict[str, Any]) -> None:
    out = BACKEND | {"available": False}
    gateway["board"] = BOARD | {"status": BOARD["status"] | {"fleet": {"backends": [out]}}}
    result = run("http://gw", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["totals"]["open"] == 7


@pytest.mark.parametrize(
    ("board", "status", "said"),
    [
        (httpx.ConnectError("refused"), 200, "refused"),
        ({"error": {}}, 404, "404"),
        ({"hello": 1}, 200, "no board"),
        ({"cells": []}, 200, "not what this version knows (KeyError: 'status')"),
        (BOARD | {"cells": [7]}, 200, "not what this version knows (TypeError: "),
        (["hello"], 200, "no board"),
        ("<p>Back soon", 200, "no board but 'text/html; charset=utf-8': '<p>Back soon'"),
    ],
)
def test_what_is_no_gateway_is_bad_input(gateway: dict[str, Any], board: Any, status: int, said: str) -> None:
    gateway.update(board=board, status=status)
    result = run("http://gw", "--once")
    assert result.exit_code == 2
    assert "http://gw does not answer as a gateway" in result.output
    assert said in result.output


def test_a_header_without_colon_is_bad_input(gateway: dict[str, Any]) -> None:
    assert run("http://gw", "--header", "nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (httpx.ConnectError("gone"), "http://gw does not answer as a gateway: gone"),
        ("<p>Back soon", "no board but 'text/html; charset=utf-8': '<p>Back soon'"),
        (BOARD | {"status": None}, "not what this version knows"),
    ],
)
def test_live_goes_on_when_the_gateway_is_gone_for_a_moment(
    gateway: dict[str, Any], monkeypatch: pytest.MonkeyPatch, instead: object, said: str
) -> None:
    seen: list[str] = []

    def sleep(_: float) -> None:
        seen.append("slept")
        gateway["board"] = instead if len(seen) == 1 else BOARD
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", sleep)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    result = run("http://gw")
    assert result.exit_code == 0
    assert len(gateway["asked"]) == 4
    assert said in result.output
