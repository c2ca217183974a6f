"""Which requests go to another server, or to the same one again, after a failure."""

import json

import pytest

from gateway.wire.repeating import repeatable
from tests.relaying import Bench, body
from tests.scripted import answer, fails

CHANGING = [
    ("POST", "/v1/files", {}),
    ("POST", "/v1/load_lora_adapter", {}),
    ("POST", "/sleep", {}),
    ("PUT", "/v1/x", {}),
    ("DELETE", "/v1/files/f1", {}),
    ("POST", "/v1/responses", {"store": True}),
    ("POST", "/v1/responses", {"background": True}),
]


def sent(fields):
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


@pytest.mark.parametrize(
    ("method", "endpoint", "kept", "expected"),
    [
        ("POST", "chat", False, True),
        ("POST", "completions", False, True),
        ("POST", "messages", False, True),
        ("POST", "responses", False, True),
        ("POST", "responses", True, False),
        ("GET", "other", False, True),
        ("HEAD", "other", False, True),
        ("OPTIONS", "other", False, True),
        ("POST", "other", False, False),
        ("PUT", "other", False, False),
        ("DELETE", "other", False, False),
        ("POST", "embeddings", False, True),
        ("POST", "rerank", False, True),
        ("POST", "tokenize", False, True),
        ("POST", "audio", False, True),
    ],
)
def test_what_computes_and_what_only_asks_may_be_sent_again(method, endpoint, kept, expected):
    assert repeatable(method, endpoint, kept=kept) is expected


@pytest.mark.parametrize("first", [fails("sent", "reset"), answer(b"busy", 503), answer(b"no", 404)])
@pytest.mark.parametrize(
    ("method", "path", "fields"),
    CHANGING,
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_may_change_something_is_sent_to_one_server_only(method, path, fields, first):
    bench = Bench(a=[first], b=[answer(b"{}")])
    client = await bench.talk(sent(fields), method=method, path=path)
    assert bench.upstream.order == ["a"]
    assert client.status == (first.status if first.body else 502)
    assert not bench.upstream.requests[0].repeatable


async def test_where_no_server_has_seen_it_another_one_gets_it():
    bench = Bench(a=[fails("connect", "connect")], b=[answer(b"{}")])
    client = await bench.talk(sent({}), path="/v1/load_lora_adapter")
    assert (client.status, bench.upstream.order) == (200, ["a", "b"])


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/score"])
async def test_what_computes_goes_elsewhere(path):
    bench = Bench(a=[fails("sent", "reset")], b=[answer(b"{}")])
    client = await bench.talk(body() if "chat" in path else sent({"store": False}), path=path)
    assert (client.status, bench.upstream.order) == (200, ["a", "b"])
    assert all(request.repeatable for request in bench.upstream.requests)


async def test_a_question_goes_elsewhere():
    bench = Bench(a=[fails("sent", "reset")], b=[answer(b"{}")])
    assert (await bench.talk(b"", method="GET", path="/v1/responses/r1")).status == 200
