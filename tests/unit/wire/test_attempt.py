"""What becomes of odd answers of backends: of which kind they are, and where they end."""

import asyncio
import gzip
import json

import pytest

from gateway.core.policy import Timeouts
from gateway.wire import attempt, gathering
from gateway.wire.upstream import UpstreamError
from tests.asgi import Conversation
from tests.relaying import Bench, body
from tests.scripted import EVENTS, NEVER, Act, answer, stream

pytestmark = pytest.mark.usefixtures("piped")

COMMENT = b": keep-alive\n\n"
PING = b": ping\n\n"
WORD = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]}\n\n'
OTHER = b'data: {"id":"c","choices":[{"index":1,"delta":{"content":"y"},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"engine died","code":500}}\n\n'
RESET = UpstreamError("headers", "reset", "scripted")

DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
CREATED = b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n'
PIECE = (
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1}\n\n'
)
COMPLETED = b'event: response.completed\ndata: {"type":"response.completed","sequence_number":2}\n\n'
FAILED = b'event: response.failed\ndata: {"type":"response.failed","sequence_number":2}\n\n'
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"m"}}\n\n'
BROKEN = b'event: error\ndata: {"type":"error","sequence_number":2,"code":"server_error","message":"m"}\n\n'


def late(gate, act):
    """The same answer once the gate is open."""
    act.before.insert(0, gate)
    return act


def other(kind, said, status=200):
    return Act(status=status, headers=[(b"content-type", kind)], body=[said])


async def after_a_comment(bench, gate, **options):
    """The rest of a stream for which the gateway had to say something before a backend did."""
    client = bench.open(**options)
    await client.until(lambda it: COMMENT in it.body)
    gate.set()
    await client.end()
    assert client.complete
    assert client.status == 200
    return client.body.replace(COMMENT, b"")


def errors_in(said):
    """Events of a stream that tell of an error: their names and what they say."""
    found = []
    for event in filter(None, said.split(b"\n\n")):
        *name, data = event.split(b"\n")
        data = data.removeprefix(b"data: ")
        if b'"error"' in data:
            found.append((b"".join(name), json.loads(data)))
    return found


# Of which kind an answer is.


@pytest.mark.parametrize(
    "act",
    [
        lambda: answer(b'{"choices":[]}'),
        lambda: other(b"audio/wav", b"RIFF"),
        lambda: other(b"text/html", b"<html>"),
        lambda: other(b"text/plain", b""),
        lambda: Act(headers=[EVENTS, (b"content-encoding", b"gzip")], body=[gzip.compress(WORD)]),
    ],
    ids=["json", "audio", "html", "empty", "compressed"],
)
async def test_an_answer_of_another_kind_is_not_put_into_a_stream_that_has_begun(act):
    gate = asyncio.Event()
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), a=[late(gate, act())], b=[stream(WORD, LAST, DONE)])
    assert await after_a_comment(bench, gate) == WORD + LAST + DONE
    assert [one.error for one in bench.record.attempts] == ["protocol", ""]


async def test_a_compressed_refusal_to_a_stream_that_has_begun_is_a_refusal():
    gate = asyncio.Event()
    act = answer(gzip.compress(b'{"error":{}}'), 400, [(b"content-encoding", b"gzip")])
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), a=[late(gate, act)], b=[])
    [(_, told)] = errors_in(await after_a_comment(bench, gate))
    assert told["error"]["message"] == "backend a answered with status 400"
    assert [one.error for one in bench.record.attempts] == ["status:400"]
    assert bench.record.outcome.status == "client_error"


STRANGE = pytest.mark.parametrize(
    "act",
    [
        lambda: other(b"text/html", b"<html>"),
        lambda: other(b"text/plain", b""),
        lambda: other(b"application/json", b"<html>"),
        lambda: other(b"application/json", b""),
        lambda: other(b"application/json", b"[]"),
        lambda: answer(b"{}", 302, [(b"location", b"http://elsewhere/")]),
        lambda: other(b"text/html", b"moved", 307),
        lambda: other(b"application/json", b"", 304),
    ],
    ids=["html", "empty", "no-json", "no-body", "no-object", "redirect", "moved", "not-modified"],
)
"""What no server of models answers to a prompt, but something before it may."""


@STRANGE
@pytest.mark.parametrize("wanted", [True, False], ids=["stream", "whole"])
async def test_what_is_no_answer_to_a_prompt_is_a_fault_of_the_backend(act, wanted):
    bench = Bench(a=[act()], b=[answer(b'{"choices":[]}')])
    client = await bench.talk(body(stream=wanted))
    assert (client.status, client.body) == (200, b'{"choices":[]}')
    assert [one.error for one in bench.record.attempts] == ["protocol", ""]
    assert bench.record.outcome.status == "ok"


@STRANGE
async def test_where_there_is_no_other_the_client_gets_it_and_the_record_knows_better(act):
    given = act()
    bench = Bench(a=[given])
    client = await bench.talk(body())
    assert (client.status, client.body) == (given.status, given.body[0])
    outcome = bench.record.outcome
    assert (outcome.status, outcome.http_status, outcome.error) == (
        "upstream_error",
        given.status,
        "protocol",
    )


@STRANGE
async def test_elsewhere_it_may_be_an_answer(act):
    given = act()
    bench = Bench(a=[given])
    client = await bench.talk(body(), path="/v1/some/other")
    assert (client.status, client.body) == (given.status, given.body[0])
    assert bench.record.outcome.status == "ok"


async def test_an_answer_whose_fields_are_strange_is_still_one():
    said = b'{"id":5,"usage":"none","choices":{}}'
    bench = Bench(a=[answer(said)])
    assert (await bench.talk(body())).body == said
    assert bench.record.outcome.status == "ok"


async def test_a_stream_that_only_such_answers_came_for_ends_with_an_error():
    gate = asyncio.Event()
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), a=[late(gate, answer(b"{}"))])
    ((name, said),) = errors_in(await after_a_comment(bench, gate))
    assert (name, said["error"]["code"]) == (b"", "upstream_error")
    assert bench.record.outcome.status == "upstream_error"


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/v1/audio/speech", {"input": "hi"}),
        ("/v1/embeddings", {"input": "hi"}),
        ("/v1/some/other", {}),
        ("/v1/rerank", {"query": "q", "documents": ["d"]}),
    ],
)
async def test_no_comment_is_sent_where_no_stream_of_events_may_come(path, given):
    gate = asyncio.Event()
    bench = Bench(
        timeouts=Timeouts(keep_alive=0.001), a=[late(gate, other(b"audio/wav", b"RIFF"))], b=[], c=[]
    )
    client = bench.open(json.dumps({"model": "m", "stream": True, **given}).encode(), path=path)
    await bench.upstream.sent.wait()
    await asyncio.sleep(0.02)  # twenty intervals
    assert client.sent == []
    gate.set()
    await client.end()
    assert client.body == b"RIFF"
    assert client.headers[b"content-type"] == b"audio/wav"


@pytest.mark.parametrize("kind", [b"Application/JSON", b"application/json; charset=utf-8"])
async def test_however_json_is_spelled_it_is_held_whole(kind):
    bench = Bench(a=[other(kind, b'{"usage":{"completion_tokens":7}}')])
    await bench.talk(body())
    assert bench.record.outcome.usage.output_tokens == 7


@pytest.mark.parametrize("status", [99, 101, 600, 999])
@pytest.mark.parametrize("wanted", [True, False], ids=["stream", "whole"])
async def test_a_status_that_is_none_is_a_fault_of_the_backend(status, wanted):
    bench = Bench(
        a=[answer(b"{}", status)], b=[stream(WORD, LAST, DONE) if wanted else answer(b'{"id":"b"}')]
    )
    client = await bench.talk(body(stream=wanted))
    assert client.status == 200
    assert [one.error for one in bench.record.attempts] == ["protocol", ""]


async def test_where_every_status_is_none_the_client_gets_one_all_the_same():
    bench = Bench(a=[answer(b"{}", 999)])
    client = await bench.talk(body())
    assert client.status == 502
    assert json.loads(client.body)["error"]["code"] == "upstream_error"


@pytest.mark.parametrize(
    "said", [b"<html>Bad Gateway</html>", b"", b'{"detail":"nope"}', b"Internal\r\nServer Error"]
)
async def test_after_a_comment_an_error_that_is_no_clients_becomes_one(said):
    gate = asyncio.Event()
    act = late(gate, other(b"text/html", said, 502))
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), max_attempts=1, a=[act])
    ((_, told),) = errors_in(await after_a_comment(bench, gate))
    assert told["error"]["type"] == "server_error"
    assert told["error"]["message"]


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
async def test_a_target_that_is_no_path_goes_nowhere(method):
    bench = Bench(a=[])
    client = await bench.talk(b"", method=method, path="*")
    assert client.status == 400
    assert json.loads(client.body)["error"]["type"] == "invalid_request_error"
    assert bench.record.outcome.status == "client_error"


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream", b"audio/wav"])
@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("length", [b"1234", None])
async def test_an_answer_to_head_tells_the_length_that_the_backend_told(kind, status, length):
    headers = [(b"content-type", kind), *([(b"content-length", length)] if length else [])]
    bench = Bench(a=[Act(status=status, headers=headers)])
    client = await bench.talk(b"", method="HEAD", path="/x")
    assert (client.status, client.body) == (status, b"")
    assert client.headers.get(b"content-length") == length
    assert bench.upstream.order == ["a"]


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_that_has_no_body_tells_no_length(status):
    bench = Bench(a=[Act(status=status, headers=[(b"content-length", b"7")])])
    client = await bench.talk(b"", method="GET", path="/x")
    assert (client.status, client.body) == (status, b"")
    assert b"content-length" not in client.headers


async def test_an_error_of_ours_to_head_tells_the_length_of_what_is_left_out():
    bench = Bench(a=[])
    client = await bench.talk(b"", method="HEAD", path="*")
    assert client.headers[b"content-length"] == b"%d" % len(client.body)


# Where a stream ends.

ENDINGS = {
    "done": ("/v1/chat/completions", {}, [WORD, LAST, DONE]),
    "choice": ("/v1/chat/completions", {}, [WORD, LAST]),
    "choices": ("/v1/chat/completions", {"n": 2}, [WORD, LAST, OTHER]),
    "usage": ("/v1/chat/completions", {"stream_options": {"include_usage": True}}, [WORD, LAST, USAGE]),
    "messages": ("/v1/messages", {}, [DELTA, STOP]),
    "responses": ("/v1/responses", {}, [CREATED, PIECE, COMPLETED]),
}
NO_ENDINGS = {
    "word": ("/v1/chat/completions", {}, [WORD]),
    "one-of-two": ("/v1/chat/completions", {"n": 2}, [WORD, LAST]),
    "one-twice": ("/v1/chat/completions", {"n": 2}, [WORD, LAST, LAST]),
    "no-usage": ("/v1/chat/completions", {"stream_options": {"include_usage": True}}, [WORD, LAST]),
    "messages": ("/v1/messages", {}, [DELTA]),
    "responses": ("/v1/responses", {}, [CREATED, PIECE]),
}


def asked(**fields):
    return json.dumps(
        {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": "hi"}],
            "input": "hi",
            **fields,
        }
    ).encode()


@pytest.mark.parametrize(("path", "fields", "events"), ENDINGS.values(), ids=ENDINGS)
async def test_a_stream_with_its_end_is_good(path, fields, events):
    bench = Bench(a=[stream(*events)])
    client = await bench.talk(asked(**fields), path=path)
    assert client.body == b"".join(events)
    assert client.complete
    assert (bench.record.outcome.status, bench.record.attempts[0].error) == ("ok", "")


@pytest.mark.parametrize(("path", "fields", "events"), NO_ENDINGS.values(), ids=NO_ENDINGS)
@pytest.mark.parametrize("how", ["ends", "breaks"])
async def test_a_stream_without_its_end_says_so_as_its_clients_read_it(path, fields, events, how):
    bench = Bench(a=[stream(*events, *([RESET] if how == "breaks" else []))], b=[stream(*events)])
    client = await bench.talk(asked(**fields), path=path)
    assert client.body.startswith(events[0])
    ((name, said),) = errors_in(client.body)
    assert said["error"]["code"] == "upstream_broken_off"
    if "messages" in path or "responses" in path:
        assert (name, said["type"]) == (b"event: error", "error")
    else:
        assert (name, list(said)) == (b"", ["error"])
    if "responses" in path:
        assert (said["code"], said["sequence_number"]) == ("upstream_broken_off", 2)
    assert client.complete
    assert b"[DONE]" not in client.body
    assert bench.record.outcome.status == "truncated"
    assert bench.record.outcome.error == ("reset" if how == "breaks" else "ended_early")


@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("/v1/responses", [CREATED, PIECE, FAILED]),
        ("/v1/responses", [CREATED, PIECE, BROKEN]),
        ("/v1/messages", [DELTA, OVERLOADED]),
    ],
    ids=["failed", "error", "messages"],
)
async def test_a_stream_that_tells_of_its_failure_passes_as_it_is_and_counts_as_one(path, events):
    bench = Bench(a=[stream(*events)])
    client = await bench.talk(asked(), path=path)
    assert client.body == b"".join(events)
    assert bench.record.outcome.status == "truncated"
    assert bench.record.attempts[0].error == "error_event"


@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("/v1/chat/completions", [WORD, LAST, DONE]),
        ("/v1/messages", [DELTA, STOP]),
        ("/v1/responses", [CREATED, COMPLETED]),
    ],
)
@pytest.mark.parametrize("after", ["reset", "silence", "both"])
async def test_what_becomes_of_a_connection_after_the_end_of_the_answer_is_no_matter(path, events, after):
    rest = {"reset": [RESET], "silence": [NEVER], "both": [b": bye\n\n", RESET]}[after]
    bench = Bench(a=[stream(*events, *rest)], b=[], timeouts=Timeouts(idle=0.05))
    client = await bench.talk(asked(), path=path)
    assert client.body == b"".join(events) + (b": bye\n\n" if after == "both" else b"")
    assert client.complete
    assert (bench.record.outcome.status, bench.record.attempts[0].error) == ("ok", "")
    assert bench.record.attempts[0].phase == "done"
    assert bench.idle


async def test_an_end_that_its_client_has_not_read_in_time_is_none():
    bench = Bench(a=[stream(WORD, LAST + DONE, NEVER)], timeouts=Timeouts(total=0.2))
    client = bench.open()
    client.reads_after = 10.0
    await client.end()
    assert bench.record.outcome.status == "truncated"
    assert bench.record.outcome.error == "timeout:total"
    assert bench.idle


@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
@pytest.mark.parametrize("counts", [True, False])
async def test_after_half_an_event_the_error_stands_on_lines_of_its_own(counts, end):
    half = b'data: {"id":"c","choi'
    bench = Bench(a=[stream(WORD, half, *end)])
    client = await bench.talk(asked(stream_options={"include_usage": counts}))
    told = client.body.removeprefix(WORD).removeprefix(half + b"\n\n")
    assert json.loads(told.removeprefix(b"data: "))["error"]["code"] == "upstream_broken_off"
    assert (half + b"\n" in client.body) is counts


@pytest.mark.parametrize(
    "end", [[RESET], [NEVER], [b'data: {"id', RESET], []], ids=["breaks", "hangs", "half", "ends"]
)
@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("/v1/chat/completions", [WORD, ERROR]),
        ("/v1/responses", [CREATED, PIECE, FAILED]),
        ("/v1/messages", [DELTA, OVERLOADED]),
    ],
)
async def test_a_server_that_tells_of_its_failure_and_breaks_off_is_not_told_of_again(path, events, end):
    bench = Bench(a=[stream(*events, *end)], b=[], timeouts=Timeouts(idle=0.05))
    client = await bench.talk(asked(), path=path)
    assert b"upstream_broken_off" not in client.body
    assert client.body.startswith(b"".join(events))
    assert client.complete
    assert bench.record.attempts[0].error == "error_event"
    assert bench.record.outcome.status == "truncated"


@pytest.mark.parametrize("border", [b"", b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
@pytest.mark.parametrize("counts", [True, False])
async def test_the_end_of_an_answer_counts_without_the_lines_behind_it(border, end, counts):
    events = [WORD, LAST, USAGE, DONE.rstrip() + border]
    bench = Bench(a=[stream(*events, *end)])
    client = await bench.talk(asked(stream_options={"include_usage": counts}))
    assert client.body == b"".join(events if counts else [WORD, LAST, events[-1]])
    assert client.complete
    assert (bench.record.outcome.status, bench.record.attempts[0].phase) == ("ok", "done")


@pytest.mark.parametrize("size", [1, 4, 20, len(USAGE) - 3])
@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
async def test_a_part_of_the_usage_that_nobody_asked_for_is_an_end_too_early_and_not_passed_on(size, end):
    bench = Bench(a=[stream(WORD, LAST, USAGE[:size], *end)])
    client = await bench.talk()
    assert client.body.startswith(WORD + b'data: {"error":')
    assert len(errors_in(client.body)) == 1
    assert bench.record.outcome.status == "truncated"


@pytest.mark.parametrize("border", [b"", b"\n", b"\r\n"], ids=repr)
async def test_usage_that_nobody_asked_for_is_left_out_without_the_lines_behind_it(border):
    bench = Bench(a=[stream(WORD, LAST, USAGE.rstrip() + border)])
    client = await bench.talk()
    assert client.body == WORD + LAST
    assert bench.record.outcome.status == "ok"
    assert bench.record.outcome.usage.output_tokens == 3


@pytest.mark.parametrize("cut", [b"dat", b"data: [DO", b'data: {"id"', b"event: x"])
async def test_after_all_was_said_half_an_event_is_an_end_too_early(cut):
    bench = Bench(a=[stream(WORD, LAST, USAGE, cut)])
    client = await bench.talk(asked(stream_options={"include_usage": True}))
    assert client.body.startswith(WORD + LAST + USAGE + cut + b"\n\ndata: {")
    assert bench.record.outcome.error == "ended_early"


@pytest.mark.parametrize("cut", [b": by", b"\n", b": bye\n"])
async def test_after_all_was_said_half_a_comment_is_no_matter(cut):
    bench = Bench(a=[stream(WORD, LAST, cut)])
    client = await bench.talk()
    assert client.body == WORD + LAST + cut
    assert bench.record.outcome.status == "ok"


@pytest.mark.parametrize(
    "parts",
    [
        [ERROR, DONE],
        [ERROR + DONE],
        [ERROR[:9], ERROR[9:] + DONE[:3], DONE[3:]],
        [ERROR, DONE[:3], DONE[3:]],
    ],
)
@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
async def test_an_error_that_a_stream_begins_with_is_given_with_what_follows_however_it_comes(parts, end):
    bench = Bench(a=[stream(*parts, *end)], max_attempts=1)
    client = await bench.talk()
    assert client.body == ERROR + DONE
    assert bench.record.attempts[0].error == "error_event"


async def test_who_begins_with_an_error_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gathering, "REST_SECONDS", 0.01)
    bench = Bench(a=[stream(ERROR, NEVER)], b=[stream(WORD, LAST, DONE)])
    assert (await bench.talk()).body == WORD + LAST + DONE
    bench = Bench(a=[stream(ERROR, NEVER)])
    assert (await bench.talk()).body == ERROR


async def test_of_what_follows_an_error_no_more_is_kept_than_of_any(monkeypatch):
    monkeypatch.setattr(attempt, "ERROR_LIMIT", 100)
    bench = Bench(a=[stream(ERROR, *[PING] * 50, NEVER)])
    assert len((await bench.talk()).body) < len(ERROR) + 200


async def test_an_error_that_is_longer_than_any_is_not_kept(monkeypatch):
    monkeypatch.setattr(attempt, "ERROR_LIMIT", 100)
    bench = Bench(a=[other(b"text/plain", b"x" * 101, 500)])
    client = await bench.talk(body())
    assert (client.status, bench.record.attempts[0].error) == (502, "too_large")
    assert b"xxx" not in client.body
    assert bench.idle


@pytest.mark.parametrize("border", [b"", b"\n"], ids=repr)
async def test_an_error_without_the_lines_behind_it_is_one(border):
    bench = Bench(a=[stream(ERROR.rstrip() + border)], b=[stream(WORD, LAST, DONE)])
    assert (await bench.talk()).body == WORD + LAST + DONE
    assert [one.error for one in bench.record.attempts] == ["error_event", ""]


@pytest.mark.parametrize("kind", [b"application/jsonl", b"application/json-seq", b"text/event-streams"])
async def test_types_that_begin_alike_are_others(kind):
    gate = asyncio.Event()
    act = Act(headers=[(b"content-type", kind)], body=[b'{"a":1}\n', gate, b'{"a":2}\n'])
    bench = Bench(a=[act])
    client = bench.open(b"{}", path="/v1/some/other")
    await client.until(lambda it: it.body == b'{"a":1}\n')
    gate.set()
    await client.end()
    assert client.body == b'{"a":1}\n{"a":2}\n'


HALF_FIRST = b'data: {"id":"c","obj'


@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
async def test_nothing_is_promised_before_there_is_an_event_to_give(end):
    bench = Bench(a=[stream(HALF_FIRST, *end)])
    client = await bench.talk()
    assert client.status == 502
    assert json.loads(client.body)["error"]["code"] == "upstream_error"
    assert bench.record.outcome.http_status == 502


@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
async def test_after_half_an_event_that_was_held_back_another_backend_answers_with_its_own_head(end):
    busy = answer(b"{}", 429, headers=[(b"retry-after", b"7")])
    bench = Bench(a=[stream(HALF_FIRST, *end)], b=[busy])
    client = await bench.talk()
    assert (client.status, client.headers[b"retry-after"]) == (429, b"7")
    first, second = stream(HALF_FIRST, *end), stream(WORD, LAST, DONE)
    first.headers = [*first.headers, (b"x-engine", b"A")]
    bench = Bench(a=[first], b=[second])
    client = await bench.talk()
    assert client.body == WORD + LAST + DONE
    assert client.headers[b"x-specroute-backend"] == b"b"
    assert b"x-engine" not in client.headers


# Comments.


@pytest.mark.parametrize("odd", [[PING], [PING, PING], [b"event: x\n\n"], [b"retry: 5\n\n", PING]])
@pytest.mark.parametrize("end", [[RESET], []], ids=["breaks", "ends"])
async def test_after_a_backends_comments_another_backend_still_takes_over(odd, end):
    bench = Bench(a=[stream(*odd, *end)], b=[stream(WORD, LAST, DONE)])
    client = await bench.talk()
    assert client.body == b"".join(odd) + WORD + LAST + DONE
    assert bench.upstream.order == ["a", "b"]
    assert bench.record.outcome.status == "ok"


@pytest.mark.parametrize("half", [b": pi", b"data: {", b"data"])
async def test_after_half_an_event_none_does(half):
    bench = Bench(a=[stream(PING + half, RESET)], b=[])
    client = await bench.talk(body(stream=True, stream_options={"include_usage": True}))
    assert client.body.startswith(PING + half)
    assert len(bench.upstream.requests) == 1
    assert bench.record.outcome.status == "truncated"


async def test_nothing_but_comments_is_no_answer():
    bench = Bench(a=[stream(PING)], b=[stream(PING)])
    client = await bench.talk()
    assert client.body.startswith(PING + PING)
    ((_, said),) = errors_in(client.body)
    assert said["error"]["code"] == "upstream_error"
    assert bench.record.outcome.status == "upstream_error"


@pytest.mark.parametrize("kind", [b"application/json", b"text/html"])
async def test_no_comment_comes_between_the_head_of_another_answer_and_its_body(kind):
    gate = asyncio.Event()
    act = other(kind, b'{"ok":1}')
    act.body.insert(0, gate)
    bench = Bench(a=[act], timeouts=Timeouts(keep_alive=0.05))
    client = bench.open(body(stream=True))
    await bench.upstream.sent.wait()
    await asyncio.sleep(0.2)  # four intervals
    gate.set()
    await client.end()
    assert (client.status, client.body) == (200, b'{"ok":1}')


# Clients that leave.


@pytest.mark.parametrize(("sent", "phase"), [(False, "connect"), (True, "sent")])
async def test_a_client_that_leaves_before_an_answer_is_told_of_with_how_far_its_request_was(sent, phase):
    bench = Bench(a=[stream(before=[NEVER])])
    client = bench.open()
    await bench.upstream.sent.wait()
    bench.upstream.requests[0].sent.done = sent
    client.leave()
    await client.end()
    assert bench.record.attempts[0].phase == phase


async def test_a_client_that_leaves_with_the_whole_answer_was_answered(monkeypatch):
    monkeypatch.setattr(Conversation, "piped", True)
    bench = Bench(a=[stream(WORD, LAST, DONE)])
    client = bench.open()
    take = client.take

    def leaves_after_the_last(message):
        take(message)
        if message.get("more_body") is False:
            client.leave()

    client.take = leaves_after_the_last
    await client.end()
    assert client.complete
    assert (bench.record.outcome.status, bench.record.outcome.http_status) == ("ok", 200)
