"""Records to tell telemetry about, and a receiver that takes what it sends."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.core.classify import Classification
from gateway.core.decide import Candidate, Decision, Rejected
from gateway.core.features import Features, Hints
from gateway.core.fleet import Backend, BackendState, Load, Snapshot
from gateway.core.outcome import Attempt, Outcome, Record, Speculation, Trace, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNIX_NS = 1_800_000_000_000_000_000
RECORD = Record(
    request_id="req-1",
    trace=Trace("a" * 32, "b" * 16, "c" * 16, state="vendor=1"),
    started=100.0,
    started_unix_ns=UNIX_NS,
    decided=100.001,
    ended=103.0,
    features=Features(
        endpoint="chat", model="gemma", stream=True, n=1, max_tokens=512, temperature=0.5,
        parameters=frozenset(), response_format="text", tool_choice="", tools=0, turns=1, last_role="user",
        system_chars=0, prompt_chars=40, last_chars=40, language="en", output_language="en",
        marks=cast("Any", None), hints=Hints(session="session-canary", tenant="tenant-canary"),
    ),
    classification=Classification("math", 0.9, "rule:latex"),
    decision=Decision(
        route="math", target="google/gemma-4-31b", candidates=(Candidate("eagle", 0.25, ()),),
        rejected=(Rejected("dflash", "full", "64 of 64 requests"),), reason="lowest_cost", propensity=0.95,
        max_attempts=3, policy_revision="p1", fleet_revision="f1",
    ),
    attempts=(Attempt("eagle", "done", "", 200, 100.002, 103.0, "d" * 16),),
    outcome=Outcome(
        "ok", 200, ttft=0.5, first_token=0.502, decode_seconds=2.0, first_tokens=1, events=50,
        usage=Usage(input_tokens=20, output_tokens=201, cached_tokens=16),
        speculation=Speculation("exact", steps=100, drafted=500, accepted=100, histogram=(40, 30, 20, 10, 0, 0)),
        finish_reason="stop", response_id="chatcmpl-1", response_model="gemma-31b",
        nature="math",
        tool_arguments="valid",
        resumed=1,
    ),
    backend="eagle",
    method="eagle3",
    draft_tokens=5,
)  # fmt: skip
"""A good stream: 200 decode tokens in 2 s."""

BASELINE = replace(
    RECORD,
    outcome=replace(RECORD.outcome, decode_seconds=4.0, speculation=Speculation("none")),
    attempts=(replace(RECORD.attempts[0], backend="plain"),),
    backend="plain", method="none", draft_tokens=0, baseline=True,
)  # fmt: skip
"""The same at half the speed."""

SNAPSHOT = Snapshot.of(
    tuple(
        BackendState(
            Backend(name, f"http://user:key-canary@10.0.0.{number}:8000", "google/gemma-4-31b", "gemma", method,
                    draft_tokens, api_key="key-canary"),
            in_flight=number,
            load=load,
        )
        for number, (name, method, draft_tokens, load) in enumerate(
            [("plain", "none", 0, None), ("eagle", "eagle3", 5, Load(7, 3, 0.25, at=90.0))], start=1
        )
    ),
    "f1",
)  # fmt: skip


@dataclass
class Receiver:
    """What an OTLP/HTTP receiver on loopback was sent."""

    endpoint: str
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                received.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                received.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200 if self.path in {"/v1/traces", "/v1/metrics"} else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield received
        server.shutdown()
        thread.join()


@pytest.fixture
def record() -> Record:
    return RECORD


@pytest.fixture
def baseline() -> Record:
    return BASELINE


@pytest.fixture
def snapshot() -> Snapshot:
    return SNAPSHOT


@pytest.fixture
def series() -> Callable[[bytes], dict[str, float]]:
    """Reads an exposition into samples by name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    def read(exposition: bytes) -> dict[str, float]:
        return {
            sample.name
            + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(exposition.decode())
            for sample in family.samples
        }

    return read
