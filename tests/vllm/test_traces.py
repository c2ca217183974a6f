"""Traces of requests that did not go smoothly, in front of real servers: each is one tree with its reason."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.vllm import chain
from tests.vllm.asking import ask, question, sdk
from tests.vllm.collector import CLIENT, SERVER
from tests.vllm.conftest import fronting
from tests.vllm.servers import SERVED_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.vllm.collector import Collector, Span
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = pytest.mark.vllm

CALLER = "cd" * 8


class Dying(BaseHTTPRequestHandler):
    """A server that is well whenever it is asked, and hangs up on every request."""

    def do_GET(self) -> None:
        page = json.dumps({"object": "list", "data": [{"id": SERVED_MODEL}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self) -> None:
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def dying() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Dying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def tree(spans: list[Span]) -> tuple[Span, list[Span], list[Span]]:
    """The gateway's own span, its attempts by their number, and the engines' spans."""
    engine = [span for span in spans if span.name == "llm_request"]
    (request,) = (span for span in spans if span.kind == SERVER and span not in engine)
    attempts = [span for span in spans if span.kind == CLIENT]
    assert request.parent_id == CALLER
    assert all(attempt.parent_id == request.span_id for attempt in attempts)
    assert {span.parent_id for span in engine} <= {attempt.span_id for attempt in attempts}
    return request, sorted(attempts, key=lambda span: span.attributes["specroute.attempt.number"]), engine


def test_a_good_stream_says_what_was_decided_and_what_was_measured(
    front: Front, fleet: dict[str, Server], collector: Collector
) -> None:
    trace_id = "5e" * 16
    ask(
        front.url, backend="draft-model", request_id="trace-good", stream=True,
        headers={"traceparent": f"00-{trace_id}-{CALLER}-01"},
    )  # fmt: skip
    request, (attempt,), (engine,) = tree(collector.trace(trace_id, count=3))
    expected = chain.acceptance(chain.UNREPEATED, 40, draft_tokens=3)
    record, found, tried = front.records.of("trace-good"), request.attributes, attempt.attributes
    for name, value in {
        "specroute.request.id": "trace-good",
        "specroute.status": "ok",
        "specroute.workload": record.classification.label,
        "specroute.classification.confidence": record.classification.confidence,
        "specroute.backend": "draft-model",
        "specroute.method": "draft-model",
        "specroute.draft_tokens": 3,
        "specroute.decision.reason": "pinned",
        "specroute.decision.propensity": 1.0,
        "specroute.attempts": 1,
        "specroute.ttft": record.outcome.ttft,
        "specroute.tpot": record.outcome.tpot,
        "specroute.measurement.grade": "exact",
        "specroute.mean_accepted_length": record.outcome.speculation.mean_accepted_length,
        "specroute.acceptance_rate": record.outcome.speculation.acceptance_rate,
        "http.response.status_code": 200,
    }.items():
        assert found[name] == value, name
    assert found["specroute.policy.revision"]
    histogram = [each.int_value for each in found["specroute.accepted_histogram"].values]
    assert tuple(histogram) == expected.histogram
    assert attempt.events == ("first_token",)
    assert tried["server.port"] == fleet["draft-model"].spec.port
    assert tried["gen_ai.response.id"] == engine.attributes["gen_ai.request.id"] == "chatcmpl-trace-good"
    assert tried["gen_ai.usage.output_tokens"] == engine.attributes["gen_ai.usage.completion_tokens"] == 40
    assert not request.failed
    assert not attempt.failed


def test_a_client_that_leaves_is_an_event_of_the_request(front: Front, collector: Collector) -> None:
    trace_id = "1a" * 16
    headers = {"traceparent": f"00-{trace_id}-{CALLER}-01"}
    arguments = question(
        backend="baseline", request_id="trace-leaves", headers=headers, max_tokens=2000, stream=True
    )
    with sdk(front.url) as client:
        stream = client.chat.completions.create(**arguments)
        for _ in range(3):
            next(stream)
        stream.close()
    # What that server tells of later requests comes after what it would tell of this one.
    later = "4d" * 16
    ask(
        front.url,
        backend="baseline",
        request_id="trace-later",
        headers={"traceparent": f"00-{later}-{CALLER}-01"},
    )
    assert len(tree(collector.trace(later, count=3))[2]) == 1
    request, (attempt,), engine = tree(collector.trace(trace_id, count=2))
    assert engine == []  # vLLM writes its span when an answer ends, and none for one that is aborted
    assert "client_disconnected" in request.events
    assert not request.failed
    assert not attempt.failed
    assert request.attributes["specroute.status"] == "cancelled"
    assert attempt.attributes["specroute.attempt.error"] == "client_gone"
    assert "first_token" in attempt.events


def test_what_a_server_refuses_is_no_error_of_the_gateway(front: Front, collector: Collector) -> None:
    trace_id = "2b" * 16
    answer = ask(
        front.url, backend="baseline", request_id="trace-refused", max_tokens=10**9,
        headers={"traceparent": f"00-{trace_id}-{CALLER}-01"},
    )  # fmt: skip
    assert answer.status == 400
    request, (attempt,), engine = tree(collector.trace(trace_id, count=2))
    assert (request.attributes["http.response.status_code"], request.failed) == (400, False)
    assert attempt.attributes["http.response.status_code"] == 400
    assert engine == []


def test_a_failover_is_two_attempts_and_the_engine_hangs_on_the_second(
    fleet: dict[str, Server], collector: Collector, tmp_path: Path
) -> None:
    trace_id = "3c" * 16
    good = fleet["baseline"]
    policy = "version: 1\nroutes:\n  - {name: all, prefer: [dead, baseline]}\n"
    with (
        dying() as port,
        fronting(
            [replace(good, spec=replace(good.spec, name="dead", port=port)), good],
            policy,
            collector,
            tmp_path,
        ) as front,
    ):
        answer = ask(
            front.url, request_id="trace-failover", headers={"traceparent": f"00-{trace_id}-{CALLER}-01"}
        )
        assert answer.status == 200
        request, attempts, (engine,) = tree(collector.trace(trace_id, count=4))
    assert request.events == ("failover",)
    assert not request.failed
    first, second = attempts
    assert (first.attributes["specroute.backend"], first.failed) == ("dead", True)
    assert (second.attributes["specroute.backend"], second.failed) == ("baseline", False)
    assert engine.parent_id == second.span_id
