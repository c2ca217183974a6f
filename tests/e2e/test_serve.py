"""The commands as people run them: processes, signals, exit codes and what they print."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.contract.stack import SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

POLICIES = Path(__file__).parents[2] / "policies"
CHAT = {"model": "gemma-4-31b", "messages": [{"role": "user", "content": "Hello there."}], "max_tokens": 8}


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A ``specroute`` command in a process of its own, which is gone afterwards."""
    command = [sys.executable, "-m", "gateway.cli", *arguments]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(*arguments: str, within: float = 60) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "gateway.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def files(folder: Path) -> tuple[str, ...]:
    """Options that name the sample files, with servers on ports that are free here."""
    text = (POLICIES / "fleet.yaml").read_text()
    ports = free_ports(text.count("url: "))
    fleet, policy = folder / "fleet.yaml", folder / "policy.yaml"
    fleet.write_text(re.sub(r"(?<=url: http://127\.0\.0\.1:)\d+", lambda _: str(ports.pop()), text))
    policy.write_text((POLICIES / "policy.yaml").read_text())
    return "--fleet", str(fleet), "--policy", str(policy)


def address(process: subprocess.Popen[str]) -> str:
    """Where a gateway says that it listens."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"(?:running|serving) on (http://\S+)", line):
            return found[1]
    raise AssertionError("".join(said))


def test_a_fleet_and_a_gateway_run_answer_and_end(tmp_path: Path) -> None:
    options = files(tmp_path)
    with (
        started("sim", *options[:2], "--speed", "50") as fleet,
        started("serve", *options, "--port", "0") as gateway,
        httpx.Client(base_url=address(gateway), trust_env=False, timeout=SECONDS) as client,
    ):
        eventually(
            lambda: client.get("/status").json()["fleet"]["backends"],
            lambda found: all(one["running"] == 0 for one in found),
        )
        assert client.get("/readyz").status_code == 200
        answer = client.post("/v1/chat/completions", json=CHAT)
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"]
        assert answer.headers["x-specroute-backend"] in Path(options[1]).read_text()
        gateway.send_signal(signal.SIGTERM)
        _, said = gateway.communicate(timeout=SECONDS)
        assert gateway.returncode == 0
        assert "Traceback" not in said
        assert "ERROR" not in said
        fleet.send_signal(signal.SIGTERM)
        shown, said = fleet.communicate(timeout=SECONDS)
        assert fleet.returncode == 0
        assert "Simulated servers are up" in shown
        assert said == ""


def test_a_setting_that_is_mistyped_is_warned_of_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECROUTE_SCRAPE_INTERVALL", "2")
    with started("serve", *files(tmp_path), "--port", "0") as gateway:
        assert gateway.stderr is not None
        said = next(line for line in gateway.stderr if "INTERVALL" in line or "serving on" in line)
        assert "WARNING" in said
        assert said.endswith("no such setting; did you mean SPECROUTE_SCRAPE_INTERVAL?\n")


def test_a_gateway_without_servers_says_that_it_is_not_ready(tmp_path: Path) -> None:
    with (
        started("serve", *files(tmp_path), "--port", "0") as gateway,
        httpx.Client(base_url=address(gateway), trust_env=False, timeout=SECONDS) as client,
    ):
        eventually(lambda: client.get("/readyz").status_code, lambda status: status == 503)
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/chat/completions", json=CHAT).status_code in {502, 503}
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=SECONDS)
        assert gateway.returncode == 0


def test_a_bad_policy_ends_the_command_with_place_and_remedy(tmp_path: Path) -> None:
    options = files(tmp_path)
    policy = Path(options[3])
    policy.write_text(policy.read_text() + "colour: blue\n")
    line = len(policy.read_text().splitlines())
    ended = finished("serve", *options, "--port", "0")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{policy}:{line}:1: ")
    assert "colour" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_is_not_there_ends_the_command(tmp_path: Path) -> None:
    ended = finished("serve", *files(tmp_path)[:2], "--policy", str(tmp_path / "none.yaml"))
    assert ended.returncode == 2
    assert "none.yaml:1:1: cannot be read" in ended.stderr


def test_a_collector_without_a_scheme_ends_the_command(tmp_path: Path) -> None:
    ended = finished("serve", *files(tmp_path), "--port", "0", "--otlp-endpoint", "localhost:4318")
    assert ended.returncode == 2
    said = "specroute: otlp_endpoint: it is no HTTP address: write http://localhost:4318 or the like\n"
    assert ended.stderr == said


def test_a_port_that_is_taken_ends_the_command(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = finished("serve", *files(tmp_path), "--port", str(port))
    assert ended.returncode == 2
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "ddress already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_explain_says_where_and_why(tmp_path: Path) -> None:
    ended = finished("explain", *files(tmp_path), "--prompt", "Solve x^2 = 2 for x.")
    assert ended.returncode == 0
    assert re.match(r"Goes to \S+ \(.*\): it has the lowest cost\.", ended.stdout)
    ended = finished("explain", *files(tmp_path), "--prompt", "Hi", "--json")
    assert json.loads(ended.stdout)["workload"] == "chat"


def test_the_demo_answers_every_prompt_and_prints_its_table() -> None:
    ended = finished("demo", "--once", "--requests", "24", "--port", "0", "--speed", "20", within=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all 24 requests succeeded" in ended.stdout
    assert "What was routed where" in ended.stdout
    for workload in ("math", "code", "chat", "tool_use", "multilingual", "grounded"):
        assert workload in ended.stdout
    assert "Traceback" not in ended.stderr
