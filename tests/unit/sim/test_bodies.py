from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backends.sim.bodies import ChatBodies, TextBodies
from backends.sim.fields import Fields
from backends.sim.messages import MessagesBodies
from backends.sim.parts import Ending, Frame, Part, ToolPart, Whole
from backends.sim.validate import call_of

if TYPE_CHECKING:
    from backends.sim.call import Call


def call(chat: bool = True, **body: Any) -> Call:
    base = {"messages": [{"role": "user", "content": "hi"}]} if chat else {"prompt": "hi"}
    return call_of(Fields(base | body), chat=chat)


def frame(**changes: Any) -> Frame:
    fields: dict[str, Any] = {
        "id": "chatcmpl-1",
        "created": 5,
        "model": "tiny",
        "fingerprint": "f",
        "prompt_ids": None,
    }
    return Frame(**fields | {"prompt_tokens": 3, "cached_tokens": None} | changes)


HEAD = 'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"tiny","choices":['
END = Ending("length", None, last=True)


def test_chat_events_are_the_bytes_of_a_real_server() -> None:
    bodies = ChatBodies(frame(), call(stream=True))
    assert bodies.opening(0).decode() == (
        f'{HEAD}{{"index":0,"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],'
        '"prompt_token_ids":null,"prompt_text":null}\n\n'
    )
    assert bodies.part(Part(0, 'a"é', ["a", '"é'], None, 0, 2)).decode() == (
        f'{HEAD}{{"index":0,"delta":{{"content":"a\\"é"}},"logprobs":null,"finish_reason":null,"token_ids":null}}]}}\n\n'
    )
    assert bodies.part(Part(0, "b", ["b"], None, 0, 3, END)).decode() == (
        f'{HEAD}{{"index":0,"delta":{{"content":"b"}},"logprobs":null,"finish_reason":"length","stop_reason":null,'
        '"token_ids":null}],"system_fingerprint":"f"}\n\n'
    )


def test_the_fingerprint_moves_to_the_usage_event_where_there_is_one() -> None:
    options = {"include_usage": True}
    bodies = ChatBodies(frame(), call(stream=True, stream_options=options))
    assert b"fingerprint" not in bodies.part(Part(0, "b", ["b"], None, 0, 3, END))
    assert bodies.usage(4, None).decode() == (
        f'{HEAD}],"usage":{{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4}},"system_fingerprint":"f"}}\n\n'
    )


def test_only_the_last_choice_of_several_carries_the_fingerprint() -> None:
    bodies = ChatBodies(frame(), call(stream=True, n=2))
    assert b"fingerprint" not in bodies.part(
        Part(0, "b", ["b"], None, 0, 3, Ending("stop", None, last=False))
    )


def test_usage_goes_with_every_event_where_asked() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    for bodies in (
        ChatBodies(frame(), call(stream=True, stream_options=options)),
        TextBodies(frame(), call(chat=False, stream=True, stream_options=options)),
    ):
        event = bodies.part(Part(0, "b", ["b"], None, 0, 9, END))
        count = b'"usage":{"prompt_tokens":3,"total_tokens":12,"completion_tokens":9,"completion_tokens_details":null}}'
        assert event.endswith(b"}]," + count + b"\n\n")


def test_cached_tokens_are_told_in_the_shape_of_each_endpoint() -> None:
    known = frame(cached_tokens=2)
    chat, text = ChatBodies(known, call()), TextBodies(known, call(chat=False))
    assert b'"prompt_tokens_details":{"cached_tokens":2,"created_cache_tokens":0}}' in chat.usage(1, None)
    assert b'"prompt_tokens_details":{"cached_tokens":2}}' in text.usage(1, None)
    whole = json.loads(chat.whole([], 1, None))["usage"]["prompt_tokens_details"]
    assert whole == {"cached_tokens": 2, "created_cache_tokens": 0, "multimodal_tokens": None}
    whole = json.loads(text.whole([], 1, None))["usage"]["prompt_tokens_details"]
    assert whole == {"cached_tokens": 2, "created_cache_tokens": None, "multimodal_tokens": None}


def test_what_was_cached_of_a_message_is_no_input() -> None:
    bodies = MessagesBodies(frame(cached_tokens=2), call())
    told = json.loads(bodies.whole([Whole(0, "a", ["a"], None, END)], 1, None))["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"], told["output_tokens"]) == (1, 2, 1)


def test_a_stream_leaves_out_metrics_that_a_body_sends_as_null() -> None:
    bodies = ChatBodies(frame(), call())
    metrics = {"a": None, "speculative_decoding": {"b": 1.0, "c": None}}
    assert b'"metrics":{"speculative_decoding":{"b":1.0}}}' in bodies.usage(1, metrics)
    assert json.loads(bodies.whole([], 1, metrics))["metrics"] == metrics


def test_tool_calls_come_as_name_then_arguments_then_nothing() -> None:
    bodies = ChatBodies(frame(), call(stream=True))
    parts = [
        ToolPart(0, None, 5, id="t", name="ls"),
        ToolPart(0, None, 7, arguments='{"n'),
        ToolPart(0, None, 9, ending=Ending("tool_calls", None, last=True)),
    ]
    choices = [json.loads(bodies.tool(part)[6:])["choices"][0] for part in parts]
    assert [choice["delta"] for choice in choices] == [
        {
            "content": None,
            "tool_calls": [{"id": "t", "type": "function", "index": 0, "function": {"name": "ls"}}],
        },
        {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": '{"n'}}]},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None, None, "tool_calls"]


def test_a_tool_call_in_a_body_takes_the_place_of_the_text() -> None:
    body = ChatBodies(frame(), call()).whole(
        [Whole(0, "raw", ["raw"], None, END, ("t", "ls", "{}"))], 3, None
    )
    message = json.loads(body)["choices"][0]["message"]
    assert message["content"] is None
    assert list(message)[-2:] == ["tool_calls", "reasoning"]


def test_each_choice_carries_the_ids_of_its_own_prompt() -> None:
    bodies = TextBodies(frame(prompt_ids=[[1], [2]]), call(chat=False, n=2))
    choices = json.loads(bodies.whole([Whole(i, "x", ["x"], [9], END) for i in range(4)], 4, None))["choices"]
    assert [choice["prompt_token_ids"] for choice in choices] == [[1], [1], [2], [2]]
    events = [bodies.part(Part(2, "x", ["x"], [9], 0, 1)) for _ in range(2)]
    assert [json.loads(event[6:])["choices"][0]["prompt_token_ids"] for event in events] == [[2], None]
