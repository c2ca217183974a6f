from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.features import Hints, RequestView, Tool, Turn
from gateway.wire.inbound import Malformed, received, unread, view
from gateway.wire.turns import HEAD_CHARS, TAIL_CHARS


def read(headers: dict[bytes, bytes] | None = None, /, endpoint: str = "chat", **body: Any) -> RequestView:
    found = view(endpoint, json.dumps(body).encode(), headers or {})
    assert isinstance(found, RequestView)
    return found


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"include_usage": True}, True),
        ({"include_usage": "yes"}, True),
        ("strange", True),
        ({"include_usage": False}, False),
        ({"include_usage": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_usage_counts_as_asked_for_unless_it_plainly_is_not(options: object, asked: bool) -> None:
    assert read(stream_options=options).include_usage is asked


def test_a_body_that_is_not_read_leaves_the_hints_of_the_headers() -> None:
    headers = {b"x-specroute-backend": b"b", b"x-specroute-workload": b"chat"}
    assert unread("audio", headers) == RequestView(
        "audio", model="", hints=Hints(workload="chat", backend="b"), headers=headers
    )


def test_headers_and_metadata_of_text_are_kept_and_headers_never_shown() -> None:
    headers = {b"authorization": b"Bearer sk-canary"}
    found = view("chat", b'{"metadata":{"app":"ide","workload":7,"deep":{}}}', headers)
    assert isinstance(found, RequestView)
    assert (found.metadata, found.headers, found.hints.workload) == ({"app": "ide"}, headers, None)
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    ("previous", "hint"),
    [('"resp_1"', "resp_1"), ("null", None), ("7", None), ('""', None), ('"a\\u0000b"', None), ("[]", None)],
)
def test_the_response_that_a_request_goes_on_from_is_a_hint(previous: str, hint: str | None) -> None:
    found = view("responses", f'{{"input":"hi","previous_response_id":{previous}}}'.encode(), {})
    assert isinstance(found, RequestView)
    assert found.hints.previous == hint


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, False),
        ({"store": False}, False),
        ({"store": None, "background": False}, False),
        ({"store": True}, True),
        ({"store": 1}, True),
        ({"store": {}}, True),
        ({"background": True}, True),
    ],
)
def test_a_response_is_kept_where_the_request_may_say_so(fields: dict[str, Any], kept: bool) -> None:
    assert read(endpoint="responses", input="hi", **fields).kept is kept
    assert not read(endpoint="chat", **fields).kept


def test_reads_a_chat_request() -> None:
    found = read(
        model="m",
        stream=True,
        stream_options={"include_usage": True},
        n=2,
        max_tokens=20,
        max_completion_tokens=10,
        temperature=0,
        messages=[{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
        something_new={"a": [1]},
    )
    assert found == RequestView(
        endpoint="chat",
        model="m",
        stream=True,
        include_usage=True,
        n=2,
        max_tokens=10,
        temperature=0.0,
        parameters=frozenset({"n"}),
        turns=(Turn("system", "Be kind.", 8), Turn("user", "Hi", 2)),
    )


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
)
async def test_a_body_in_whatever_unicode_goes_on_in_utf_8(encoding: str) -> None:
    given = '{"model": "m", "messages": [{"role": "user", "content": "Grüß Gott 😀 \\ud83d"}]}'
    assert json.loads(given.encode(encoding)) == json.loads(given), "as servers in Python read it"
    found, body = await received("chat", given.encode(encoding), {})
    assert body.decode() == given.replace("\\ud83d", "\\ufffd")
    assert found == view("chat", body, {})


@pytest.mark.parametrize("body", [b"\xff\xfe{", b"\xff\xfe\x00\xd8", b"\xef\xbb\xbf\xff"])
async def test_what_is_no_unicode_goes_on_as_it_came(body: bytes) -> None:
    found, same = await received("chat", body, {})
    assert isinstance(found, Malformed)
    assert same is body


def test_an_empty_object_is_a_request() -> None:
    assert read() == RequestView(endpoint="chat", model="")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"model": "m"', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b'"text"', "JSON object"),
        (b'{"model": 5}', "'model' is a string"),
    ],
)
def test_a_body_that_no_backend_could_read_is_malformed(body: bytes, message: str) -> None:
    found = view("chat", body, {})
    assert isinstance(found, Malformed)
    assert message in found.message


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        (None, ""),
        (
            [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "x"}}],
            "What is this?",
        ),
        ([{"type": "input_text", "text": "a"}, "b"], "a\nb"),
        ([], ""),
    ],
)
def test_reads_text_parts_and_nothing(content: Any, text: str) -> None:
    assert read(messages=user(content)).turns == (Turn("user", text, len(text)),)


def test_a_strange_message_costs_no_other() -> None:
    found = read(model="m", messages=[*user("a"), {"role": "user", "content": 5}, "b", None, *user("c")])
    assert [turn.text for turn in found.turns] == ["a", "c"]


@pytest.mark.parametrize("strange", [5, "text", None, {"role": "user"}, True])
def test_strange_messages_are_left_to_the_backend(strange: Any) -> None:
    assert read(messages=strange, model="m") == RequestView(endpoint="chat", model="m")


def test_the_head_and_the_tail_of_a_long_text_are_kept() -> None:
    text = "a" * HEAD_CHARS + "b" * 5000 + "c" * TAIL_CHARS
    (turn,) = read(messages=user(text)).turns
    assert turn == Turn("user", "a" * HEAD_CHARS + "\n" + "c" * TAIL_CHARS, len(text))


def test_a_text_of_head_and_tail_alone_is_kept_whole() -> None:
    text = "a" * HEAD_CHARS + "b" * TAIL_CHARS
    assert read(messages=user(text)).turns == (Turn("user", text, len(text)),)


def test_of_many_parts_the_head_and_the_tail_are_kept_and_no_more_is_copied() -> None:
    texts = [f"{number:04}" * 10 for number in range(1000)]
    whole = "\n".join(texts)
    (turn,) = read(messages=user([{"type": "text", "text": text} for text in texts])).turns
    assert turn == Turn("user", f"{whole[:HEAD_CHARS]}\n{whole[-TAIL_CHARS:]}", len(whole))


@pytest.mark.parametrize("first", [1, TAIL_CHARS - 1, HEAD_CHARS - 2, HEAD_CHARS, HEAD_CHARS + 1, 8000])
def test_two_parts_are_read_as_one_text(first: int) -> None:
    whole = "a" * first + "\n" + "b" * (9000 - first)
    (turn,) = read(messages=user([{"type": "text", "text": text} for text in whole.split("\n")])).turns
    assert turn == Turn("user", f"{whole[:HEAD_CHARS]}\n{whole[-TAIL_CHARS:]}", len(whole))


def test_tool_calls_and_results_are_told_apart() -> None:
    found = read(
        messages=[
            *user("Weather?"),
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "3 degrees"},
            {"role": "function", "content": "3 degrees"},
            {"role": "assistant", "content": "Cold.", "tool_calls": []},
        ]
    )
    assert [(turn.role, turn.calls_tool) for turn in found.turns] == [
        ("user", False),
        ("assistant", True),
        ("tool", False),
        ("tool", False),
        ("assistant", False),
    ]


def test_reads_a_request_of_the_responses_endpoint() -> None:
    found = read(
        endpoint="responses",
        instructions="Be kind.",
        max_output_tokens=9,
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "output": "3 degrees"},
        ],
        tools=[{"type": "function", "name": "f", "description": "d"}],
    )
    assert found.max_tokens == 9
    assert found.tools == (Tool("f", "d"),)
    assert found.turns == (
        Turn("system", "Be kind.", 8),
        Turn("user", "Weather?", 8),
        Turn("assistant", "", 0, calls_tool=True),
        Turn("tool", "3 degrees", 9),
    )


def test_reads_a_request_of_the_messages_endpoint() -> None:
    found = read(
        endpoint="messages",
        system=[{"type": "text", "text": "Be kind."}],
        tools=[{"name": "f", "description": "d", "input_schema": {}}],
        tool_choice={"type": "any"},
        messages=[
            *user("Weather?"),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "3"}]},
        ],
    )
    assert (found.tools, found.tool_choice) == ((Tool("f", "d"),), "required")
    assert [(turn.role, turn.calls_tool) for turn in found.turns] == [
        ("system", False),
        ("user", False),
        ("assistant", True),
        ("tool", False),
    ]


def test_results_of_tools_are_read_whatever_the_endpoint() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": "3 degrees"},
        {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "not found"}]},
        {"type": "tool_result", "tool_use_id": "3"},
    ]
    found = read(endpoint="messages", messages=[{"role": "user", "content": results}])
    assert found.turns == (Turn("tool", "3 degrees", 9), Turn("tool", "not found", 9), Turn("tool", "", 0))
    more = [*results[:1], {"type": "text", "text": "And now?"}]
    found = read(endpoint="messages", messages=[{"role": "user", "content": more}])
    assert found.turns == (Turn("tool", "3 degrees", 9), Turn("user", "And now?", 8))


@pytest.mark.parametrize("content", [5, {"a": 1}, [5], None])
def test_a_strange_result_costs_no_other(content: Any) -> None:
    results = [{"type": "tool_result", "content": content}, {"type": "tool_result", "content": "3"}]
    found = read(endpoint="messages", messages=[{"role": "user", "content": results}])
    assert found.turns == (Turn("tool", "", 0), Turn("tool", "3", 1))


def test_items_of_responses_that_nobody_said_are_no_turns() -> None:
    found = read(
        endpoint="responses",
        input=[
            {"type": "message", "role": "user", "content": "Integrate x * sin(x)"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "custom_tool_call", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "done"}]},
            {"type": "mcp_call", "name": "g", "arguments": "{}"},
            {"type": "item_reference", "id": "msg_1"},
        ],
    )
    assert found.turns == (
        Turn("user", "Integrate x * sin(x)", 20),
        Turn("assistant", "", 0, calls_tool=True),
        Turn("tool", "done", 4),
        Turn("assistant", "", 0, calls_tool=True),
    )


@pytest.mark.parametrize(
    ("prompt", "n", "choices"),
    [
        ("once", 1, 1),
        (["once"], 1, 1),
        (["once", "twice"], 1, 2),
        (["once", "twice"], 3, 6),
        ([1, 2, 3], 2, 2),
        ([[1, 2], [3]], 1, 2),
        (["once"] * 40_000, 1, 40_000),
        ([], 1, 1),
        (7, 1, 1),
    ],
)
def test_each_prompt_of_a_completion_has_its_choices(prompt: Any, n: int, choices: int) -> None:
    assert read(endpoint="completions", prompt=prompt, n=n).n == choices
    assert read(endpoint="embeddings", prompt=prompt, n=n).n == n


@pytest.mark.parametrize(
    ("prompt", "turns"),
    [
        ("once", (Turn("user", "once", 4),)),
        (["once", "twice"], (Turn("user", "once", 4), Turn("user", "twice", 5))),
        ([1, 2, 3], (Turn("user", "", 12),)),
        ([[1, 2], [3]], (Turn("user", "", 12),)),
        ([], ()),
        ([None], ()),
        (7, ()),
        (None, ()),
    ],
)
@pytest.mark.parametrize("field", ["prompt", "input"])
def test_reads_prompts_of_texts_and_token_ids(field: str, prompt: Any, turns: tuple[Turn, ...]) -> None:
    assert read(endpoint="completions", **{field: prompt}).turns == turns


def test_reads_the_names_of_parameters() -> None:
    assert read(min_p=0.1, seed=None).parameters == {"min_p"}


def test_reads_names_and_descriptions_of_tools() -> None:
    tools = [
        {
            "type": "function",
            "function": {"name": "f", "description": "d" * 5000, "parameters": {"a": [1, {}]}},
        },
        {"type": "function", "function": {"name": "g", "description": None}},
        {"type": "function", "function": {"name": None, "description": "h"}},
        "strange",
        {"type": "function", "function": 5},
        {"type": "function", "function": {"name": "n" * 5000}},
    ]
    *found, long = read(tools=tools).tools
    assert [tool.name for tool in found] == ["f", "g", "", "", ""]
    assert 0 < len(found[0].description) < 5000
    assert found[2].description == "h"
    assert 64 <= len(long.name) < 5000


def test_tools_with_thousands_of_parameters_are_known_by_name() -> None:
    parameters = {"properties": {f"p{at}": {"type": "string"} for at in range(100)}}
    tools = [
        {"type": "function", "function": {"name": f"t{at}", "parameters": parameters}} for at in range(60)
    ]
    assert read(tools=tools).tools[0] == Tool("t0")


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "x"}, "text": None}, {"text": "hi"}],
        },
        {"role": "user", "content": [{"type": None, "text": "hi"}]},
        {"role": "user", "type": None, "content": "hi"},
        {"role": None, "content": "hi"},
    ],
    ids=["no text", "part without a type", "message without a type", "no role"],
)
def test_what_is_null_is_as_if_it_were_not_there(message: dict[str, Any]) -> None:
    assert read(messages=[message]).turns == (Turn("user", "hi", 2),)


def test_of_thousands_of_messages_the_last_is_read_whatever_its_fields_begin_with() -> None:
    messages = [{"content": f"text {at}", "role": ("user", "assistant")[at % 2]} for at in range(10_000)]
    turns = read(messages=[*messages, {"content": "last", "role": "user"}]).turns
    assert turns[0] == Turn("user", "text 0", 6)
    assert turns[-1] == Turn("user", "last", 4)


def test_many_tools_are_cut_short() -> None:
    assert 0 < len(read(tools=[{"name": f"t{i}"} for i in range(1000)]).tools) < 1000


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "f"}}, "named"),
        ({"type": "tool", "name": "f"}, "named"),
        ({"type": "auto"}, "auto"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "required"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "auto"),
        ({}, ""),
        (None, ""),
        ("strange", ""),
        (5, ""),
    ],
)
def test_reads_the_choice_of_tools(choice: Any, expected: str) -> None:
    assert read(tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "json_object"}, "json_object"),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}, "json_schema"),
        ({"type": "text"}, "text"),
        (None, "text"),
        ({}, "text"),
        (5, "text"),
    ],
)
def test_reads_the_response_format(given: Any, expected: str) -> None:
    assert read(response_format=given).response_format == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"format": {"type": "json_schema", "name": "x", "schema": {}}}, "json_schema"),
        ({"format": {"type": "text"}}, "text"),
        ({"verbosity": "low"}, "text"),
        (None, "text"),
        ("json_schema", "text"),
    ],
)
def test_responses_have_a_place_of_their_own_for_the_response_format(text: Any, expected: str) -> None:
    found = read(endpoint="responses", text=text)
    assert found.response_format == expected
    assert found.parameters == ({"response_format"} if expected != "text" else set())


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7}, 7),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
        ({"max_tokens": True}, None),
        ({"max_tokens": "5"}, None),
        ({"max_tokens": -1}, None),
        ({}, None),
    ],
)
def test_reads_the_lower_limit_of_tokens(limits: dict[str, Any], expected: int | None) -> None:
    assert read(**limits).max_tokens == expected


def test_strange_numbers_and_flags_are_left_to_the_backend() -> None:
    found = read(stream="yes", n="two", temperature="hot", metadata=[1])
    assert found == RequestView(endpoint="chat", model="", parameters=frozenset({"n"}))
    assert read(temperature=10**400).temperature is None


def test_reads_hints_from_headers() -> None:
    headers = {
        b"x-specroute-workload": b" code ",
        b"x-specroute-backend": b"gpu-1",
        b"x-session-id": b"abc",
        b"x-specroute-tenant": b"acme",
        b"other": b"x",
    }
    assert read(headers).hints == Hints(workload="code", backend="gpu-1", session="abc", tenant="acme")


def test_the_header_goes_before_the_metadata() -> None:
    assert read(metadata={"workload": "math"}).hints.workload == "math"
    assert read({b"x-specroute-workload": b"code"}, metadata={"workload": "math"}).hints.workload == "code"


@pytest.mark.parametrize("value", [b"", b"   ", b"a\x00b", b"a\nb"])
def test_hints_that_nobody_could_read_are_no_hints(value: bytes) -> None:
    assert read({b"x-session-id": value}).hints == Hints()


@pytest.mark.parametrize(
    ("value", "stays"), [(b"yes", False), (b" Yes ", False), (b"no", True), (b"", True), (b"\xff", True)]
)
def test_a_caller_forbids_stand_ins_by_whatever_does_not_allow_them(value: bytes, stays: bool) -> None:
    assert read({b"x-specroute-stand-ins": value}).hints == Hints(stays=stays)
    assert not read({b"x-session-id": b"abc"}).hints.stays


def test_a_long_hint_is_cut() -> None:
    session = read({b"x-session-id": b"a" * 10_000}).hints.session
    assert session is not None
    assert len(session) < 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYS = (
    "model messages tools tool_choice stream stream_options n max_tokens temperature response_format system prompt input "
    "metadata instructions logprobs seed role content type text name function tool_calls output workload mode"
)
BODIES = st.dictionaries(st.sampled_from(KEYS.split()), JSON, max_size=8)
MESSAGES = st.lists(BODIES | JSON, max_size=4)


@settings(deadline=None)
@given(st.binary())
def test_never_raises_on_bytes(body: bytes) -> None:
    assert isinstance(view("chat", body, {}), RequestView | Malformed)


@settings(deadline=None)
@given(BODIES, MESSAGES)
def test_never_raises_on_strange_shapes(body: dict[str, Any], messages: list[Any]) -> None:
    assert isinstance(view("chat", json.dumps(body).encode(), {}), RequestView | Malformed)
    nested = {"model": "m", "messages": messages, "tools": messages, "input": messages, "prompt": messages}
    assert isinstance(view("chat", json.dumps(nested).encode(), {}), RequestView)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([b"x-session-id", b"x-specroute-workload", b"x-specroute-tenant"]), st.binary()
    )
)
def test_never_raises_on_headers(headers: dict[bytes, bytes]) -> None:
    assert isinstance(view("chat", b"{}", headers), RequestView)


@pytest.mark.parametrize("field", ["messages", "prompt", "input", "tools", "system"])
@pytest.mark.parametrize(
    "item", ["", {}, None, 0, [0], {"role": "user", "content": "hi"}, {"type": "text"}], ids=json.dumps
)
def test_a_crowd_is_sampled(field: str, item: object) -> None:
    view = read(**{field: [item] * 150_000})
    assert sum(len(turn.text) for turn in view.turns) < 2**18
    assert len(view.turns) < 20_000
    assert len(view.tools) <= 64


@pytest.mark.parametrize(
    "end", [{"role": "tool", "content": "ok"}, {"role": "user", "content": "z" * 100_000}]
)
def test_of_a_crowd_the_last_that_somebody_said_has_a_text(end: dict[str, str]) -> None:
    chat = [{"role": "user", "content": "Write a script"}, *[{"role": "tool", "content": "ok"}] * 10_000, end]
    asked = [turn for turn in read(messages=chat).turns if turn.role == "user"]
    assert asked[-1].text


@pytest.mark.parametrize("field", ["prompt", "input"])
def test_of_a_crowd_of_short_texts_a_few_thousand_are_read(field: str) -> None:
    assert 1_000 < len(read(**{field: ["a"] * 150_000}).turns) < 5_000


def test_metadata_beyond_any_meaning_is_not_read() -> None:
    assert read(metadata={str(at): "x" for at in range(10_000)}).metadata == {}


def test_of_a_crowd_of_messages_the_last_is_read() -> None:
    chat = [{"role": "user", "content": "hi"}] * 10_000 + [{"role": "user", "content": "and now?"}]
    view = read(messages=chat)
    assert view.turns[-1].text == "and now?"
    assert sum(turn.chars for turn in view.turns) > 10_000 * len("hi")


def test_a_strange_message_costs_none_of_the_others() -> None:
    strange = {"model": "m", "messages": [{"role": "user", "content": 7}, {"role": "user", "content": "hi"}]}
    seen = view("chat", json.dumps(strange).encode(), {})
    assert isinstance(seen, RequestView)
    assert [turn.text for turn in seen.turns] == ["hi"]


@pytest.mark.parametrize("field", ["stream", "max_tokens", "temperature", "n", "previous_response_id"])
@pytest.mark.parametrize(
    "strange", [[[1]] * 50_000, {str(at): [] for at in range(50_000)}], ids=["array", "object"]
)
def test_what_stands_where_a_plain_value_belongs_is_not_taken_apart(field: str, strange: object) -> None:
    body = json.dumps({"model": "m", "messages": user("hi"), field: strange}).encode()
    tracemalloc.start()
    try:
        seen = view("chat", body, {})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(seen, RequestView)
    assert (seen.stream, seen.max_tokens, seen.temperature, seen.n, seen.hints) == (
        False,
        None,
        None,
        1,
        Hints(),
    )
    assert most < 4 * len(body)
