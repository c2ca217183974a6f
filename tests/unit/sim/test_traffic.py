from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from backends.sim.asgi import Request
from backends.sim.traffic import Traffic, process_page

REAL = Path(__file__).parents[2] / "fixtures" / "vllm" / "metrics" / "none.prom"


async def exchange(method: str, path: str, asked: int, answered: int, status: int = 200) -> Request:
    """One that is over."""

    async def send(message: Any) -> None:
        del message

    async def receive() -> Any:
        raise AssertionError

    headers = [(b"content-length", b"%d" % asked)] if asked else []
    request = Request({"method": method, "path": path, "headers": headers}, receive, send)
    await request.reply(b"x" * answered, status=status)
    return request


def declared(text: str, prefixes: str) -> list[str]:
    return re.findall(rf"^# (?:HELP|TYPE) (?:{prefixes}).*$", text, re.MULTILINE)


def series(text: str, prefixes: str) -> set[str]:
    return set(re.findall(rf"^((?:{prefixes})\S*) \S+$", text, re.MULTILINE))


async def test_families_and_labels_are_those_of_a_real_server() -> None:
    traffic, real = Traffic("tiny", tool_parser=False), REAL.read_text()
    for handler, method, status in re.findall(
        r'^http_requests_total\{handler="(.*?)",method="(.*?)",status="(\d)xx"\}', real, re.MULTILINE
    ):
        traffic.count(await exchange(method, "/x", 0, 0, int(status) * 100), handler, 0.01)
    assert declared(traffic.page(), "http_") == declared(real, "http_")
    assert series(traffic.page(), "http_") == series(real, "http_")
    assert "vllm:" not in traffic.page()


def test_the_process_is_described_as_by_a_real_server() -> None:
    real = REAL.read_text()
    assert declared(process_page(), "python_|process_") == declared(real, "python_|process_")
    names = series(process_page(), "python_gc|process_")
    assert names == series(real, "python_gc|process_")


async def test_exchanges_are_counted_with_their_sizes() -> None:
    traffic = Traffic("tiny", tool_parser=False)
    traffic.count(await exchange("POST", "/tokenize", 30, 12), "/tokenize", 0.2)
    traffic.count(await exchange("POST", "/tokenize", 10, 8, 404), "/tokenize", 0.7)
    page = traffic.page()
    assert 'http_requests_total{handler="/tokenize",method="POST",status="4xx"} 1.0' in page
    assert 'http_request_size_bytes_sum{handler="/tokenize"} 40.0' in page
    assert 'http_response_size_bytes_sum{handler="/tokenize"} 20.0' in page
    assert 'http_request_duration_seconds_bucket{handler="/tokenize",le="0.5",method="POST"} 1.0' in page
    assert 'http_request_duration_highr_seconds_bucket{le="0.75"} 2.0' in page


@pytest.mark.parametrize("path", ["/metrics", "/health", "/load", "/ping", "/version", "/server_info"])
async def test_probes_are_not_counted(path: str) -> None:
    traffic = Traffic("tiny", tool_parser=False)
    traffic.count(await exchange("GET", path, 0, 5), path, 0.1)
    assert "http_requests_total{" not in traffic.page()


def test_calls_of_the_tool_parser_are_counted() -> None:
    traffic = Traffic("tiny", tool_parser=True)
    traffic.parsed(3, called=True, streaming=True)
    traffic.parsed(1, called=False, streaming=False)
    name = "vllm:tool_call_parser_invocations_total"
    lines = [line for line in traffic.page().splitlines() if line.startswith(name)]
    assert len(lines) == 12
    assert lines[0] == (
        f'{name}{{mode="streaming",model_name="tiny",outcome="tool_call",request_type="chat_completions"}} 3.0'
    )
    assert [line for line in lines if line.endswith(" 1.0")] == [
        f'{name}{{mode="non_streaming",model_name="tiny",outcome="no_tool_call",request_type="chat_completions"}} 1.0'
    ]
