from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from gateway.cli import sim

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """\
version: 1
backends:
  - {{name: base, url: "http://127.0.0.1:{0}", model: google/gemma-4-31B-it, served_model: g}}
  - {{name: fast, url: "http://127.0.0.1:{1}", model: google/gemma-4-31B-it, served_model: g, method: dflash,
     draft_tokens: 7, max_model_len: 2048}}
"""
START = "import typer; from gateway.cli import sim; app = typer.Typer(); sim.register(app); app()"


def run(*arguments: str) -> Any:
    app = typer.Typer()
    sim.register(app)
    return CliRunner().invoke(app, arguments)


def free_ports(number: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports: list[int] = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_fleet_runs_until_a_signal(tmp_path: Path, stop: signal.Signals) -> None:
    ports = free_ports(2)
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.format(*ports))
    command = [sys.executable, "-c", START, "--fleet", str(file), "--speed", "4"]
    environment = os.environ | {"COLUMNS": "160"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        assert process.stdout is not None
        lines: list[str] = []
        while "Ctrl-C" not in (lines or [""])[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        shown = "".join(lines)
        answers = [httpx.get(f"http://127.0.0.1:{port}/v1/models").json()["data"][0] for port in ports]
        process.send_signal(stop)
        assert process.wait(20) == 0
    assert [answer["max_model_len"] for answer in answers] == [32_768, 2048]
    assert {answer["id"] for answer in answers} == {"g"}
    for name, method, port in (("base", "none", ports[0]), ("fast", "dflash", ports[1])):
        assert re.search(rf"{name}\b.*http://127\.0\.0\.1:{port}\b.*{method}", shown), shown


def test_an_unknown_configuration_is_answered_with_what_there_is() -> None:
    result = run("--method", "dflash", "-n", "99", "--port", "0")
    assert result.exit_code == 2
    assert "dflash with N = 3, 7" in result.output


def test_a_bad_fleet_file_is_answered_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("version: 1\nbackends:\n  - {name: a}\n")
    result = run("--fleet", str(file))
    assert result.exit_code == 2
    assert f"{file}:3:" in result.output


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "cannot listen on 127.0.0.1" in result.output


def test_help_shows_an_example() -> None:
    assert "specroute sim --target" in re.sub(r"\s+", " ", run("--help").output)
