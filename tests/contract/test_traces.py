"""What an OTLP receiver gets of requests that went well, failed over, failed, or were left: each is one tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.stack import Loop, running
from tests.vllm.collector import CLIENT, SERVER, Collector, Span, collecting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.stack import Stack

CHAT = "/v1/chat/completions"
CALLER = "cd" * 8
FLEET = """\
version: 1
backends:
  - {name: broken, url: "http://127.0.0.1:1", model: google/gemma-4-31B-it, served_model: m, method: mtp, draft_tokens: 1}
  - {name: good, url: "http://127.0.0.1:2", model: google/gemma-4-31B-it, served_model: m, method: gemma4-mtp, draft_tokens: 4}
"""
POLICY = """\
version: 1
breaker: {consecutive: 1000, min_requests: 1000}
retries: {burst: 100}
models: {m: google/gemma-4-31B-it}
allow_pin: true
routes:
  - {name: pinned, match: {workload: code}, prefer: [good]}
  - {name: all, prefer: [broken, good]}
"""


async def broken(scope: Any, receive: Any, send: Any) -> None:
    """A server that is well by every probe and fails every request."""
    if scope["type"] != "http":
        return
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    load = 'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n'
    pages = {"/metrics": load, "/health": "", "/v1/models": '{"data":[{"id":"m"}]}'}
    body = pages.get(scope["path"])
    await send({"type": "http.response.start", "status": 503 if body is None else 200, "headers": []})
    await send({"type": "http.response.body", "body": (body or "{}").encode()})


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


@pytest.fixture(scope="module")
def traced(loop: Loop, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(
        loop, tmp_path_factory.mktemp("traces"), FLEET, POLICY, applications={"broken": broken},
        changes={"good": {"speed": 2.0}}, given={"otlp_endpoint": collector.url, "trace_ratio": 0.0},
    ) as found:  # fmt: skip
        yield found


def asked(stack: Stack, number: int, *, parent: bool = True, **body: Any) -> tuple[str, dict[str, Any]]:
    """Trace id and arguments of a request; its trace is the caller's where it has a parent."""
    trace_id = f"{number:02x}" * 16
    headers = {"x-request-id": f"trace-{number}"}
    if parent:
        headers["traceparent"] = f"00-{trace_id}-{CALLER}-01"
    usual = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello."}],
        "max_tokens": 8,
        "stream": True,
    }
    return trace_id, {"url": CHAT, "json": usual | body, "headers": headers}


def tree(spans: list[Span]) -> tuple[Span, list[Span]]:
    """The request's span, and its attempts in order."""
    (request,) = [span for span in spans if span.kind == SERVER]
    attempts = [span for span in spans if span.kind == CLIENT]
    assert len(attempts) == len(spans) - 1
    assert all(attempt.parent_id == request.span_id for attempt in attempts)
    return request, sorted(attempts, key=lambda span: span.attributes["specroute.attempt.number"])


def test_a_good_stream(traced: Stack, collector: Collector) -> None:
    trace_id, arguments = asked(traced, 1)
    arguments["headers"]["x-specroute-workload"] = "code"
    assert traced.http.post(**arguments).status_code == 200
    request, (attempt,) = tree(collector.trace(trace_id, count=2))
    assert request.parent_id == CALLER
    assert (request.failed, attempt.failed) == (False, False)
    assert attempt.events == ("first_token",)
    found = request.attributes
    assert (found["specroute.backend"], found["specroute.route"], found["specroute.workload"]) == (
        "good",
        "pinned",
        "code",
    )
    assert found["specroute.measurement.grade"] == "exact"
    assert found["specroute.mean_accepted_length"] >= 1
    assert attempt.attributes["gen_ai.usage.output_tokens"] == 8


def test_a_failover(traced: Stack, collector: Collector) -> None:
    trace_id, arguments = asked(traced, 2)
    assert traced.http.post(**arguments).status_code == 200
    request, (first, second) = tree(collector.trace(trace_id, count=3))
    assert request.events == ("failover",)
    assert not request.failed
    assert (first.attributes["specroute.backend"], first.failed) == ("broken", True)
    assert first.attributes["error.type"] == "503"
    assert (second.attributes["specroute.backend"], second.failed) == ("good", False)


def test_a_failure(traced: Stack, collector: Collector) -> None:
    trace_id, arguments = asked(traced, 3)
    arguments["headers"]["x-specroute-backend"] = "broken"
    assert traced.http.post(**arguments).status_code == 503
    request, attempts = tree(collector.trace(trace_id, count=2))
    assert request.failed
    assert all(attempt.failed for attempt in attempts)
    assert request.attributes["specroute.status"] == "upstream_error"


def test_a_client_that_leaves(traced: Stack, collector: Collector) -> None:
    trace_id, arguments = asked(traced, 4, max_tokens=3000, ignore_eos=True)
    arguments["headers"]["x-specroute-workload"] = "code"
    with traced.http.stream("POST", **arguments) as stream:
        next(stream.iter_bytes())
    request, (attempt,) = tree(collector.trace(trace_id, count=2))
    assert request.events == ("client_disconnected",)
    assert (request.failed, attempt.failed) == (False, False)
    assert attempt.attributes["specroute.attempt.error"] == "client_gone"


def test_what_failed_is_kept_though_none_is_sampled(traced: Stack, collector: Collector) -> None:
    """Both begin here, where the share of sampled traces is 0; the one that failed is found all the same."""
    for number, backend in ((5, "good"), (6, "broken")):
        _, arguments = asked(traced, number, parent=False)
        arguments["headers"]["x-specroute-backend"] = backend
        traced.http.post(**arguments)
    failed, good = traced.records.of("trace-6"), traced.records.of("trace-5")
    request, _ = tree(collector.trace(failed.trace.trace_id, count=2))
    assert request.attributes["specroute.trace.kept"] == "failed"
    assert request.parent_id == ""
    assert not any(span.trace_id == good.trace.trace_id for span in collector._spans)
