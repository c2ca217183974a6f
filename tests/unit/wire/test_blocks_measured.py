"""What is measured of answers of /v1/responses and /v1/messages: usage, times, events, how they ended."""

import json
import re

import pytest

from gateway.core.fleet import Backend
from gateway.core.outcome import Usage
from gateway.wire import reading as subject
from gateway.wire.chunks import decode
from gateway.wire.reading import Reading
from gateway.wire.sse import StreamTap
from tests.unit.wire.test_blocks import SERVERS, added, block, block_delta, captured, delta, whole

DRAFTING = Backend("b", "http://b", "t", "t", method="eagle3", draft_tokens=3)
DELTAS = re.compile(rb"event: (?:content_block_delta|response\.output_text\.delta)\n")
TOOL = {"type": "tool_use", "id": "t", "name": "f"}
CALL = {"type": "function_call", "id": "c", "name": "f"}
SPECULATIVE = {
    "num_spec_steps": 4, "num_draft_tokens": 12, "num_accepted_draft_tokens": 5,
    "acceptance_histogram": [1, 2, 0, 1],
}  # fmt: skip


def written(event):
    """An event as servers write it, its type on a line before it."""
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def timed(*events):
    """What is read of events, of which one comes each second."""
    tap = StreamTap(Reading(), strip_usage=False)
    for at, event in enumerate(events):
        data = event if isinstance(event, bytes) else written(event)
        if not tap.passes(data, float(at)):
            assert tap.feed(data, float(at)) == data
    return tap.reading


def split(stream):
    return [event + b"\n\n" for event in stream.split(b"\n\n") if event]


def started(**usage):
    return {"type": "message_start", "message": {"id": "m", "type": "message", "content": [], "usage": usage}}


def stopped(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def ended(kind="completed", **fields):
    return {"type": f"response.{kind}", "response": {"status": kind, **fields}}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("endpoint", "usage"), [("responses", Usage(14, 8, 0)), ("messages", Usage(21, 8, 0))]
)
def test_captured_answers_are_measured_whole_and_streamed(server, endpoint, usage):
    reading = whole(captured(f"{server}/{endpoint}"))
    told = usage if (server, endpoint) != ("default", "messages") else Usage(21, 8)
    assert (reading.usage, reading.finish_reason, reading.events) == (told, "length", 0)
    events = split(captured(f"{server}/{endpoint}-stream"))
    tokens = [at for at, event in enumerate(events) if DELTAS.match(event)]
    assert len(tokens) > 3
    reading = timed(*events)
    assert (reading.usage, reading.finish_reason) == (told, "length")
    assert (reading.first_token_at, reading.decoding_since) == (tokens[0], tokens[0])
    assert (reading.last_token_at, reading.events, reading.first_tokens) == (tokens[-1], len(tokens), 1)
    assert (reading.most_tokens, reading.speculation(DRAFTING).grade) == (0, "not_measured")


@pytest.mark.parametrize("endpoint", ["responses", "messages"])
def test_texts_are_counted_without_reading_them(endpoint, monkeypatch):
    events = split(captured(f"full-flags/{endpoint}-stream"))
    middle = next(at for at, event in enumerate(events) if DELTAS.match(event)) + 1
    read = []
    monkeypatch.setattr("gateway.wire.sse.decode", lambda data: read.append(data) or decode(data))
    monkeypatch.setattr(
        subject.blocks, "told", lambda data, told=subject.blocks.told: read.append(data) or told(data)
    )
    reading = timed(*events[: middle + 1], *[events[middle]] * 200, *events[middle + 1 :])
    assert reading.events > 200
    assert sum(events[middle - 1].endswith(data + b"\n\n") for data in read) == 1
    assert not any(events[middle].endswith(data + b"\n\n") for data in read)


def test_the_number_of_the_next_event_is_known_after_texts_that_were_not_read():
    assert timed(*({**delta("x"), "sequence_number": at} for at in range(4, 9))).sequence == 9


def test_all_of_a_prompt_counts_whatever_was_cached_of_it():
    parts = {"input_tokens": 5, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 3}
    answer = {"type": "message", "content": [], "stop_reason": "end_turn"}
    assert whole({**answer, "usage": {**parts, "output_tokens": 7}}).usage == Usage(24, 7, 16)
    reading = timed(started(**parts, output_tokens=1), stopped("end_turn", output_tokens=7))
    assert reading.usage == Usage(24, 7, 16)
    details = {"input_tokens": 24, "input_tokens_details": {"cached_tokens": 16}, "output_tokens": 7}
    assert whole({"object": "response", "usage": details}).usage == Usage(24, 7, 16)


def test_a_whole_answer_that_says_that_it_failed_is_a_failure():
    reading = whole({"object": "response", "status": "failed", "error": None, "output": []})
    assert (reading.error, reading.finish_reason) == ("error_event", "error")
    assert whole({"object": "response", "status": "completed", "error": None, "output": []}).error == ""


def test_what_a_message_will_generate_is_not_told_by_its_start():
    assert timed(started(input_tokens=5, output_tokens=1)).usage == Usage(5)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        (None, ""),
    ],
)
def test_why_a_message_ended_is_said_as_in_chats(reason, expected):
    assert whole({"type": "message", "content": [], "stop_reason": reason}).finish_reason == expected
    assert timed(started(), stopped(reason)).finish_reason == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "completed"}, "stop"),
        ({"status": "completed", "output": [{**CALL, "arguments": "{}"}]}, "tool_calls"),
        ({"status": "completed", "output": [{"type": "mcp_call", "arguments": "{}"}]}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": None}, "incomplete"),
        ({"status": "failed"}, "error"),
        ({"status": "cancelled"}, "abort"),
        ({"status": "queued"}, ""),
        ({}, ""),
    ],
)
def test_why_a_response_ended_is_said_as_in_chats(fields, expected):
    assert whole({"object": "response", **fields}).finish_reason == expected
    assert timed(delta("Hi"), ended(**{"status": None, **fields})).finish_reason == expected


def test_reasoning_has_tokens_and_signatures_have_none():
    thought = block_delta(type="thinking_delta", thinking="hm")
    signature = block_delta(type="signature_delta", signature="s")
    reading = timed(started(), block(type="thinking", thinking=""), thought, thought, signature)
    assert (reading.first_token_at, reading.last_token_at, reading.events) == (2, 3, 2)
    reading = timed(added(type="reasoning"), *[delta("hm", "response.reasoning_text.delta")] * 3, delta("Hi"))
    assert (reading.first_token_at, reading.events, reading.opening()) == (1, 4, "Hi")


def test_of_a_call_nobody_sees_the_tokens_before_its_name():
    piece = block_delta(type="input_json_delta", partial_json="{}")
    reading = timed(started(), block(**TOOL, input={}), piece)
    assert (reading.first_token_at, reading.decoding_since, reading.events) == (1, 0, 2)
    # A response says that it has begun before anything is computed, so from when on is not known.
    reading = timed(
        {"type": "response.created"}, added(**CALL), delta("{}", "response.function_call_arguments.delta")
    )
    assert (reading.first_token_at, reading.decoding_since, reading.events) == (1, None, 2)


@pytest.mark.parametrize(
    ("arguments", "expected"), [('{"a": "\\"x"}', "valid"), ('{"a', "invalid"), ("[]", "invalid")]
)
def test_arguments_of_calls_must_be_objects(arguments, expected):
    done = {"status": "completed", "output": [{**CALL, "arguments": "{}"}, {**CALL, "arguments": arguments}]}
    for reading in (whole({"object": "response", **done}), timed(added(**CALL), ended(**done))):
        assert reading.tool_calls
        assert reading.calls.verdict(reading.finish_reason) == expected
    pieces = [block_delta(type="input_json_delta", partial_json=each) for each in arguments]
    reading = timed(started(), block(**TOOL, input={}), *pieces, stopped("tool_use"))
    assert reading.calls.verdict(reading.finish_reason) == expected


def test_arguments_of_several_blocks_are_kept_apart():
    pieces = [
        {
            "type": "content_block_delta",
            "index": at,
            "delta": {"type": "input_json_delta", "partial_json": said},
        }
        for at, said in [(1, "{"), (2, "{"), (1, "}"), (2, "}")]
    ]
    reading = timed(started(), block(**TOOL, input={}), *pieces, stopped("tool_use"))
    assert reading.calls.verdict(reading.finish_reason) == "valid"


def test_arguments_of_a_whole_message_are_judged():
    for given, expected in (({"a": 1}, "valid"), ("words", "invalid")):
        answer = {"type": "message", "content": [{**TOOL, "input": given}], "stop_reason": "tool_use"}
        reading = whole(answer)
        assert reading.calls.verdict(reading.finish_reason) == expected


def test_bytes_that_are_no_text_in_arguments_break_nothing():
    data = b'{"type":"message","content":[{"type":"tool_use","input":{"a":"\xff"}}],"stop_reason":"tool_use"}'
    assert whole(data).finish_reason == "tool_calls"


def test_acceptance_is_read_where_a_response_tells_it():
    metrics = {"speculative_decoding": SPECULATIVE}
    for reading in (whole({"object": "response", "metrics": metrics}), timed(ended(metrics=metrics))):
        found = reading.speculation(DRAFTING)
        assert (found.grade, found.steps, found.accepted) == ("exact", 4, 5)
    assert timed(ended(metrics={"speculative_decoding": None})).speculation(DRAFTING).grade == "not_measured"
