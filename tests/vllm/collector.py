"""An OTLP/HTTP collector inside the test process, where the gateway's and the servers' spans meet."""

from __future__ import annotations

import contextlib
import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

SERVER = 2
"""Span kinds of OTLP."""
CLIENT = 3


@dataclass(frozen=True, slots=True)
class Span:
    """What a test asks of a span; ids in hex, ``parent_id`` empty for a root."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    events: tuple[str, ...] = ()
    failed: bool = False


class Collector:
    """Spans received so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._spans: list[Span] = []
        self._changed = threading.Condition()

    def take(self, body: bytes) -> None:
        """Take in one export."""
        request = ExportTraceServiceRequest.FromString(body)
        spans = [
            Span(
                name=span.name,
                kind=span.kind,
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex(),
                attributes={pair.key: _value(pair) for pair in span.attributes},
                events=tuple(event.name for event in span.events),
                failed=span.status.code == Status.STATUS_CODE_ERROR,
            )
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._changed:
            self._spans += spans
            self._changed.notify_all()

    def trace(self, trace_id: str, count: int, within: float = 30.0) -> list[Span]:
        """The spans of a trace, as soon as there are so many.

        Args:
            trace_id: In hex.
            count: Spans to wait for.
            within: Seconds to wait for them.
        """

        def found() -> list[Span]:
            return [span for span in self._spans if span.trace_id == trace_id]

        with self._changed:
            complete = self._changed.wait_for(lambda: len(found()) >= count, timeout=within)
            assert complete, f"of {count} spans only {[span.name for span in found()]} arrived"
            return found()


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Listen on a free port of the loopback address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.take(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write no access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield collector
        finally:
            server.shutdown()
            serving.join()


def _value(pair: KeyValue) -> object:
    return getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
