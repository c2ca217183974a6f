import asyncio
import json
import re
from dataclasses import replace

import pytest

from gateway.core.classify import Classification
from gateway.core.fleet import Backend
from gateway.core.labels import LabelRule
from gateway.core.outcome import Attempt
from gateway.core.policy import ClassifierSettings, Timeouts, Waiting
from gateway.runtime import clock
from gateway.wire.upstream import UpstreamError
from tests.asgi import Conversation
from tests.relaying import Bench, body
from tests.scripted import answer, fails, stream

pytestmark = pytest.mark.usefixtures("piped")

ROLE = b'data: {"id":"c","choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
WORD = b'data: {"id":"c","choices":[{"delta":{"content":"\xc3\xa4"},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"c","choices":[{"delta":{"content":"."},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"
ERROR = b'data: {"error":{"message":"engine died","code":500}}\n\n'
WHOLE = (ROLE, WORD, LAST, USAGE, DONE)
RESET = UpstreamError("headers", "reset", "scripted")


async def test_a_stream_passes_byte_for_byte_less_the_usage_nobody_asked_for():
    bench = Bench(a=[stream(*WHOLE)])
    client = await bench.talk()
    assert client.status == 200
    assert client.body == ROLE + WORD + LAST + DONE
    assert client.complete
    assert json.loads(bench.upstream.requests[0].body)["stream_options"] == {"include_usage": True}
    assert bench.record.outcome.status == "ok"
    assert bench.record.outcome.usage.output_tokens == 3
    assert bench.record.outcome.events == 2
    assert bench.record.backend == "a"
    assert bench.idle


async def test_the_pipe_is_used_where_there_is_one(piped):
    bench = Bench(a=[stream(*WHOLE)])
    client = await bench.talk()
    assert client.poured == (4 if piped else 0)
    unused = Bench(a=[stream(*WHOLE)])
    unused.relay = replace(unused.relay, pipe=False)
    client = await unused.talk()
    assert client.poured == 0
    assert client.body == ROLE + WORD + LAST + DONE


async def test_the_server_is_told_of_streams(piped):
    bench = Bench(a=[stream(*WHOLE), answer()])
    assert (await bench.talk()).streams is piped
    assert not (await bench.talk()).streams


async def test_classifying_deciding_and_the_end_of_a_stream_wait_for_turns_of_their_own(piped):
    bench = Bench(a=[stream(*WHOLE), answer()])
    assert [(await bench.talk()).turns for _ in range(2)] == ([3, 2] if piped else [0, 0])


async def test_usage_that_was_asked_for_is_passed_on_and_the_body_goes_out_as_it_came():
    bench = Bench(a=[stream(*WHOLE)])
    given = body(stream=True, stream_options={"include_usage": True})
    client = await bench.talk(given)
    assert client.body == b"".join(WHOLE)
    assert bench.upstream.requests[0].body == given


async def test_arguments_of_a_tool_that_come_in_one_event_arrive_as_they_came():
    call = b'data: {"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{\\"q\\": \\"\xc3\xa4\\"}"}},{"index":1,"id":"t2","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}\n\n'
    last = b'data: {"id":"c","choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":" "}}]},"finish_reason":"tool_calls"}]}\n\n'
    bench = Bench(a=[stream(ROLE + call, last + USAGE, DONE)])
    client = await bench.talk()
    assert client.body == ROLE + call + last + DONE
    assert bench.record.outcome.status == "ok"


async def test_reasoning_and_fields_of_tomorrow_arrive_as_they_came():
    thoughts = b'data: {"id":"c","choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm","new":1},"finish_reason":null}]}\n\n'
    last = (
        b'data: {"id":"c","new":[],"choices":[{"delta":{"content":"x"},"finish_reason":"stop","new":{}}]}\n\n'
    )
    bench = Bench(a=[stream(ROLE + thoughts, thoughts, thoughts + last + USAGE, DONE)])
    client = await bench.talk()
    assert client.body == ROLE + thoughts * 3 + last + DONE


async def test_a_whole_answer_passes_byte_for_byte_with_our_headers():
    said = b'{"id":"x","model":"m","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4},"unknown":1.50}'
    bench = Bench(a=[answer(said)])
    given = body(unknown={"a": 1})
    client = await bench.talk(
        given, headers=[(b"x-request-id", b"r-1"), (b"authorization", b"Bearer canary")]
    )
    assert client.body == said
    assert bench.upstream.requests[0].body == given
    headers = client.headers
    assert headers[b"x-request-id"] == b"r-1"
    assert headers[b"x-specroute-backend"] == b"a"
    assert headers[b"x-specroute-workload"] == bench.record.classification.label.encode()
    assert headers[b"x-specroute-policy"] == b"p1"
    assert headers[b"content-length"] == str(len(said)).encode()
    sent = dict(bench.upstream.requests[0].headers)
    assert sent[b"x-request-id"] == b"r-1"
    assert b"authorization" not in sent
    assert bench.record.outcome.usage.output_tokens == 4
    assert bench.record.outcome.finish_reason == "stop"


async def test_what_a_good_answer_turns_out_to_be_is_recorded():
    for said, nature in (
        ("```python\\nprint(1)\\n```", "code"),
        ("El cielo es azul porque la luz", "multilingual"),
    ):
        text = f'{{"choices":[{{"message":{{"content":"{said}"}},"finish_reason":"stop"}}]}}'.encode()
        bench = Bench(a=[answer(text)])
        await bench.talk(body())
        assert bench.record.outcome.nature == nature
    failed = Bench(a=[answer(b'{"error":{"message":"no"}}', 400)])
    await failed.talk(body())
    assert failed.record.outcome.nature == ""


async def test_what_a_sessions_answers_were_is_known_to_its_next_request():
    code = (
        b'{"id":"r1","choices":[{"message":{"content":"```python\\nprint(1)\\n```"},"finish_reason":"stop"}]}'
    )
    bench = Bench(a=[answer(code), answer(code), answer(code)])
    asked = []

    class Guess:
        def labels(self, requests):
            scores = {"chat": 0.5, "code": 0.45, "math": 0.05}
            return [Classification("chat", 0.5, "model:m", scores) for _ in requests]

    bench.relay = replace(bench.relay, classifier=Guess())
    for session in (b"s1", b"s1", b"s2"):
        await bench.talk(body(), headers=[(b"x-session-id", session)])
        asked.append(bench.records[-1].classification)
    assert [(one.label, one.source) for one in asked] == [
        ("chat", "model:m"),
        ("code", "session"),
        ("chat", "model:m"),
    ]


async def test_a_label_behind_the_model_is_taken_off_and_taken_for_a_hint():
    bench = Bench(backends=[Backend("a", "http://a", "target", "target")], a=[answer()])
    await bench.talk(body(model="target:math"))
    assert json.loads(bench.upstream.requests[0].body)["model"] == "target"
    assert (bench.record.classification.label, bench.record.classification.source) == ("math", "hint")


async def test_rules_of_the_policy_see_the_path_as_it_came_without_the_query():
    bench = Bench(a=[answer()])
    rules = (LabelRule("old", path=re.compile("^/old/a%2Fb$")),)
    bench.policy = replace(bench.policy, classifier=ClassifierSettings(rules=rules))
    await bench.talk(body(), path="/old/a%2Fb", query=b"c=/v1")
    assert bench.record.classification.label == "old"


async def test_the_alias_becomes_the_name_the_server_knows():
    bench = Bench(backends=[Backend("a", "http://a", "target", "served", api_key="canary")], a=[answer()])
    await bench.talk(body())
    request = bench.upstream.requests[0]
    assert json.loads(request.body)["model"] == "served"
    assert dict(request.headers)[b"authorization"] == b"Bearer canary"


async def test_trace_context_goes_on_with_the_attempt_as_parent():
    bench = Bench(a=[answer()])
    trace_id = b"0af7651916cd43dd8448eb211c80319c"
    await bench.talk(
        body(),
        headers=[(b"traceparent", b"00-" + trace_id + b"-b7ad6b7169203331-01"), (b"tracestate", b"a=1")],
    )
    sent = dict(bench.upstream.requests[0].headers)
    record = bench.record
    assert record.trace.trace_id.encode() == trace_id
    assert record.trace.parent_id == "b7ad6b7169203331"
    assert sent[b"traceparent"] == f"00-{record.trace.trace_id}-{record.attempts[0].span_id}-01".encode()
    assert sent[b"tracestate"] == b"a=1"


@pytest.mark.parametrize(
    "first",
    [
        fails("connect", "connect"),
        fails("connect", "timeout:connect"),
        fails("sent", "reset"),
        answer(b"busy", 503),
        answer(b"engine died", 500),
        stream(RESET),
        stream(ERROR, DONE),
        stream(),
    ],
    ids=[
        "connect",
        "connect-timeout",
        "reset",
        "503",
        "500",
        "reset-before-body",
        "error-first",
        "empty-stream",
    ],
)
async def test_before_the_first_byte_another_backend_takes_over(first):
    bench = Bench(a=[first], b=[stream(*WHOLE)])
    client = await bench.talk()
    assert bench.upstream.order == ["a", "b"]
    assert client.body == ROLE + WORD + LAST + DONE
    assert [attempt.error == "" for attempt in bench.record.attempts] == [False, True]
    assert bench.record.backend == "b"
    assert bench.record.outcome.status == "ok"
    assert bench.idle


async def test_a_whole_answer_that_breaks_in_the_middle_is_given_by_another_backend():
    bench = Bench(a=[answer(b'{"id":')], b=[answer(b'{"id":"b"}')])
    bench.upstream._acts["a"][0].body.append(RESET)
    client = await bench.talk(body())
    assert client.body == b'{"id":"b"}'
    assert bench.upstream.order == ["a", "b"]


async def test_the_request_is_at_fault_and_is_tried_once():
    refusal = b'{"error":{"message":"min_p","code":400}}'
    bench = Bench(a=[answer(refusal, 400)], b=[answer()])
    client = await bench.talk(body())
    assert client.status == 400
    assert client.body == refusal
    assert bench.upstream.order == ["a"]
    assert bench.record.outcome.status == "client_error"
    assert all(state.healthy for state in bench.fleet.snapshot.states)


async def test_the_last_answer_is_given_when_nobody_does_better():
    bench = Bench(
        a=[answer(b"no", 503)], b=[answer(b"later", 429, headers=[(b"retry-after", b"9")])], max_attempts=2
    )
    client = await bench.talk(body())
    assert (client.status, client.body) == (429, b"later")
    assert client.headers[b"retry-after"] == b"9"
    assert bench.record.outcome.status == "upstream_error"


async def test_nobody_can_be_reached():
    bench = Bench(a=[fails("connect", "connect")], b=[fails("sent", "reset")])
    client = await bench.talk(body())
    assert client.status == 502
    assert json.loads(client.body)["error"]["code"] == "upstream_error"
    healthy = {state.backend.name: state.healthy for state in bench.fleet.snapshot.states}
    assert healthy == {"a": False, "b": True}


async def test_a_stream_that_breaks_off_ends_with_one_error_event_and_no_done():
    bench = Bench(a=[stream(ROLE, WORD, RESET)], b=[stream(*WHOLE)])
    client = await bench.talk()
    assert client.body.startswith(ROLE + WORD)
    events = client.body[len(ROLE + WORD) :].split(b"\n\n")
    assert json.loads(events[0].removeprefix(b"data: "))["error"]["code"] == "upstream_broken_off"
    assert events[1:] == [b""]
    assert client.complete
    assert bench.upstream.order == ["a"]
    assert bench.record.outcome.status == "truncated"


async def test_a_stream_that_just_ends_is_broken_off():
    bench = Bench(a=[stream(ROLE, WORD)])
    client = await bench.talk()
    assert b"upstream_broken_off" in client.body
    assert b"[DONE]" not in client.body
    assert bench.record.outcome.error == "ended_early"


async def test_an_error_event_in_the_middle_is_passed_on_as_it_came():
    bench = Bench(a=[stream(ROLE, WORD, ERROR, DONE)])
    client = await bench.talk()
    assert client.body == ROLE + WORD + ERROR + DONE
    assert client.complete
    assert bench.record.outcome.status == "truncated"
    assert bench.record.outcome.error == "error_event"


@pytest.mark.parametrize("wanted", [True, False], ids=["stream", "whole"])
async def test_a_client_that_leaves_before_the_answer_cancels_it(wanted):
    never = asyncio.Event()
    act = stream(before=[never])
    bench = Bench(a=[act])
    client = bench.open(body(stream=wanted))
    await bench.upstream.sent.wait()
    client.leave()
    await client.end()
    assert bench.upstream.cancelled.is_set()
    assert bench.record.outcome.status == "cancelled"
    assert bench.record.outcome.http_status == 499
    assert bench.record.attempts[0].error == "client_gone"
    assert client.sent == []
    assert bench.idle


async def test_a_client_that_leaves_in_the_middle_closes_the_stream():
    bench = Bench(a=[stream(ROLE, WORD, asyncio.Event())])
    client = bench.open()
    await client.until(lambda it: WORD in it.body)
    client.leave()
    await client.end()
    assert bench.upstream.closed.is_set()
    assert bench.record.outcome.status == "cancelled"
    assert bench.record.outcome.http_status == 200
    assert bench.record.attempts[0].phase == "first_byte"
    assert bench.idle


async def test_a_client_that_leaves_while_it_sends_is_recorded():
    bench = Bench(a=[])
    client = Conversation(bench.relay, body=None)
    client.leave()
    await client.end()
    assert bench.record.outcome.status == "cancelled"
    assert bench.upstream.requests == []


async def test_a_stream_that_is_open_when_the_process_goes_down_ends_with_an_error_event():
    bench = Bench(a=[stream(ROLE, WORD, asyncio.Event())])
    client = bench.open()
    await client.until(lambda it: WORD in it.body)
    client.task.cancel()
    await client.end()
    assert client.body.startswith(ROLE + WORD + b"data: {")
    assert b"shutting_down" in client.body
    assert b"[DONE]" not in client.body
    assert client.complete
    assert bench.idle
    assert (bench.record.outcome.status, bench.record.outcome.error) == ("truncated", "shutting_down")


async def test_an_answer_that_is_due_when_the_process_goes_down_is_refused():
    bench = Bench(a=[stream(before=[asyncio.Event()])])
    client = bench.open(body())
    await bench.upstream.sent.wait()
    client.task.cancel()
    await client.end()
    assert client.status == 503
    assert client.headers[b"retry-after"] == b"1"
    assert bench.idle
    assert bench.record.outcome.status == "rejected"


async def test_comments_keep_a_silent_stream_alive_before_and_between_events():
    first, second = asyncio.Event(), asyncio.Event()
    bench = Bench(
        timeouts=Timeouts(keep_alive=0.01), a=[stream(ROLE + WORD, second, LAST, DONE, before=[first])]
    )
    client = bench.open()
    await client.until(lambda it: it.body.count(COMMENT) == 2)
    assert client.status == 200
    assert client.headers[b"content-type"].startswith(b"text/event-stream")
    first.set()
    await client.until(lambda it: WORD + COMMENT in it.body)
    second.set()
    await client.end()
    assert client.body.replace(COMMENT, b"") == ROLE + WORD + LAST + DONE
    assert bench.record.outcome.events == 2
    assert bench.record.outcome.ttft is not None


async def test_no_comment_is_put_into_an_event():
    gate = asyncio.Event()
    given = body(stream=True, stream_options={"include_usage": True})
    bench = Bench(timeouts=Timeouts(keep_alive=0.001, idle=0.05), a=[stream(ROLE + WORD[:9], gate)])
    client = await bench.talk(given)
    assert COMMENT not in client.body
    assert bench.record.outcome.error == "timeout:idle"


async def test_after_a_comment_another_backend_still_takes_over():
    gate = asyncio.Event()
    refused = fails("sent", "reset")
    refused.before.insert(0, gate)
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), a=[refused], b=[stream(*WHOLE)])
    client = bench.open()
    await client.until(lambda it: COMMENT in it.body)
    gate.set()
    await client.end()
    assert client.body.replace(COMMENT, b"") == ROLE + WORD + LAST + DONE
    assert bench.record.outcome.status == "ok"


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (answer(b'{"error":{"message":"too long"}}', 400), b'data: {"error":{"message":"too long"}}\n\n'),
        (stream(ERROR, DONE), ERROR),
        (fails("sent", "reset"), b"upstream_error"),
    ],
    ids=["400", "error-first", "reset"],
)
async def test_after_a_comment_an_error_is_told_as_an_event(act, said):
    gate = asyncio.Event()
    act.before.insert(0, gate)
    bench = Bench(timeouts=Timeouts(keep_alive=0.01), max_attempts=1, a=[act])
    client = bench.open()
    await client.until(lambda it: COMMENT in it.body)
    gate.set()
    await client.end()
    assert said in client.body
    assert client.complete
    assert bench.record.outcome.status in {"client_error", "upstream_error"}


async def test_a_slow_client_is_not_the_backends_fault_and_its_times_do_not_count():
    bench = Bench(timeouts=Timeouts(idle=0.05), a=[stream(*WHOLE)])
    client = bench.open()
    client.reads_after = 0.15
    await client.end()
    assert client.body == ROLE + WORD + LAST + DONE
    assert bench.record.outcome.status == "ok"
    assert bench.record.outcome.backpressured


@pytest.mark.parametrize(
    ("act", "timeouts", "error", "status"),
    [
        (lambda: stream(before=[asyncio.Event()]), Timeouts(first_byte=0.01), "timeout:first_byte", 504),
        (lambda: stream(asyncio.Event()), Timeouts(first_byte=0.01), "timeout:first_byte", 504),
        (lambda: stream(before=[asyncio.Event()]), Timeouts(total=0.5), "timeout:total", 504),
        (lambda: stream(ROLE, asyncio.Event()), Timeouts(idle=0.01), "timeout:idle", 200),
    ],
    ids=["headers", "first-byte", "total", "idle"],
)
async def test_limits_end_what_does_not_come(act, timeouts, error, status):
    bench = Bench(a=[act()], timeouts=timeouts, max_attempts=1)
    client = await bench.talk()
    assert client.status == status
    assert bench.record.attempts[0].error == error
    assert bench.record.outcome.status == ("truncated" if status == 200 else "timeout")
    assert bench.idle


async def test_a_body_that_is_no_json_is_refused_before_anything_is_sent():
    bench = Bench(a=[])
    client = await bench.talk(b"{nope")
    assert client.status == 400
    assert json.loads(client.body)["error"]["type"] == "invalid_request_error"
    assert bench.record.outcome.status == "client_error"


async def test_a_body_that_is_too_large_is_refused():
    bench = Bench(a=[], body_limit=10)
    client = await bench.talk(b"x" * 11)
    assert client.status == 413


async def test_a_body_that_is_said_to_be_too_large_is_refused_before_it_is_sent():
    bench = Bench(a=[], body_limit=10)
    client = await bench.talk(b"", headers=[(b"content-length", b"11")])
    assert client.status == 413
    assert bench.record.outcome.status == "client_error"


async def test_pages_of_other_sites_may_read_errors_of_our_own_and_what_servers_let_them_read():
    bench = Bench(a=[answer()])
    client = await bench.talk(body(model="nope"), headers=[(b"origin", b"http://page")])
    assert client.headers[b"access-control-allow-origin"] == b"*"
    client = await bench.talk(body(model="nope"))
    assert b"access-control-allow-origin" not in client.headers
    client = await bench.talk(body(), headers=[(b"origin", b"http://page")])
    assert client.status == 200
    assert b"access-control-allow-origin" not in client.headers


async def test_an_unknown_model_is_not_found():
    bench = Bench(a=[])
    client = await bench.talk(body(model="nope"))
    assert client.status == 404
    assert json.loads(client.body)["error"]["code"] == "model_not_found"
    assert client.headers[b"x-request-id"]
    client = await bench.talk(body(model="nope"), path="/v1/messages")
    assert json.loads(client.body)["type"] == "error"


async def test_a_fleet_that_is_full_says_when_to_come_back():
    bench = Bench(backends=[Backend("a", "http://a", "target", "m", max_in_flight=1)], a=[])
    bench.fleet.dispatched("a")
    client = await bench.talk(body())
    assert client.status == 429
    assert client.headers[b"retry-after"] == b"1"
    assert bench.record.outcome.status == "rejected"


async def test_other_paths_go_through_with_their_query_and_bytes():
    bench = Bench(a=[answer(b'{"ok":1}')])
    client = await bench.talk(
        b"\x00\xffbinary",
        method="PUT",
        path="/v1/files/%2Fx",
        query=b"a=1&b=%20",
        headers=[(b"content-type", b"x/y")],
    )
    assert client.body == b'{"ok":1}'
    request = bench.upstream.requests[0]
    assert request.method == "PUT"
    assert request.url == "http://a/v1/files/%2Fx?a=1&b=%20"
    assert request.body == b"\x00\xffbinary"


async def test_a_body_that_is_not_read_still_goes_where_the_caller_chose():
    bench = Bench(a=[], b=[answer()])
    client = await bench.talk(b"\x00", path="/v1/audio/transcriptions", headers=[
        (b"content-type", b"multipart/form-data"), (b"x-specroute-backend", b"b"),
    ])  # fmt: skip
    assert client.status == 200
    assert bench.upstream.order == ["b"]


@pytest.mark.parametrize(("model", "status", "sent"), [("m", 200, b"served"), ("another", 404, None)])
async def test_the_model_of_a_form_decides_and_is_renamed_like_any_other(model, status, sent):
    form = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n--x--\r\n'
    bench = Bench(a=[answer()], backends=[Backend("a", "http://a", target="target", served_model="served")])
    client = await bench.talk(form % model.encode(), path="/v1/audio/transcriptions", headers=[
        (b"content-type", b"multipart/form-data; boundary=x"),
    ])  # fmt: skip
    assert client.status == status
    assert [request.body for request in bench.upstream.requests] == ([form % sent] if sent else [])


@pytest.mark.parametrize("given", [b'"\xff":1', b'"stream_options":{"\xff":1}'])
async def test_a_body_that_cannot_be_changed_on_the_way_is_refused(given):
    bench = Bench(a=[])
    client = await bench.talk(b'{"model":"m","stream":true,"messages":[],%b}' % given)
    assert client.status == 400
    assert "not valid JSON" in json.loads(client.body)["error"]["message"]
    assert bench.record.outcome.status == "client_error"


async def test_a_failure_of_our_own_is_told_like_any_other(monkeypatch, caplog):
    bench = Bench(a=[])
    monkeypatch.setattr(bench, "policy", None)
    client = await bench.talk()
    assert client.status == 500
    assert json.loads(client.body)["error"]["code"] == "internal_error"
    assert (bench.record.outcome.status, bench.record.outcome.error) == ("rejected", "internal_error")
    assert "failed within the gateway" in caplog.text
    assert bench.idle


async def test_a_method_without_a_body_is_the_servers_business():
    bench = Bench(a=[answer(b"{}", status=405)])
    assert (await bench.talk(b"", method="GET")).status == 405


async def test_an_answer_of_another_kind_flows_as_it_comes():
    act = answer(b"RIFF")
    act.headers = [(b"content-type", b"audio/wav")]
    gate = asyncio.Event()
    act.body += [gate, b"data"]
    bench = Bench(a=[act])
    client = bench.open(body(), path="/v1/audio/speech")
    await client.until(lambda it: it.body == b"RIFF")
    gate.set()
    await client.end()
    assert client.body == b"RIFFdata"
    assert client.complete


async def test_an_empty_answer_is_an_answer():
    act = answer()
    act.headers, act.body = [(b"content-type", b"text/plain")], []
    bench = Bench(a=[act])
    client = await bench.talk(body())
    assert client.complete
    assert client.headers[b"content-length"] == b"0"


async def test_a_backend_that_left_the_fleet_is_passed_over():
    bench = Bench(a=[fails("sent", "reset")], b=[], c=[answer(b'{"c":1}')])
    gate = asyncio.Event()
    bench.upstream._acts["a"][0].before.insert(0, gate)
    client = bench.open(body())
    await bench.upstream.sent.wait()
    kept = [state.backend for state in bench.fleet.snapshot.states if state.backend.name != "b"]
    bench.fleet.replace(kept, "f2")
    gate.set()
    await client.end()
    assert client.body == b'{"c":1}'
    assert [attempt.error for attempt in bench.record.attempts] == ["reset", ""]


def crowded(*, length=5, wait=60.0, timeouts=None, names="a", **options):
    """A relay whose backends have one place each, all of them taken."""
    backends = [Backend(name, f"http://{name}", "target", "m", max_in_flight=1) for name in names]
    bench = Bench(
        backends=backends, queue=Waiting(wait, length), timeouts=timeouts,
        **{name: [answer() for _ in range(9)] for name in names}, **options,
    )  # fmt: skip
    for name in names:
        bench.fleet.dispatched(name)
    return bench


def freed(bench, name="a"):
    """The request that took the place has ended."""
    bench.fleet.finished(name, Attempt(name, "done", "", 200, 0.0, 0.0))


async def queued(bench, count):
    """Wait until so many requests wait."""
    while len(bench.fleet.queue) != count:  # noqa: ASYNC110 - lets the others run
        await asyncio.sleep(0)


async def test_while_all_are_busy_a_request_waits_for_its_turn():
    bench = crowded()
    first = bench.open(body(), headers=[(b"x-request-id", b"first")])
    await queued(bench, 1)
    second = bench.open(body(), headers=[(b"x-request-id", b"second")])
    await queued(bench, 2)
    freed(bench)
    await asyncio.gather(first.end(), second.end())
    assert (first.status, second.status) == (200, 200)
    assert [record.request_id for record in bench.records] == ["first", "second"]
    assert all(record.outcome.status == "ok" for record in bench.records)
    assert all(0.0 < record.queued < record.ended - record.started for record in bench.records)
    assert bench.idle
    assert len(bench.fleet.queue) == 0


async def test_who_comes_in_the_moment_a_place_is_freed_does_not_overtake():
    bench = crowded()
    first = bench.open(body(), headers=[(b"x-request-id", b"first")])
    await queued(bench, 1)
    second = bench.open(body(), headers=[(b"x-request-id", b"second")])
    freed(bench)
    await asyncio.gather(first.end(), second.end())
    assert [record.request_id for record in bench.records] == ["first", "second"]


async def test_who_waited_in_vain_is_refused_and_told_when_to_come_back():
    bench = crowded(wait=0.001)
    client = await bench.talk(body())
    assert client.status == 429
    assert client.headers[b"retry-after"] == b"1"
    assert json.loads(client.body)["error"]["code"] == "all_rejected"
    assert bench.record.outcome.status == "rejected"
    assert bench.record.queued > 0.0
    assert bench.upstream.requests == []


async def test_a_queue_that_is_full_refuses_at_once():
    bench = crowded(length=1)
    first = bench.open(body())
    await queued(bench, 1)
    client = await bench.talk(body())
    assert client.status == 429
    assert client.headers[b"retry-after"] == b"1"
    freed(bench)
    assert (await first.end()).status == 200


async def test_where_no_room_can_come_in_time_nobody_waits():
    bench = crowded(wait=5.0)
    now = clock.monotonic()
    bench.fleet.finished("a", Attempt("a", "headers", "status:503", 503, now, now, retry_after=40.0))
    client = await bench.talk(body())
    assert client.status == 429
    assert client.headers[b"retry-after"] == b"40"


async def test_a_client_that_leaves_gives_its_place_in_the_queue_up():
    bench = crowded()
    first, second = bench.open(body()), bench.open(body())
    await queued(bench, 2)
    first.leave()
    await first.end()
    assert len(bench.fleet.queue) == 1
    assert bench.record.outcome.status == "cancelled"
    assert bench.record.queued > 0.0
    freed(bench)
    assert (await second.end()).status == 200
    assert len(bench.upstream.requests) == 1


async def test_a_stream_that_waits_is_kept_alive_and_refused_with_an_event():
    bench = crowded(wait=0.2, timeouts=Timeouts(keep_alive=0.01))
    client = bench.open()
    await client.until(lambda it: it.body.count(COMMENT) == 2)
    await client.end()
    assert client.status == 200
    assert json.loads(client.body.replace(COMMENT, b"").removeprefix(b"data: "))["error"]["type"] == (
        "rate_limit_error"
    )
    assert client.complete
    assert bench.record.outcome.status == "rejected"


async def test_who_waits_for_servers_that_go_down_waits_no_longer():
    bench = crowded()
    client = bench.open(body())
    await queued(bench, 1)
    bench.fleet.down("a", "probe")
    await client.end()
    assert client.status == 503


async def test_what_is_open_when_the_process_goes_down_leaves_the_queue():
    bench = crowded()
    client = bench.open(body())
    await queued(bench, 1)
    client.task.cancel()
    await client.end()
    assert client.status == 503
    assert b"shutting_down" in client.body
    assert len(bench.fleet.queue) == 0


async def test_more_requests_than_may_be_open_are_refused_before_they_are_read():
    gate = asyncio.Event()
    bench = Bench(max_requests=1, a=[stream(*WHOLE, before=[gate])])
    first = bench.open()
    await bench.upstream.sent.wait()
    refused = await Conversation(bench.relay, body=None).end()
    assert refused.status == 503
    assert refused.headers[b"retry-after"] == b"1"
    assert json.loads(refused.body)["error"]["code"] == "overloaded"
    (record,) = bench.records
    assert (record.outcome.status, record.decision.kind) == ("rejected", "overloaded")
    gate.set()
    assert (await first.end()).status == 200
    assert bench.admission.open == 0


@pytest.mark.parametrize(("arguments", "verdict"), [('{"a": 1}', "valid"), ('{"a": ', "invalid")])
async def test_tool_calls_that_cannot_be_used_are_recorded_as_such(arguments, verdict):
    def chunk(said, finish=None):
        call = {"index": 0, "function": {"arguments": said}}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish}
        return f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode()

    sent = [ROLE, chunk(arguments[:3]), chunk(arguments[3:]), chunk("", "tool_calls"), DONE]
    bench = Bench(a=[stream(*sent)])
    client = await bench.talk()
    assert client.body == b"".join(sent)
    assert bench.record.outcome.tool_arguments == verdict


@pytest.mark.parametrize(
    "asked", [{"stream_options": {"include_usage": True}}, {}], ids=["as it came", "edited"]
)
async def test_half_a_surrogate_pair_reaches_no_backend(asked):
    bench = Bench(a=[fails("connect", "timeout:connect")], b=[stream(*WHOLE)])
    given = body(messages=[{"role": "user", "content": "cut \ud83d"}], stream=True, **asked)
    client = await bench.talk(given)
    assert client.status == 200
    assert len(bench.upstream.requests) == 2
    for request in bench.upstream.requests:
        assert json.loads(request.body)["messages"] == [{"role": "user", "content": "cut \ufffd"}]
    if asked:
        assert {request.body for request in bench.upstream.requests} == {
            given.replace(rb"\ud83d", rb"\ufffd")
        }


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (b"application/json", b'{"model":"m"}'),
        (b"Application/JSON ; charset=utf-8", b'{"model":"m"}'),
        (b"application/jsonl", b'{"model": "target"}'),
        (b"application/json-seq", b'{"model": "target"}'),
    ],
)
async def test_only_what_is_json_is_read_where_nothing_must_be(kind, sent):
    bench = Bench(a=[answer()])
    await bench.talk(b'{"model": "target"}', path="/v1/embeddings", headers=[(b"content-type", kind)])
    assert bench.upstream.requests[0].body == sent
