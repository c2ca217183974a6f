"""What is read of answers of /v1/responses and /v1/messages."""

import json
from pathlib import Path

import pytest

from gateway.wire.chunks import decode
from gateway.wire.reading import Reading
from gateway.wire.sse import StreamTap

CAPTURES = Path(__file__).parents[2] / "fixtures" / "vllm"
NESTED = {"type": "output_text", "text": "deep"}
for _ in range(400):
    NESTED = {"type": "message", "content": [NESTED]}
SERVERS = ("default", "full-flags")


def captured(name):
    """Body of a captured answer."""
    return (CAPTURES / f"{name}.txt").read_bytes().split(b"--- response\n", 1)[1].split(b"\n\n", 1)[1]


def whole(answer):
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    reading = Reading()
    reading.take_whole(decode(data), data)
    return reading


def streamed(*events):
    tap = StreamTap(Reading(), strip_usage=False)
    for told in events:
        data = told if isinstance(told, bytes) else f"event: x\ndata: {json.dumps(told)}\n\n".encode()
        assert tap.feed(data, 1.0) == data
    return tap.reading


def added(**item):
    return {"type": "response.output_item.added", "output_index": 0, "sequence_number": 2, "item": item}


def delta(text, kind="response.output_text.delta"):
    return {"type": kind, "delta": text, "item_id": "i", "logprobs": [], "sequence_number": 4}


def block(**fields):
    return {"type": "content_block_start", "content_block": fields, "index": 0}


def block_delta(**fields):
    return {"type": "content_block_delta", "delta": fields, "index": 0}


@pytest.mark.parametrize("server", SERVERS)
def test_captured_responses_are_read(server):
    whole_, stream = captured(f"{server}/responses"), captured(f"{server}/responses-stream")
    said = json.loads(whole_)
    text = said["output"][0]["content"][0]["text"]
    reading = whole(whole_)
    assert (reading.opening(), reading.response_id, reading.tool_calls) == (text, said["id"], False)
    reading = streamed(stream)
    assert reading.opening() == text
    assert reading.response_id.startswith("resp_")
    assert reading.response_model == "tiny"
    assert (reading.ended, reading.sequence, reading.tool_calls) == (True, stream.count(b"\ndata: "), False)


@pytest.mark.parametrize("server", SERVERS)
def test_captured_messages_are_read(server):
    whole_, stream = captured(f"{server}/messages"), captured(f"{server}/messages-stream")
    said = json.loads(whole_)
    reading = whole(whole_)
    assert (reading.opening(), reading.response_id) == (said["content"][0]["text"], said["id"])
    reading = streamed(stream)
    assert reading.opening() == said["content"][0]["text"]
    assert reading.response_id.startswith("chatcmpl-")
    assert (reading.response_model, reading.ended, reading.tool_calls) == ("tiny", True, False)


def test_reasoning_is_left_out_of_responses():
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []}
    refused = {"type": "refusal", "refusal": "no"}
    spoken = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}, refused]}
    assert whole({"object": "response", "output": [thought, spoken]}).opening() == "Hi"
    reading = streamed(
        added(type="reasoning", id="r", summary=[]),
        delta("hm", "response.reasoning_text.delta"),
        added(type="message", id="m", content=[]),
        delta("Hi"),
        delta(" you"),
    )
    assert (reading.opening(), reading.tool_calls) == ("Hi you", False)


def test_reasoning_is_left_out_of_messages():
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]
    assert whole({"type": "message", "content": blocks}).opening() == "Hi"
    thoughts = [block_delta(type="thinking_delta", thinking="hm")] * 200
    reading = streamed(
        block(type="thinking", thinking=""),
        *thoughts,
        block_delta(type="signature_delta", signature="s"),
        block(type="text", text=""),
        block_delta(type="text_delta", text="Hi"),
        block_delta(type="text_delta", text=" you"),
    )
    assert (reading.opening(), reading.tool_calls) == ("Hi you", False)


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "mcp_call", "web_search_call"])
def test_calls_in_responses_are_noticed_before_text_and_after(kind):
    call = {"type": kind, "id": "c", "name": "get_weather", "arguments": "{}"}
    spoken = {"type": "message", "content": [{"type": "output_text", "text": "I look."}]}
    reading = whole({"object": "response", "output": [spoken, call]})
    assert (reading.opening(), reading.tool_calls) == ("I look.", True)
    arguments = delta('{"a":1}', "response.function_call_arguments.delta")
    assert streamed(added(**call), arguments).tool_calls
    reading = streamed(added(type="message", content=[]), *[delta("I look.")] * 200, added(**call), arguments)
    assert reading.opening().startswith("I look.I look.")
    assert reading.tool_calls


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use"])
def test_calls_in_messages_are_noticed_before_text_and_after(kind):
    call = {"type": kind, "id": "c", "name": "get_weather", "input": {}}
    reading = whole({"type": "message", "content": [{"type": "text", "text": "I look."}, call]})
    assert (reading.opening(), reading.tool_calls) == ("I look.", True)
    arguments = block_delta(type="input_json_delta", partial_json='{"a":1}')
    reading = streamed(block(**call), arguments)
    assert (reading.opening(), reading.tool_calls) == ("", True)
    words = [block_delta(type="text_delta", text="I look.")] * 200
    assert streamed(block(type="text", text=""), *words, block(**call), arguments).tool_calls


def test_the_id_of_a_response_is_read_at_its_end_where_its_beginning_did_not_tell():
    end = {"type": "response.completed", "response": {"id": "resp_2", "model": "m", "output": []}}
    assert streamed(delta("Hi"), end).response_id == "resp_2"
    begun = {"type": "response.created", "response": {"id": "resp_1"}}
    assert streamed(begun, delta("Hi"), end).response_id == "resp_1"


def test_the_opening_of_a_long_answer_is_all_that_is_kept():
    reading = streamed(*[delta("x" * 20)] * 10_000)
    assert reading.opening() == "x" * 600
    assert len(reading._opening) < 100
    text = {"type": "text", "text": "x" * 10_000}
    assert whole({"type": "message", "content": [text]}).opening() == "x" * 600


@pytest.mark.parametrize(
    "odd",
    [
        added(type=7),
        added(type="message", content="text"),
        {"type": "response.output_item.added", "item": "message"},
        {"type": "response.created", "response": {"id": 7, "model": None}},
        {"type": "response.created"},
        {"type": "message_start", "message": "words"},
        block(type=None, text=["x"]),
        block_delta(type="text_delta", text=None),
        {"type": "content_block_delta", "delta": 7},
        {"type": "content_block_delta"},
    ],
)
def test_events_of_another_shape_say_nothing(odd):
    reading = streamed(odd, block(type="text", text=""), block_delta(type="text_delta", text="Hi"))
    assert (reading.opening(), reading.response_id, reading.tool_calls) == ("Hi", "", False)


@pytest.mark.parametrize(
    "odd",
    [
        {"object": "response"},
        {"object": "response", "output": None},
        {"object": "response", "output": "text"},
        {"object": "response", "output": [7]},
        {"object": "response", "output": [{"type": "message", "content": "text"}]},
        {"object": "response", "output": [{"type": "message", "content": [{"type": "output_text"}]}]},
        {"object": "response", "output": [NESTED]},
        {"type": "message", "content": [{"type": "text", "text": 7}]},
        {"object": "list", "output": [{"type": "function_call"}]},
    ],
)
def test_answers_of_another_shape_say_nothing(odd):
    reading = whole(odd)
    assert (reading.opening(), reading.tool_calls) == ("", False)
