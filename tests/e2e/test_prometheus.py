"""A real Prometheus scrapes gateway and servers: every expression of every panel and rule returns data."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway.policy.load import Loaded, load_fleet
from gateway.telemetry.dashboards import DASHBOARDS
from gateway.telemetry.dashboards.recordings import RECORDINGS
from gateway.telemetry.dashboards.rules import ALERTS
from gateway.telemetry.dashboards.vllm import targets
from tests.contract.stack import POLICIES, SECONDS, Loop, eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.stack import Stack

PROMETHEUS = shutil.which("prometheus")
RULES = POLICIES.parent / "deploy" / "prometheus" / "specroute.rules.yaml"
CHAT = "/v1/chat/completions"
WORK = {
    "math": "Solve 3x + 4 = 19 for x and show each step of the calculation.",
    "code": "Write a Python function that sorts a list of numbers.",
    "chat": "Tell me about your garden.",
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
GPUS = "".join(
    f'{name}{{gpu_id="0"}} {value}\n'
    for name, value in (
        ("gpu_used_vram", 50),
        ("gpu_total_vram", 200),
        ("gpu_gfx_activity", 60),
        ("gpu_package_power", 700),
    )
)
IDLE = 'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n'

STEPS = ("gemma31-mtp4", "gemma31-none")
"""Servers whose steps are compared, and so must last longer than those that a busy machine adds."""

PATIENCE = 120.0
"""Seconds until everything has been scraped and worked out, on a machine that may be busy."""

pytestmark = [
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian: prometheus)"),
    pytest.mark.timeout(480),
]


async def broken(scope, receive, send) -> None:
    """A server that is well by every probe and fails every request; and an exporter of GPUs."""
    if scope["type"] != "http":
        return
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    pages = {"/metrics": GPUS + IDLE, "/health": "", "/v1/models": '{"data":[{"id":"gemma-4-31b"}]}'}
    body = pages.get(scope["path"])
    status = 503 if body is None else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": (body or '{"error":{"message":"no"}}').encode()})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    fleet = (POLICIES / "fleet.yaml").read_text()
    fleet += "  - {name: broken, url: 'http://127.0.0.1:1', model: google/gemma-4-31B-it, method: mtp, draft_tokens: 1, served_model: gemma-4-31b}\n"
    policy = (
        (POLICIES / "policy.yaml")
        .read_text()
        .replace(
            "prefer: [{method: gemma4-mtp}, {method: eagle3}", "prefer: [{method: mtp}, {method: eagle3}"
        )
    )
    loop = Loop()
    folder = tmp_path_factory.mktemp("prometheus")
    with running(
        loop, folder, fleet, policy, applications={"broken": broken}, changes={name: {"speed": 10.0} for name in STEPS},
        given={"counter_window": 0.25, "counter_lag": 1.0, "otlp_endpoint": "http://127.0.0.1:9", "decision_log": folder / "decisions.jsonl"},
    ) as found:  # fmt: skip
        yield found
    loop.close()


def exporter(stack: Stack) -> None:
    """Let the broken server be the GPU exporter of another one."""
    text = stack.fleet.read_text()
    (url,) = re.findall(r"name: broken, url: (\S+?),", text)
    text = text.replace(
        "  - name: gemma31-mtp4\n", f"  - name: gemma31-mtp4\n    gpus: {{exporter: {url}, ids: [0]}}\n"
    )
    stack.fleet.write_text(text)
    assert stack.http.post("/-/reload").status_code == 200


def traffic(stack: Stack, rounds: int) -> None:
    """Work of each kind on each server, failures, tool calls, and a client that asks for nonsense."""
    backends = [name for name in stack.backends() if name.startswith("gemma31")]
    for number in range(rounds):
        for kind, text in WORK.items():
            for backend in backends:
                body = {"model": "gemma-4-31b", "messages": [{"role": "user", "content": f"{text} ({number})"}],
                        "stream": True, "max_tokens": 64}  # fmt: skip
                headers = {"x-specroute-backend": backend, "x-specroute-workload": kind}
                stack.http.post(CHAT, json=body, headers=headers)  # a busy machine may refuse one
        whole = {
            "model": "gemma-4-31b",
            "messages": [{"role": "user", "content": "Hello."}],
            "max_tokens": 64,
        }
        stack.http.post(CHAT, json=whole, headers={"x-specroute-workload": "chat"})  # the broken server first
        stack.http.post(CHAT, json={"model": "nobody", "messages": []})
        stack.http.post(
            CHAT, json={"model": "gemma-4-31b", "messages": []}, headers={"x-specroute-backend": "broken"}
        )
        asks = {"model": "gemma-4-31b", "tools": [TOOL], "tool_choice": "required", "messages": [
            {"role": "user", "content": "Get the weather of Paris."}]}  # fmt: skip
        stack.http.post(CHAT, json=asks)


def busy(stack: Stack) -> None:
    """A server with a draft answers one at a time, its baseline as many at once as the other verifies tokens."""

    def ask(backend: str) -> None:
        while STEPS[0] not in drafting():
            body = {"model": "gemma-4-31b", "messages": [{"role": "user", "content": "Hello."}],
                    "stream": True, "max_tokens": 400, "ignore_eos": True}  # fmt: skip
            stack.http.post(CHAT, json=body, headers={"x-specroute-backend": backend})

    def drafting() -> set[str]:
        """Backends of which it is known what their drafts take."""
        assert time.monotonic() < deadline
        told = stack.http.get("/status").json()["draft_latency"]
        return {name for name, found in told.items() if any(each["draft"] is not None for each in found)}

    deadline = time.monotonic() + 2 * PATIENCE
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(ask, [STEPS[0], *[STEPS[1]] * 8]))


@contextmanager
def prometheus(stack: Stack, folder: Path) -> Iterator[httpx.Client]:
    """Scrapes once a second; gives a client of its API."""
    declared = load_fleet(stack.fleet.read_text())
    assert isinstance(declared, Loaded)
    servers = [each for each in targets(declared.value.backends) if each["labels"]["backend"] != "broken"]
    (folder / "targets.json").write_text(json.dumps(servers))
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "specroute", "static_configs": [{"targets": [stack.url.removeprefix("http://")]}]},
            {"job_name": "vllm", "file_sd_configs": [{"files": [str(folder / "targets.json")]}]},
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert PROMETHEUS is not None
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - found on the path
            [
                PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", "--enable-feature=exemplar-storage",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=SECONDS) as api:
                eventually(lambda: _ready(api), bool)
                yield api
        finally:
            process.terminate()
            process.wait(SECONDS)


def _ready(api: httpx.Client) -> bool:
    try:
        return api.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def asked(api: httpx.Client, expression: str) -> list[Any]:
    answer = api.get("/api/v1/query", params={"query": expression}).json()
    assert answer["status"] == "success", (expression, answer)
    return [each for each in answer["data"]["result"] if each["value"][1] != "NaN"]


def concrete(expression: str) -> str:
    """With what Grafana would put in."""
    return expression.replace("$__rate_interval", "1m").replace("$workload", ".*").replace("$backend", ".*")


def test_every_expression_returns_data(stack: Stack, tmp_path: Path) -> None:
    exporter(stack)
    traffic(stack, 1)
    with prometheus(stack, tmp_path) as api:
        eventually(lambda: len(asked(api, "up == 1")), lambda up: up == 9, PATIENCE)
        traffic(stack, 8)
        busy(stack)
        expressions = {
            **{f"{board.name}: {query.expression}": query.expression for board in DASHBOARDS for query in board.queries},
            **{each.name: each.expression for each in RECORDINGS},
            **{f"{each.name} {at}": condition.measure for each in ALERTS for at, condition in enumerate(each.conditions)},
        }  # fmt: skip
        silent = dict(expressions)

        def still_silent() -> dict[str, str]:
            if silent:  # speed-ups need requests of equal speed, which a busy machine has few of
                traffic(stack, 1)
            for name, expression in tuple(silent.items()):
                if asked(api, concrete(expression)):
                    del silent[name]
            return silent

        eventually(still_silent, lambda left: not left, PATIENCE)
        assert len(expressions) > 90
        led = api.get("/api/v1/query_exemplars", params={
            "query": "specroute_ttft_seconds_bucket", "start": time.time() - 600, "end": time.time() + 60,
        }).json()["data"]  # fmt: skip
        assert all(len(each["labels"]["trace_id"]) == 32 for series in led for each in series["exemplars"])
        assert led
        rules = api.get("/api/v1/rules").json()["data"]["groups"]
        assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}

        def raised() -> set[str]:
            alerts = api.get("/api/v1/alerts").json()["data"]["alerts"]
            return {each["labels"]["alertname"] for each in alerts}

        eventually(raised, lambda names: "SpecrouteErrorsSlow" in names, PATIENCE)
