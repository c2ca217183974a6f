from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData, ResourceMetrics
from opentelemetry.sdk.resources import Resource
from requests import Response

from gateway.telemetry import otlp_http, otlp_session
from gateway.telemetry.otlp_http import MetricSender, Sender
from gateway.telemetry.otlp_session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def answering(
    *statuses: int, body: bytes = b"", framing: str = "length"
) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A receiver that answers with these, the last one for ever, and what it was sent."""
    left = list(statuses)
    seen: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted = self.rfile.read(int(self.headers["content-length"]))
            seen.append(({name.lower(): value for name, value in self.headers.items()}, posted))
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            if framing == "length":
                self.send_header("content-length", str(len(body)))
            elif framing == "chunked":
                self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if framing == "chunked" else body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", seen
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_http, "_WAITS", (0.0, 0.0))


def sent(url: str, **env: str) -> bool:
    sender = Sender(url, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in env.items()})
    taken = sender.send(b"spans")
    sender.close()
    return taken


def test_a_body_is_posted_as_protobuf() -> None:
    with answering(200) as (url, seen):
        assert sent(url)
    ((headers, body),) = seen
    assert body == b"spans"
    assert headers["content-type"] == "application/x-protobuf"
    assert "content-encoding" not in headers


def test_the_usual_variables_are_heard_those_of_traces_first() -> None:
    with answering(200) as (url, seen):
        assert sent(
            url, HEADERS="authorization=Bearer%20x", TRACES_COMPRESSION="gzip", COMPRESSION="none", TIMEOUT="5"
        )  # fmt: skip
    ((headers, body),) = seen
    assert headers["authorization"] == "Bearer x"
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == b"spans"


def certificates(**env: str) -> tuple[Any, Any]:
    """The bundle that a server's certificate is checked with, and the client's certificate."""
    sender = Sender("https://x", {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in env.items()})
    _ = sender._request
    return sender._session.verify, sender._session.cert


def test_certificates_are_those_of_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for bundle in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(bundle, raising=False)
    assert certificates(CERTIFICATE="ca", CLIENT_CERTIFICATE="crt", CLIENT_KEY="key") == (
        "ca",
        ("crt", "key"),
    )
    assert certificates(CLIENT_CERTIFICATE="both") == (True, "both")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "usual")
    assert certificates() == ("usual", None)
    assert certificates(CERTIFICATE="ca") == ("ca", None)


def test_a_proxy_of_the_process_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200) as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy.removesuffix("/v1/traces"))
        assert sent("http://receiver.invalid/v1/traces")
    assert len(seen) == 1


@pytest.mark.parametrize("busy", [429, 502, 503, 504])
def test_a_busy_receiver_is_asked_again(busy: int) -> None:
    with answering(busy, busy, 200) as (url, seen):
        assert sent(url)
    assert len(seen) == 3


def test_one_that_stays_busy_is_given_up() -> None:
    with answering(503) as (url, seen):
        assert not sent(url)
    assert len(seen) == 3


@pytest.mark.parametrize("status", [302, 400, 401, 404, 500])
def test_what_it_refuses_is_not_sent_again(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with answering(status) as (url, seen):
        shown = url.replace("//", "//user:key-canary@")
        assert not sent(shown, HEADERS="authorization=key-canary")
    assert len(seen) == 1
    assert f"/v1/traces answered {status}" in caplog.text
    assert "key-canary" not in caplog.text


def test_a_dead_receiver_is_told_of_once_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    with answering(500, 500, 200, 200, 500, 500) as (url, _):
        sender = Sender(url, {})
        assert [sender.send(b"x") for _ in range(6)] == [False, False, True, True, False, False]
        sender.close()
    assert caplog.messages == [
        f"spans are not taken: {url} answered 500",
        "spans are taken again, after 2 failures",
        f"spans are not taken: {url} answered 500",
    ]


def refusing(spans: int, why: str = "") -> bytes:
    return ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=spans, error_message=why)
    ).SerializeToString()


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("why", ["", "too old", "x" * 5000])
def test_of_spans_that_are_rejected_the_number_is_known(
    why: str, framing: str, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(200, body=refusing(3, why), framing=framing) as (url, seen):
        sender = Sender(url, {})
        for _ in range(2):
            assert sender.send(b"x")
            assert sender.rejected == 3
        sender.close()
    assert len(seen) == 2
    assert caplog.messages == [f"spans are not taken: {url} rejected 3 of those it was sent"]


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_of_an_answer_that_is_too_long_nothing_is_believed(
    framing: str, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(200, body=refusing(3, "x" * 2**16), framing=framing) as (url, _):
        sender = Sender(url, {})
        assert all([sender.send(b"x") for _ in range(2)])  # noqa: C419 - both
        assert sender.rejected == 0
        sender.close()
    assert caplog.messages == []


@pytest.mark.parametrize(
    "answer",
    [b"", refusing(0), refusing(0, "mind the units"), b"\xff\xff", b'{"partialSuccess":{}}', refusing(3)[:3]],
)
def test_an_answer_that_rejects_none_says_that_all_are_taken(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(200, body=answer) as (url, _):
        sender = Sender(url, {})
        assert sender.send(b"x")
        assert sender.rejected == 0
        sender.close()
    assert caplog.messages == []


def test_what_a_refusal_says_beside_rejects_no_span(caplog: pytest.LogCaptureFixture) -> None:
    with answering(200, 400, body=refusing(3)) as (url, _):
        sender = Sender(url, {})
        assert sender.send(b"x")
        assert not sender.send(b"x")
        assert sender.rejected == 0
        sender.close()


def measured() -> MetricsData:
    """Two data points."""
    reader = InMemoryMetricReader()
    counter = MeterProvider([reader]).get_meter("m").create_counter("c")
    counter.add(1, {"a": "b"})
    counter.add(1, {"a": "c"})
    data = reader.get_metrics_data()
    assert data is not None
    return data


def test_of_metrics_that_are_rejected_the_number_is_known(caplog: pytest.LogCaptureFixture) -> None:
    body = ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=1)
    ).SerializeToString()
    with answering(200, 200, 400, body=body) as (url, _):
        sender = MetricSender(url)
        for _ in range(3):
            sender.export(measured())
        sender.shutdown()
    assert sender.dropped == 1 + 1 + 2
    assert caplog.messages == [f"metrics are not taken: {url} rejected 1 of those it was sent"]


@pytest.mark.parametrize(
    ("env", "seconds"),
    [({}, 10.0), ({"TIMEOUT": "2.5"}, 2.5), ({"TIMEOUT": "2.5", "METRICS_TIMEOUT": "3"}, 3.0)],
)
def test_metrics_hear_of_the_limit_in_time(
    env: dict[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    limits = []
    monkeypatch.setattr(Session, "send", lambda *_, **given: limits.append(given["timeout"]) or Response())
    MetricSender("http://127.0.0.1:9").export(MetricsData([]))
    assert limits[0] == pytest.approx(seconds, abs=0.5)


def test_one_that_is_gone_is_asked_again_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    sender = Sender(url, {})
    assert not any([sender.send(b"x") for _ in range(5)])  # noqa: C419 - all of them
    assert caplog.messages == [f"spans are not taken: no connection to {url}"]
    sender.close()


@pytest.mark.parametrize(
    ("error", "postings"),
    [
        (requests.ConnectionError, 3),
        (requests.ConnectTimeout, 1),
        (requests.ReadTimeout, 1),
        (requests.exceptions.ContentDecodingError, 1),
    ],
)
def test_only_one_that_is_gone_is_asked_again_and_none_that_answers_too_late_or_wrongly(
    error: type[requests.RequestException], postings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, asked = Sender("http://127.0.0.1:9", {}), []

    def fail(*given: object, **_: object) -> None:
        asked.append(given)
        raise error

    monkeypatch.setattr(sender._session, "send", fail)
    assert not sender.send(b"x")
    assert len(asked) == postings
    sender.close()


def test_of_metrics_that_are_not_taken_the_log_has_a_line_for_each_change(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's exporter has one for each try of each export, and takes a redirect for success."""
    monkeypatch.setattr("opentelemetry.exporter.otlp.common.http._MAX_RETRIES", 2)
    monkeypatch.setattr(
        "opentelemetry.exporter.otlp.common.http._OTLPHTTPClient._compute_backoff", lambda *_: 0
    )
    nothing = MetricsData([])
    with answering(503, 503, 400, 307, 200, 200, 404) as (url, _):
        sender = MetricSender(url.replace("//", "//user:key-canary@"))
        results = [sender.export(nothing) for _ in range(6)]
    sender.export(nothing)
    sender.shutdown()
    sender.export(nothing)
    assert [result.name for result in results] == [
        "FAILURE", "FAILURE", "SUCCESS", "SUCCESS", "SUCCESS", "FAILURE",
    ]  # fmt: skip
    assert caplog.messages == [
        f"metrics are not taken: {url} answered 503",
        "metrics are taken again, after 3 failures",
        f"metrics are not taken: {url} answered 404",
    ]


def test_metrics_that_cannot_be_sent_at_all_are_told_of_too(caplog: pytest.LogCaptureFixture) -> None:
    sender = MetricSender("http://127.0.0.1:9")
    sender._max_request_size = 1
    sender.export(MetricsData([ResourceMetrics(Resource({"a": "b"}), [], "")]))
    sender.shutdown()
    closed = MetricSender("http://127.0.0.1:9")
    closed.shutdown()
    closed.export(MetricsData([]))
    assert caplog.messages == ["metrics are not taken: they could not be encoded or are too many"]


def test_one_that_does_not_answer_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not sent(f"http://127.0.0.1:{server.getsockname()[1]}", TIMEOUT="0.01")
    assert "did not answer in time" in caplog.text


@pytest.mark.parametrize("length", ["9999999", "many"])
def test_an_answer_of_no_length_that_could_be_is_not_read(length: str) -> None:
    """Its first bytes come, the others never: whoever reads them waits."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        done = pool.submit(sent, f"http://127.0.0.1:{server.getsockname()[1]}", TIMEOUT="60")
        connection, _ = server.accept()
        with connection:
            connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\nx".encode())
            assert done.result(timeout=30)


@contextlib.contextmanager
def dripping(first: bytes, again: bytes) -> Iterator[str]:
    """A receiver that answers with some bytes and then with others, again and again; its address."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(first)
                    while not over.wait(0.01):
                        connection.sendall(again)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        over.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(20)
    assert not thread.is_alive()


ENDLESS = pytest.mark.parametrize(
    ("scheme", "first", "again"),
    [
        ("http", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("http", b"HTTP/1.1 200 ", b"O"),
        ("http", b"HTTP/1.1 200 OK\r\nx: ", b"x"),
        ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 512\r\n\r\n", b"x"),
        ("https", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03", b"x"),
    ],
    ids=["interim", "status", "header", "body", "handshake"],
)


@ENDLESS
def test_a_posting_has_an_end_however_much_is_still_said(
    scheme: str, first: bytes, again: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with dripping(first, again) as host:
        assert not sent(f"{scheme}://{host}", TIMEOUT="0.3")
    assert caplog.messages == [f"spans are not taken: {scheme}://{host} did not answer in time"]


@ENDLESS
def test_so_it_has_for_metrics(
    scheme: str, first: bytes, again: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_http, "_SECONDS", 0.3)
    with dripping(first, again) as host:
        sender = MetricSender(f"{scheme}://{host}")
        sender.export(MetricsData([]))
        sender.shutdown()
    assert caplog.messages == [f"metrics are not taken: {scheme}://{host} did not answer in time"]


def test_after_a_posting_that_was_ended_the_next_one_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a connection that answered well before, too."""
    good = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        sender = Sender(f"http://127.0.0.1:{server.getsockname()[1]}", {})

        def post(limit: float) -> bool:
            sender._timeout = limit
            return sender.send(b"x")

        done = pool.submit(lambda: [*map(post, (30.0, 0.5, 30.0))])
        connection, _ = server.accept()
        with connection:
            received = b""
            while not received.endswith(b"\r\n\r\nx"):  # head and body may come apart
                part = connection.recv(4096)
                assert part
                received += part
            connection.sendall(good)
            with contextlib.suppress(OSError):
                while connection.recv(4096):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(good)
            assert done.result(timeout=30) == [True, False, True]
        sender.close()


def posted(url: str, headers: dict[str, str] | None = None) -> Response:
    with Session(url) as session:
        return session.post(url, b"x", timeout=60, headers=headers)


def test_what_others_send_with_a_session_is_no_more_read_than_that() -> None:
    """Metrics go by the SDK's exporter, which takes the whole of an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        done = pool.submit(posted, url)
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1_000_000))
            assert done.result(timeout=30).status_code == 200


def test_a_redirect_takes_no_key_elsewhere() -> None:
    with answering(200) as (elsewhere, seen), socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(posted, url, {"x-api-key": "key-canary"})
            connection, _ = server.accept()
            with connection:
                connection.sendall(
                    f"HTTP/1.1 307 Go\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n".encode()
                )
                assert done.result(timeout=30).status_code == 307
    assert seen == []


@pytest.mark.parametrize("written", ["x-api-key: key-canary", "Authorization Bearer key-canary"])
def test_a_header_that_cannot_be_read_is_told_of_without_it(
    written: str, caplog: pytest.LogCaptureFixture
) -> None:
    Sender("http://127.0.0.1:9", {"OTEL_EXPORTER_OTLP_HEADERS": f"a=b,{written}"})
    assert "part 2 is no header; write each as name=value" in caplog.text
    assert "key-canary" not in caplog.text


@pytest.mark.parametrize("query", ["", "?api_key=key-canary", "?api_key=/key-canary", "#key-canary"])
def test_a_dead_receiver_is_named_without_its_password_and_query(
    query: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
    assert not sent(f"http://user:key-canary@{host}/v1/traces{query}")
    assert f"no connection to http://{host}/v1/traces\n" in caplog.text
    assert "key-canary" not in caplog.text


@pytest.mark.parametrize("rest", ["/v1/traces?api_key=key@canary", "?key@canary:9"])
def test_of_an_address_with_an_at_sign_late_nothing_is_told(
    rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
    assert not sent(f"http://user:key-canary@{host}{rest}")
    assert "no connection to the receiver" in caplog.text
    assert "canary" not in caplog.text


def test_an_address_without_a_scheme_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    assert not sent("user:key-canary@h/v1/traces")
    assert "spans are not taken: the receiver: " in caplog.text
    assert "key-canary" not in caplog.text


def test_an_address_that_is_none_costs_the_spans_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert not sent("http://[::1")
    assert "spans are not taken" in caplog.text


def test_a_close_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_http, "_WAITS", (600.0,))
    waits = threading.Event()

    class Waiting(Sender):
        def _post(self, data: bytes) -> tuple[str, bool]:
            waits.set()
            return super()._post(data)

    with answering(503) as (url, _):
        sender = Waiting(url, {})
        taken: list[Any] = []
        thread = threading.Thread(target=lambda: taken.append(sender.send(b"x")))
        thread.start()
        assert waits.wait(20)
        sender.close()
        thread.join(20)
    assert taken == [False]


def test_a_line_that_nobody_closes_leaves_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as connection:
            otlp_session._Line().opened(connection)  # and gone
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b""


def test_a_connection_that_comes_too_late_and_is_broken_already_is_left_to_who_made_it() -> None:
    line = otlp_session._Line()
    line.close()
    with socket.socket() as connection:  # has nobody at its other end
        line.opened(connection)
