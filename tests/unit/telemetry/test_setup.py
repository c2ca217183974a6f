from __future__ import annotations

import contextlib
import gc
import itertools
import socket
import threading
import time
import tracemalloc
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import REGISTRY, generate_latest

from gateway.core.decide import Candidate, Rejected
from gateway.core.fleet import Snapshot
from gateway.core.outcome import Attempt, Outcome
from gateway.telemetry import otlp_http, trace_context
from gateway.telemetry.setup import setup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.core.outcome import Record

    Series = Callable[[bytes], dict[str, float]]

FAILED = Attempt("plain", "headers", "status:503", 503, 100.01, 100.2, "e" * 16)


def receiving(endpoint: str) -> dict[str, str]:
    """One receiver for spans and metrics."""
    return {"traces_to": f"{endpoint}/v1/traces", "metrics_to": f"{endpoint}/v1/metrics"}


def found(span: Span) -> dict[str, Any]:
    def value(any_value: Any) -> Any:
        kind = any_value.WhichOneof("value")
        if kind == "array_value":
            return [value(each) for each in any_value.array_value.values]
        return getattr(any_value, kind)

    return {each.key: value(each.value) for each in span.attributes}


def by_kind(spans: list[Span]) -> tuple[Span, list[Span]]:
    (server,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    clients = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert len(clients) == len(spans) - 1
    return server, sorted(clients, key=lambda span: span.start_time_unix_nano)


def sent(receiver: Any, snapshot: Snapshot, *records: Record, **given: Any) -> list[Span]:
    telemetry = setup(
        **given,
        **receiving(receiver.endpoint),
        service_name="gw",
        service_version="9",
        resource_attributes={"deployment.environment": "t"},
    )
    telemetry.observe_fleet(lambda: snapshot, lambda: 100.0)
    for record in records:
        telemetry.on_record(record)
    telemetry.close()
    return list(receiver.spans)


def test_ok_is_one_trace_from_the_caller_to_the_attempt(
    receiver: Any, snapshot: Snapshot, record: Record
) -> None:
    server, (client,) = by_kind(sent(receiver, snapshot, record))
    assert {span.trace_id.hex() for span in (server, client)} == {"a" * 32}
    assert (server.parent_span_id.hex(), server.span_id.hex()) == ("c" * 16, "b" * 16)
    assert (client.parent_span_id.hex(), client.span_id.hex()) == ("b" * 16, "d" * 16)
    assert server.name == client.name == "chat gemma"
    assert server.trace_state == ""  # it is passed on, and the client's words are not recorded
    assert server.status.code == client.status.code == Status.STATUS_CODE_UNSET
    assert found(server)["specroute.accepted_histogram"] == [40, 30, 20, 10, 0, 0]
    assert found(server)["specroute.backend"] == "eagle"
    assert found(client)["gen_ai.usage.output_tokens"] == 201
    assert found(client)["server.address"] == "10.0.0.2"
    assert [event.name for event in client.events] == ["first_token"]
    assert server.start_time_unix_nano == record.started_unix_ns


def test_what_we_sent_upstream_is_the_parent_that_the_backend_sees(record: Record) -> None:
    header = trace_context.traceparent(record.trace, record.attempts[0].span_id)
    assert header == f"00-{'a' * 32}-{'d' * 16}-01"


def test_the_resource_says_who_sent_it(receiver: Any, snapshot: Snapshot, record: Record) -> None:
    sent(receiver, snapshot, record)
    for resource in (receiver.traces[0].resource_spans[0], receiver.metrics[-1].resource_metrics[0]):
        attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert attributes["service.name"] == "gw"
        assert attributes["service.version"] == "9"
        assert attributes["deployment.environment"] == "t"
        assert attributes["service.instance.id"]


def test_a_failover_is_two_attempts_under_one_request(
    receiver: Any, snapshot: Snapshot, record: Record
) -> None:
    again = replace(record.attempts[0], started=100.3)
    server, (first, last) = by_kind(sent(receiver, snapshot, replace(record, attempts=(FAILED, again))))
    assert (first.parent_span_id, last.parent_span_id) == (server.span_id, server.span_id)
    assert (first.span_id.hex(), last.span_id.hex()) == ("e" * 16, "d" * 16)
    assert (first.status.code, last.status.code) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_UNSET)
    assert found(first)["error.type"] == "503"
    assert [event.name for event in server.events] == ["failover"]
    assert server.status.code == Status.STATUS_CODE_UNSET


def test_an_error_marks_both_spans(receiver: Any, snapshot: Snapshot, record: Record) -> None:
    failed = replace(
        record,
        attempts=(replace(record.attempts[0], error="reset", phase="first_byte"),),
        outcome=Outcome("truncated", 200, ttft=0.5, error="reset"),
    )
    server, (client,) = by_kind(sent(receiver, snapshot, failed))
    assert server.status.code == client.status.code == Status.STATUS_CODE_ERROR
    assert found(server)["error.type"] == found(client)["error.type"] == "reset"


def test_a_cancel_ends_in_the_same_tree(receiver: Any, snapshot: Snapshot, record: Record) -> None:
    left = replace(
        record,
        attempts=(replace(record.attempts[0], error="client_gone", phase="first_byte"),),
        outcome=Outcome("cancelled", 200, ttft=0.5, error="client_gone"),
    )
    server, (client,) = by_kind(sent(receiver, snapshot, left))
    assert client.parent_span_id == server.span_id
    assert [event.name for event in server.events] == ["client_disconnected"]
    assert server.status.code == Status.STATUS_CODE_UNSET
    assert found(server)["specroute.status"] == "cancelled"


def test_what_is_not_sampled_is_not_sent_but_counted(
    receiver: Any, snapshot: Snapshot, record: Record
) -> None:
    quiet = replace(record, trace=replace(record.trace, sampled=False))
    assert sent(receiver, snapshot, quiet) == []
    assert receiver.metrics


def test_metrics_are_sent_from_the_same_meters_with_the_trace_as_exemplar(
    receiver: Any, snapshot: Snapshot, record: Record
) -> None:
    sent(receiver, snapshot, record)
    (scope,) = receiver.metrics[-1].resource_metrics[0].scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    assert [point.as_int for point in metrics["specroute.requests"].sum.data_points if point.as_int] == [1]
    (tpot,) = metrics["specroute.tpot"].histogram.data_points
    assert tpot.sum == 0.01
    assert [exemplar.trace_id.hex() for exemplar in tpot.exemplars] == ["a" * 32]
    assert "specroute.backend.in_flight" in metrics


def test_what_is_kept_though_not_sampled_is_an_exemplar_too(
    receiver: Any, snapshot: Snapshot, record: Record
) -> None:
    slow = replace(record, trace=replace(record.trace, sampled=False, parent_id=""))
    (server, _) = sent(receiver, snapshot, slow, trace_slow=0.5)[::-1]
    assert found(server)["specroute.trace.kept"] == "slow"
    (scope,) = receiver.metrics[-1].resource_metrics[0].scope_metrics
    (ttft,) = [metric for metric in scope.metrics if metric.name == "specroute.ttft"]
    (point,) = ttft.histogram.data_points
    assert [exemplar.trace_id for exemplar in point.exemplars] == [server.trace_id]


def test_no_secret_and_no_client_identity_leaves(receiver: Any, snapshot: Snapshot, record: Record) -> None:
    telemetry = setup(**receiving(receiver.endpoint))
    telemetry.observe_fleet(lambda: snapshot, lambda: 100.0)
    telemetry.on_record(record)
    exposition = telemetry.exposition().decode()
    telemetry.close()
    everything = exposition + "".join(str(request) for request in (*receiver.traces, *receiver.metrics))
    assert "specroute" in everything
    assert "canary" not in everything


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_receiver_that_never_answers_does_not_hold_up_records(
    black_hole: str, record: Record, series: Series
) -> None:
    telemetry = setup(**receiving(black_hole))
    for _ in range(5000):  # more than the queue of spans holds
        telemetry.on_record(record)
    found = series(telemetry.exposition())
    assert found["specroute_requests_total backend=eagle method=eagle3 status=ok workload=math"] == 5000
    assert 2 * (5000 - 2048 - 1) <= found["specroute_spans_dropped_total"] <= 2 * (5000 - 2048)
    telemetry.close(timeout=0.05)


class Trouble(BaseHTTPRequestHandler):
    """A receiver that takes every second export, answers drop by drop, and refuses the others."""

    taken: ClassVar[list[int]] = []
    turns: ClassVar[Iterator[int]] = itertools.count()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        good = next(self.turns) % 2 == 0
        if good:
            request = ExportTraceServiceRequest.FromString(body)
            self.taken.append(sum(len(s.spans) for r in request.resource_spans for s in r.scope_spans))
        self.send_response(200 if good else 500)
        self.send_header("content-length", "5")
        self.end_headers()
        for drop in b"slow!":
            self.wfile.write(bytes((drop,)))
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def troubled() -> Iterator[str]:
    Trouble.taken.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Trouble) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["receiver", "troubled", "dead", "black_hole"])
def test_every_span_is_delivered_or_counted_and_no_more_requests_are_held_than_allowed(
    kind: str, request: pytest.FixtureRequest, record: Record, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_http, "_WAITS", (0.0,))
    # What came and was not acknowledged in time would be counted twice.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2" if kind == "black_hole" else "60")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "600")
    found = request.getfixturevalue(kind)
    telemetry = setup(**receiving(getattr(found, "endpoint", found)))
    queue = telemetry._queue
    assert queue is not None
    most = 0
    for _ in range(3000):
        telemetry.on_record(record)
        most = max(most, queue.held)
    queue.close()
    counted = series(telemetry.exposition())
    assert counted["specroute_requests_total backend=eagle method=eagle3 status=ok workload=math"] == 3000
    delivered = {"receiver": lambda: len(found.spans), "troubled": lambda: sum(Trouble.taken)}
    assert delivered.get(kind, lambda: 0)() + counted["specroute_spans_dropped_total"] == 6000
    assert most <= 300 + 1
    telemetry.close(timeout=0.05)


@pytest.fixture
def slow() -> Iterator[str]:
    """Answers a byte at a time, and never to the end."""
    with sending(itertools.repeat(b"x")) as url:
        yield url


@pytest.fixture
def endless() -> Iterator[str]:
    """Answers well, and then on and on, as fast as it is read."""
    with sending(itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(bytes(65_536)))) as url:
        yield url


@contextlib.contextmanager
def sending(answer: Iterable[bytes]) -> Iterator[str]:
    """A receiver that sends this on each connection, whatever it is sent."""
    ended = threading.Event()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                for part in answer:
                    self.request.sendall(part)
                    if len(part) == 1 and ended.wait(0.05):
                        break

    class Server(ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        ended.set()
        server.shutdown()


def of_a_large_fleet(record: Record, snapshot: Snapshot, number: int) -> Record:
    """A record with a state of its own of 40 servers that were all looked at."""
    names = [f"backend-{at}" for at in range(40)]
    states = tuple(replace(snapshot.states[1], in_flight=number) for _ in names)
    return replace(
        record,
        request_id=f"request-{number}",
        decision=replace(
            record.decision,
            candidates=tuple(Candidate(name, number + at / 7, ()) for at, name in enumerate(names[:20])),
            rejected=tuple(Rejected(name, "full", f"{number} of 64 requests") for name in names[20:]),
        ),
        snapshot=Snapshot.of(states, "f1"),
    )


@pytest.mark.parametrize("kind", ["dead", "black_hole", "slow", "endless"])
def test_memory_does_not_move_with_a_receiver_in_trouble(
    kind: str,
    request: pytest.FixtureRequest,
    record: Record,
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    series: Series,
) -> None:
    """What is held is at most what is allowed to be, and the rest is counted."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "400")
    telemetry = setup(**receiving(request.getfixturevalue(kind)))
    queue = telemetry._queue
    assert queue is not None
    sent = 0

    def send(until: int) -> None:
        nonlocal sent
        for number in range(sent, until):
            telemetry.on_record(of_a_large_fleet(record, snapshot, number))
            while len(queue._ended) >= 20:  # a test is faster than any gateway
                queue._wake.set()
                time.sleep(0.001)
        sent = until

    send(20)  # what is made once: caches, connections
    tracemalloc.start()
    try:
        send(1000)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert queue.held <= 200 + 1  # one may be on its way from a record to spans
    assert queue.held_bytes <= 200 * 4096 + 10_000
    assert held < 200 * 4096 + 1_200_000
    counted = series(telemetry.exposition())
    assert counted["specroute_requests_total backend=eagle method=eagle3 status=ok workload=math"] == 1000
    if kind != "endless":  # that one takes them all
        assert counted["specroute_spans_dropped_total"] >= 2 * (1000 - 200 - 200)
    telemetry.close(timeout=0.05)


def test_a_dead_receiver_raises_nothing_and_the_close_gives_up(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = f"http://127.0.0.1:{server.getsockname()[1]}"
    telemetry = setup(**receiving(dead))
    telemetry.on_record(record)
    telemetry.close(timeout=0.05)
    assert "the rest is lost" in caplog.text
    for thread in threading.enumerate():
        if thread.name == "telemetry-shutdown":
            thread.join()  # the retries were ended, so it ends by itself


def test_several_live_in_one_process_and_touch_nothing_global(record: Record, series: Series) -> None:
    first, second = setup(), setup()
    first.on_record(record)
    counted = "specroute_requests_total backend=eagle method=eagle3 status=ok workload=math"
    assert series(first.exposition())[counted] == 1
    assert counted not in series(second.exposition())
    assert b"specroute" not in generate_latest(REGISTRY)
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    first.close()
    second.close()


def test_a_reader_that_is_late_at_the_end_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = setup()

    def late() -> None:
        raise RuntimeError("deadline exceeded")

    monkeypatch.setattr(telemetry._provider, "shutdown", late)
    telemetry.close()
    assert "metrics were not sent to the end" in caplog.text


def test_it_is_text_of_prometheus(record: Record) -> None:
    telemetry = setup()
    telemetry.on_record(record)
    assert telemetry.content_type.startswith("text/plain; version=")
    assert b"\n# TYPE specroute_requests_total counter\n" in telemetry.exposition()


def test_an_unknown_version_of_the_conventions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.1\.0, 1\.41, not '2'"):
        setup(semconv="2")
