"""Whatever bytes, bodies and calls come: no 500, no hang, no traceback. SPECROUTE_FUZZ multiplies the examples."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.contract.stack import SECONDS, Loop, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.contract.stack import Stack

MODEL = "google/gemma-4-31B-it"
FLEET = f"""\
version: 1
backends:
  - {{name: plain, url: "http://127.0.0.1:1", model: {MODEL}}}
"""
POLICY = """\
version: 1
allow_pin: true
queue: {wait: 1s, length: 8}
routes:
  - {name: all, prefer: [any]}
"""
TIMES = int(os.environ.get("SPECROUTE_FUZZ", "1"))
SILENCE = 0.1
"""Seconds of silence after which a client of raw bytes takes it that nothing more comes."""

POSTED = [
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/rerank",
    "/v1/score", "/tokenize", "/detokenize", "/v1/audio/transcriptions", "/v1/unheard/of", "/-/decide",
    "/-/policy/check", "/-/reload", "/v1/models",
]  # fmt: skip


def examples(count: int) -> Any:
    """As many examples, of which each may take its time."""
    return settings(
        max_examples=count * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
    )


class Complaints(logging.Handler):
    """What the process logs of its own failures."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR or "Traceback" in record.getMessage():
            self.found.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A gateway before one simulated server; at the end it must be idle and have nothing to complain of."""
    loop, complaints = Loop(), Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        with running(
            loop, tmp_path_factory.mktemp("fuzz"), FLEET, POLICY, changes={"plain": {"speed": 1000.0}}
        ) as found:
            yield found
            assert found.http.get("/healthz").status_code == 200
            found.until_idle()
    finally:
        logging.getLogger().removeHandler(complaints)
        loop.close()
    assert complaints.found == []


# Bytes.

TOKENS = st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"PRI", b"x", b""])
TARGETS = st.sampled_from([
    *(path.encode() for path in POSTED), b"/", b"*", b"//", b"/%00%ff", b"/%", b"/\xc3\xa4", b"http://h/v1/x", b"h:1",
    b"/v1/models/%2e%2e/x?a=%&&=", b"/healthz", b"/metrics", b"/" + b"a" * 20_000, b"",
])  # fmt: skip
VERSIONS = st.sampled_from(
    [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b""]
)
FIELDS = st.sampled_from([
    b"host: h", b"host:", b"Host: a\r\nHost: b", b"content-type: application/json", b"content-type: \xff",
    b"accept-encoding: gzip, br", b"expect: 100-continue", b"expect: 200-maybe", b"connection: close",
    b"connection: keep-alive, x-request-id", b"connection: upgrade\r\nupgrade: websocket", b"upgrade: h2c",
    b"connection: upgrade\r\nupgrade: h2c", b"te: trailers", b"x-request-id: \x01", b"x-request-id: " + b"i" * 300,
    b"traceparent: 00-0-0-0", b"x-specroute-backend: nobody", b"x-specroute-workload: \xc3\xa4", b"x-a: " + b"b" * 70_000,
    b" folded: 1", b"no colon", b": nameless", b"bad name: 1", b"x-nul: \0", b"cookie: " + b"c" * 5000,
    b"authorization: Bearer canary",
])  # fmt: skip
LENGTHS = st.sampled_from(
    [b"0", b"5", b"-1", b"99999999999999999999", b"1, 1", b"0x5", b"5 ", b"", b"\xb2", b"1000"]
)
JSON_BODIES = st.sampled_from([
    b"", b"{}", b"null", b"{", b'{"model":1}', b'{"model":"%b","messages":[]}' % MODEL.encode(), b"\xff\xfe", b"[" * 5000,
    b'{"model":"%b","max_tokens":2,"stream":true,"messages":[{"role":"user","content":"hi"}]}' % MODEL.encode(),
    b'{"model":"%b","stream":true,"messages":[],"\xff":1}' % MODEL.encode(),
])  # fmt: skip


def chunked(parts: list[bytes], last: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + last


BODIES = st.one_of(
    JSON_BODIES.map(lambda body: (b"content-length: %d" % len(body), body)),
    st.tuples(LENGTHS.map(lambda length: b"content-length: " + length), JSON_BODIES),
    st.tuples(
        st.sampled_from([b"transfer-encoding: chunked", b"transfer-encoding: gzip", b"transfer-encoding: x, chunked"]),
        st.builds(
            chunked,
            st.lists(JSON_BODIES, max_size=3),
            st.sampled_from([b"0\r\n\r\n", b"0\r\nx-t: 1\r\n\r\n", b"zz\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"5;ext=" + b"e" * 9000, b""]),
        ),
    ),
    st.just((b"content-length: 1\r\ncontent-length: 2", b"ab")),
    st.just((b"content-length: 1\r\ntransfer-encoding: chunked", b"0\r\n\r\n")),
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request that may keep the rules or not."""
    framing, body = draw(BODIES)
    line = b" ".join([draw(TOKENS), draw(TARGETS), draw(VERSIONS)])
    ends = draw(st.sampled_from([b"\r\n", b"\n", b"\r\n", b"\r\n"]))
    return ends.join([line, *draw(st.lists(FIELDS, max_size=4)), framing, b"", b""]) + body


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Some requests behind each other, here and there changed."""
    data = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=3))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def spoken(stack: Stack, data: bytes, cuts: list[int]) -> bytes:
    """What comes back for these bytes, sent in pieces, until the gateway closes or has nothing more to say."""
    address = urlsplit(stack.url)
    said = b""
    with socket.create_connection((address.hostname, address.port), timeout=SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(BrokenPipeError, ConnectionResetError):
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                client.sendall(data[start:end])
            client.settimeout(SILENCE)
            with suppress(TimeoutError):
                while piece := client.recv(2**16):
                    said += piece
            client.settimeout(SECONDS)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(2**16):  # a connection that stays open runs into the limit
                said += piece
    return said


STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def judged(said: bytes) -> None:
    assert b"Traceback" not in said
    assert b"Internal Server Error" not in said
    assert not {int(status) for status in STATUS.findall(said)} & {500, 502, 504}, said


@examples(80)
@given(
    data=st.one_of(mutated(), mutated(), st.binary(max_size=300)),
    cuts=st.lists(st.integers(0, 400), max_size=3),
)
@example(data=b"\x16\x03\x01\0\xa5\x01\0\0\xa1", cuts=[])
@example(data=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", cuts=[])
@example(data=b"OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n", cuts=[])
@example(data=b"POST * HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}", cuts=[])
@example(data=b"POST /v1/x HTTP/1.1\r\nhost: h\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", cuts=[])
def test_any_bytes_are_answered_or_refused(stack: Stack, data: bytes, cuts: list[int]) -> None:
    judged(spoken(stack, data, sorted(min(cut, len(data)) for cut in cuts)))


@st.composite
def proper(draw: st.DrawFn) -> tuple[bytes, int]:
    """Requests that keep the rules, and how many they are."""
    count = draw(st.integers(1, 4))
    data = b""
    for number in range(count):
        body = json.dumps({
            "model": draw(st.sampled_from([MODEL, "nobody"])), "max_tokens": 2, "stream": draw(st.booleans()),
            "messages": [{"role": "user", "content": draw(st.sampled_from(["hi", "Xin chào 🌊", "你好" * 500]))}],
        }).encode()  # fmt: skip
        path = draw(st.sampled_from([b"/v1/chat/completions", b"/-/decide"]))
        if draw(st.booleans()):
            size = draw(st.integers(1, 200))
            framing = b"transfer-encoding: chunked"
            body = chunked([body[at : at + size] for at in range(0, len(body), size)], b"0\r\n\r\n")
        else:
            framing = b"content-length: %d" % len(body)
        ends = b"connection: close\r\n" if number == count - 1 else b""
        data += b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n%b%b\r\n\r\n%b" % (
            path,
            ends,
            framing,
            body,
        )
    return data, count


@examples(60)
@given(request=proper(), cuts=st.lists(st.integers(0, 3000), max_size=6))
def test_every_good_request_of_a_connection_is_answered_however_it_is_cut(
    stack: Stack, request: tuple[bytes, int], cuts: list[int]
) -> None:
    data, count = request
    address = urlsplit(stack.url)
    said = b""
    with socket.create_connection((address.hostname, address.port), timeout=SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        places = sorted(min(cut, len(data)) for cut in cuts)
        for start, end in zip([0, *places], [*places, len(data)], strict=True):
            client.sendall(data[start:end])
        while piece := client.recv(2**16):
            said += piece
    assert sorted(set(STATUS.findall(said)) - {b"200", b"404"}) == []
    assert len(STATUS.findall(said)) == count


# Bodies.

VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
        st.sampled_from([2**70, -1, 1e308, "\0", "\ud7ff", "user", "auto", "text", MODEL]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "role", "content", "text", "function", "name", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip
KEYS = [
    "messages", "prompt", "input", "system", "instructions", "stream_options", "n", "temperature", "top_p", "logprobs",
    "top_logprobs", "stop", "tools", "tool_choice", "response_format", "metadata", "seed", "min_p", "logit_bias",
    "return_token_ids", "max_completion_tokens", "echo", "suffix", "user", "tokens", "text_1", "query", "documents",
]  # fmt: skip
OBJECTS = st.builds(
    lambda known, odd: {"max_tokens": 2} | known | odd,
    st.fixed_dictionaries(
        {"model": st.sampled_from([MODEL, MODEL, "nobody"])},
        optional={
            "messages": st.just([{"role": "user", "content": "hi"}]),
            "prompt": st.sampled_from(["hi", [1, 2], ["a", "b"]]),
            "stream": st.booleans(),
            "max_tokens": st.sampled_from([2, 2, 0, -1, "x", None, 10**9]),
        },
    ),
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
)


def well_answered(answer: httpx.Response) -> None:
    """No failure of ours, and what is said of a mistake is what clients of the API read."""
    assert answer.status_code < 500 or (answer.status_code in {501, 503}), (answer.status_code, answer.text)
    assert "Traceback" not in answer.text
    if answer.status_code >= 400:
        assert answer.headers["content-type"].startswith("application/json"), answer.headers
        answer.json()


@examples(150)
@given(path=st.sampled_from(POSTED), body=st.one_of(OBJECTS, OBJECTS, VALUES))
def test_any_json_is_answered_or_refused(stack: Stack, path: str, body: Any) -> None:
    well_answered(stack.http.post(path, json=body))


@examples(40)
@given(
    path=st.sampled_from(POSTED),
    body=st.binary(max_size=60),
    kind=st.sampled_from(["application/json", "multipart/form-data; boundary=x", "text/plain", "", "application/json; charset=utf-7"]),
)  # fmt: skip
def test_any_body_is_answered_or_refused(stack: Stack, path: str, body: bytes, kind: str) -> None:
    well_answered(stack.http.post(path, content=body, headers={"content-type": kind}))


# Calls, as our own description of the control routes has them.


@contextmanager
def described(stack: Stack) -> Iterator[list[tuple[str, str, dict[str, Any]]]]:
    document = stack.http.get("/openapi.json").json()
    yield [
        (method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def filled(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    assert schema["type"] == "string"
    return st.one_of(st.text(max_size=20), st.sampled_from(["chat", MODEL, "a/b", "../x", "%2f", "\0"]))


@examples(150)
@given(data=st.data())
def test_control_routes_keep_to_their_description(stack: Stack, data: st.DataObject) -> None:
    with described(stack) as operations:
        method, path, operation = data.draw(st.sampled_from(operations))
    query = {}
    for parameter in operation.get("parameters", ()):
        value = data.draw(filled(parameter["schema"]), label=parameter["name"])
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(value or "x", safe=""))
        else:
            query[parameter["name"]] = value
    body = None
    if (takes := operation.get("requestBody")) is not None:
        (kind,) = takes["content"]
        value = data.draw(
            st.one_of(OBJECTS, VALUES, st.sampled_from([POLICY, FLEET, "{", "a: *b", "!!python/x 1"]))
        )
        body = (
            json.dumps(value) if kind == "application/json" or not isinstance(value, str) else value
        ).encode()
    answer = stack.http.request(method, path, params=query, content=body)
    said = operation["responses"].get(str(answer.status_code))
    assert said is not None, (method, path, answer.status_code, answer.text)
    kinds = said.get("content") or operation["responses"]["200"]["content"]
    assert answer.headers["content-type"].split(";")[0] in kinds
    if "application/json" in kinds:
        answer.json()


@examples(60)
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"]),
    path=st.sampled_from(
        [*POSTED, "/healthz", "/readyz", "/metrics", "/status", "/-/policy", "/-/", "/docs", "/"]
    ),
)
def test_any_method_is_answered_or_refused(stack: Stack, method: str, path: str) -> None:
    well_answered(stack.http.request(method, path)) if method != "HEAD" else stack.http.head(path)
