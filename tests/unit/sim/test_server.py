from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.sim import tokens

Make = Callable[..., Any]
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def body(asked: str = "Tell me something nice.", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": asked}]} | more


def test_several_prompts_make_one_answer(ask: Make) -> None:
    request = {"model": "tiny", "prompt": ["one", "two"], "n": 2, "max_tokens": 3}
    answer = ask("POST", TEXT, request).json
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 12


def test_a_client_that_leaves_while_it_sends_is_not_answered(
    virtual: Make, client: Make, simulator: Make
) -> None:
    async def main() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        for path in (CHAT, "/tokenize", "/detokenize"):
            scope = {"type": "http", "method": "POST", "path": path, "headers": []}
            await simulator()(scope, receive, send)

    virtual(main())


def test_metrics_count_what_was_answered(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> str:
        server = simulator()
        for _ in range(3):
            await client(server).ask("POST", CHAT, body(max_tokens=20))
        await client(server).ask("POST", CHAT, body("What is 2 + 2?", stop=["a"]))
        answer = await client(server).ask("GET", "/metrics")
        return str(answer.body, "utf-8")

    page = virtual(main())
    common = 'engine="0",model_name="tiny"'
    assert 'vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 3.0' in page
    assert 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 1.0' in page
    assert f"vllm:time_to_first_token_seconds_count{{{common}}} 4.0" in page
    assert f"vllm:request_generation_tokens_count{{{common}}} 4.0" in page


def test_text_becomes_ids_and_ids_text(ask: Make) -> None:
    found = ask("POST", "/tokenize", {"model": "tiny", "prompt": "import os", "return_token_strs": True}).json
    assert "".join(found["token_strs"]) == "import os"
    assert found["count"] == len(found["tokens"])
    assert ask("POST", "/detokenize", {"model": "tiny", "tokens": found["tokens"]}).json == {
        "prompt": "import os"
    }
    assert ask("POST", "/tokenize", body("import os")).json["count"] > found["count"]


@pytest.mark.parametrize(
    ("path", "sent", "message"),
    [
        ("/tokenize", {"model": "tiny"}, "body.prompt"),
        ("/detokenize", {"model": "tiny"}, "body.tokens"),
        ("/detokenize", {"tokens": [99_999_999]}, "Token id 99999999 is out of vocabulary"),
        ("/tokenize", b"{", "JSON decode error"),
    ],
)
def test_bad_token_requests_are_refused(ask: Make, path: str, sent: Any, message: str) -> None:
    answer = ask("POST", path, sent)
    assert answer.status == 400
    assert message in answer.json["error"]["message"]


def test_request_ids_come_back_in_the_body_and_by_flag_in_a_header(ask: Make, simulator: Make) -> None:
    answer = ask("POST", CHAT, body(max_tokens=1), x_request_id="gw-1")
    assert answer.json["id"] == "chatcmpl-gw-1"
    assert "x-request-id" not in answer.headers
    server = simulator(request_id_headers=True)
    assert ask("GET", "/health", server=server, x_request_id="gw-2").headers["x-request-id"] == "gw-2"
    assert len(ask("GET", "/health", server=server).headers["x-request-id"]) == 32


def test_two_requests_may_have_the_same_id(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> None:
        server = simulator()
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(client(server).ask("POST", CHAT, body(max_tokens=9), x_request_id="same"))
                for _ in range(2)
            ]
        assert [task.result().status for task in asked] == [200, 200]

    virtual(main())


def test_the_header_settles_the_kind(ask: Make) -> None:
    answer = ask("POST", CHAT, body("hello", max_tokens=400), x_sim_workload="multilingual").json
    assert any(word in answer["choices"][0]["message"]["content"] for word in (" el ", " la ", " que "))


@pytest.mark.parametrize("fixed", [{"temperature": 0}, {"seed": 7}])
def test_a_fixed_request_has_the_same_answer_on_every_server(
    ask: Make, simulator: Make, fixed: dict[str, Any]
) -> None:
    servers = (simulator(), simulator("none", 0, seed=9))
    first, second = (ask("POST", CHAT, body(**fixed), server=server).json for server in servers)
    assert first["choices"] == second["choices"]
    assert first["usage"] == second["usage"]


def test_prompt_ids_come_back_as_they_were_given(ask: Make) -> None:
    given = [*tokens.encode("ab"), *tokens.encode("cd")]
    request = {"model": "tiny", "prompt": given, "return_token_ids": True, "max_tokens": 2}
    assert ask("POST", TEXT, request).json["choices"][0]["prompt_token_ids"] == given != tokens.encode("abcd")


def test_a_baseline_does_not_start_with_acceptance_metrics(simulator: Make) -> None:
    with pytest.raises(ValueError, match="requires speculative decoding to be enabled"):
        simulator("none", 0, acceptance="summary")


def test_only_http_is_spoken(virtual: Make, simulator: Make) -> None:
    with pytest.raises(NotImplementedError, match="websocket"):
        virtual(simulator()({"type": "websocket"}, None, None))


def test_fingerprints_tell_configurations_apart(simulator: Make) -> None:
    prints = {simulator().fingerprint, simulator("none", 0).fingerprint, simulator(seed=5).fingerprint}
    assert len(prints) == 3


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from(
        [10**400, 1e308, float("nan"), "", "x", "auto", "\ud800", [], {}, [[]], [{}], [None], ["x"]]
    ),
    st.dictionaries(
        st.sampled_from(["type", "function", "name", "json_schema", "schema", "include_usage"]), st.none()
    ),
)
FIELDS = [
    "max_tokens", "max_completion_tokens", "n", "stop", "stream", "stream_options", "temperature", "top_p", "min_p",
    "seed", "tools", "tool_choice", "response_format", "metadata", "logprobs", "top_logprobs", "messages", "prompt",
    "return_token_ids", "ignore_eos", "echo", "logit_bias", "model",
]  # fmt: skip


@given(
    path=st.sampled_from([CHAT, TEXT, "/tokenize", "/detokenize"]),
    odd=st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=4),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_sent_is_answered(ask: Make, path: str, odd: dict[str, Any]) -> None:
    sent = {"prompt": "hi", "tokens": [5], "max_tokens": 9} | body() | odd
    assert ask("POST", path, sent).status in (200, 400, 404)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": 5},
        {"properties": [1]},
        {"type": "array", "minItems": "x"},
        {"anyOf": [1]},
        {"type": "integer", "minimum": "a"},
    ],
)
def test_a_schema_that_is_none_is_refused(ask: Make, schema: Any) -> None:
    strict = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert ask("POST", CHAT, body(response_format=strict)).status == 400
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert ask("POST", CHAT, body(tools=[tool], tool_choice="required")).status == 400


@pytest.mark.parametrize(
    "raw", [b"[" * 3000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b'{"n":' + b"9" * 5000 + b"}"]
)
def test_a_body_that_no_parser_ends_is_refused(ask: Make, raw: bytes) -> None:
    answer = ask("POST", CHAT, raw)
    assert (answer.status, answer.json) == (400, {"detail": "There was an error parsing the body"})


def test_an_empty_list_of_ids_is_refused(ask: Make) -> None:
    answer = ask("POST", TEXT, {"prompt": [[]]})
    assert (answer.status, answer.json["error"]["message"]) == (400, "The decoder prompt cannot be empty")


def test_many_choices_do_not_keep_others_waiting(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> tuple[bool, int]:
        server = simulator()
        many = asyncio.get_running_loop().create_task(
            client(server).ask("POST", CHAT, body(n=100, max_tokens=1))
        )
        await asyncio.sleep(0)
        probe = await client(server).ask("GET", "/metrics")
        planning = b'vllm:request_params_n_count{engine="0",model_name="tiny"} 0.0' in probe.body
        return planning, len((await many).json["choices"])

    assert virtual(main()) == (True, 100)


def test_an_engine_that_dies_while_answers_are_planned_answers(
    virtual: Make, client: Make, simulator: Make
) -> None:
    async def main() -> int:
        server = simulator()
        many = asyncio.get_running_loop().create_task(client(server).ask("POST", CHAT, body(n=100)))
        await asyncio.sleep(0)
        server.close()
        return int((await many).status)

    assert virtual(main()) == 500


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
def test_tokens_are_those_of_the_served_model(ask: Make, path: str) -> None:
    answer = ask("POST", path, {"model": "nope", "prompt": "x", "tokens": [5]})
    assert (answer.status, answer.json["error"]["param"]) == (404, "model")


def test_an_empty_name_means_the_served_model(ask: Make) -> None:
    assert ask("POST", CHAT, body(model="", max_tokens=1)).json["model"] == "tiny"


def test_the_page_counts_requests_and_describes_the_process(
    virtual: Make, client: Make, simulator: Make
) -> None:
    tool = {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather", "parameters": {}},
    }

    async def main() -> str:
        server = simulator()
        for stream in (False, True):
            asked = body(tools=[tool], tool_choice="required", stream=stream)
            assert (await client(server).ask("POST", CHAT, asked)).status == 200
        await client(server).ask("GET", CHAT)
        return str((await client(server).ask("GET", "/metrics")).body, "utf-8")

    page = virtual(main())
    assert page.startswith("# HELP python_gc_objects_collected_total")
    assert f'http_requests_total{{handler="{CHAT}",method="POST",status="2xx"}} 2.0' in page
    assert 'http_requests_total{handler="none",method="GET",status="4xx"} 1.0' in page
    calls = 'model_name="tiny",outcome="tool_call",request_type="chat_completions"}'
    assert f'vllm:tool_call_parser_invocations_total{{mode="non_streaming",{calls} 1.0' in page
    assert f'vllm:tool_call_parser_invocations_total{{mode="streaming",{calls} 0.0' not in page


def test_an_echo_without_an_answer(ask: Make) -> None:
    answer = ask(
        "POST", TEXT, {"prompt": "hello there", "echo": True, "max_tokens": 0, "temperature": 0}
    ).json
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("hello there", "length")


def test_tokenize_wants_a_prompt_or_messages(ask: Make) -> None:
    assert "2 validation errors" in ask("POST", "/tokenize", {}).json["error"]["message"]


def test_a_text_with_half_a_character_is_refused(ask: Make) -> None:
    answer = ask("POST", CHAT, body("a\ud83d"))
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("TextEncodeInput must be")


def test_a_text_completion_has_no_tools(ask: Make) -> None:
    assert ask("POST", TEXT, {"prompt": "x", "tool_choice": True, "tools": "hammer"}).status == 200


@pytest.mark.parametrize("tools", [{}, "", False])
def test_tools_are_a_list(ask: Make, tools: Any) -> None:
    assert ask("POST", CHAT, body(tools=tools, tool_choice="required")).status == 400
