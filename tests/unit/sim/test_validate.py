from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backends.sim.fields import RefusalError
from backends.sim.validate import call_of, check, check_length, check_rank, fields_of

if TYPE_CHECKING:
    from backends.sim.call import Call

TURN = {"role": "user", "content": "hi"}


def read(chat: bool = True, **body: Any) -> Call:
    return call_of(fields_of(json.dumps(body).encode(), "application/json; charset=utf-8"), chat=chat)


def refused(chat: bool = True, **body: Any) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        checked(chat, **body)
    return caught.value


def checked(chat: bool = True, *, drafts: bool = True, **body: Any) -> Call:
    body = ({"messages": [TURN]} if chat else {"prompt": "hi"}) | body
    call = read(chat, **body)
    check(call, served=("tiny",), max_model_len=1024, drafts=drafts, auto_tools=True)
    return call


def test_defaults_of_a_chat() -> None:
    call = checked()
    assert (call.stream, call.n, call.max_tokens, call.temperature, call.logprobs) == (
        False,
        1,
        None,
        1.0,
        None,
    )
    assert (call.tool_choice, call.format, call.messages) == ("none", "text", (("user", "hi"),))


def test_the_newer_name_of_max_tokens_wins() -> None:
    assert checked(max_tokens=5, max_completion_tokens=7).max_tokens == 7
    assert checked(chat=False).max_tokens == 16


def test_numbers_may_come_as_text_and_null_means_default() -> None:
    call = checked(max_tokens="12", temperature="0.5", n=2.0, stream=None, top_p=None)
    assert (call.max_tokens, call.temperature, call.n, call.stream, call.top_p) == (12, 0.5, 2, False, 1.0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, "b"], "a\n<image_url>\nb"),
        (None, ""),
        ("x", "x"),
    ],
)
def test_content_in_parts_is_joined(content: Any, text: str) -> None:
    assert checked(messages=[{"role": "user", "content": content}]).messages == (("user", text),)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
    ],
)
def test_prompts_come_in_four_forms(prompt: Any, prompts: Any) -> None:
    assert checked(chat=False, prompt=prompt).prompts == prompts


@pytest.mark.parametrize("prompt", [{"a": 1}, 5, [1.5], ["a", {}]])
def test_other_prompts_are_refused(prompt: Any) -> None:
    assert "string_type" in refused(chat=False, prompt=prompt).message


@pytest.mark.parametrize("prompt", [None, "", []])
def test_no_prompt_is_refused(prompt: Any) -> None:
    assert refused(chat=False, prompt=prompt).param == "prompt"


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"min_p": 0.1}, "min_p and logit_bias sampling parameters are not yet supported", None),
        ({"logit_bias": {"5": 1}}, "min_p and logit_bias sampling parameters are not yet supported", None),
        ({"min_p": 2}, "min_p must be in [0, 1], got 2.0", "min_p"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0.", "max_tokens"),
        ({"top_logprobs": 2}, "`logprobs` must be set to true", "top_logprobs"),
        ({"tool_choice": "auto"}, "`tools` must be set", "tool_choice"),
        ({"n": 1.5}, "got a number with a fractional part", "body.n"),
        ({"n": []}, "Input should be a valid integer", "body.n"),
        ({"temperature": "warm"}, "unable to parse string as a number", "body.temperature"),
        ({"stream": "perhaps"}, "Input should be a valid boolean", "body.stream"),
        ({"model": 5}, "Input should be a valid string", "body.model"),
        ({"messages": "hi"}, "Input should be a valid list", "body.messages"),
        ({"messages": ["hi"]}, "Input should be a valid dictionary", "body.messages.0"),
        ({"stop": 5}, "Input should be a valid string", "body.stop"),
        ({"stream_options": "usage"}, "Input should be a valid dictionary", "body.stream_options"),
        ({"temperature": 10**400}, "Input should be a valid number", "body.temperature"),
        ({"tools": "hammer"}, "Input should be a valid list", "body.tools"),
        ({"tools": [{"type": "function"}]}, "Field required", "body.tools.0.function.name"),
    ],
)
def test_what_is_refused(body: dict[str, Any], message: str, param: str | None) -> None:
    refusal = refused(**body)
    assert message in refusal.message
    assert (refusal.status, refusal.param) == (400, param)


def test_a_named_tool_must_be_declared() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}]
    named = {"type": "function", "function": {"name": "b"}}
    for wrong in (named, {"function": 5}, "a", 5):
        assert "does not match any" in refused(tools=tools, tool_choice=wrong).message
    assert checked(tools=tools, tool_choice={"function": {"name": "a"}}).tool_choice == "a"
    assert checked(tools=tools).tool_choice == "auto"
    assert checked(tools=tools, tool_choice="none").tool_choice == "none"


def test_a_server_without_a_draft_takes_min_p_and_logit_bias() -> None:
    assert checked(drafts=False, min_p=0.1, logit_bias={"5": 1}).min_p == 0.1


def test_several_problems_are_listed_together() -> None:
    refusal = refused(n="x", max_tokens="y")
    assert refusal.message.startswith("2 validation errors:\n")


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"[1]", "model_attributes_type"), (b"\xff\xfe\xfd", "error parsing the body")],
)
def test_a_body_that_is_no_object(raw: bytes, message: str) -> None:
    with pytest.raises(RefusalError, match=message):
        fields_of(raw, "application/json")


def test_prompt_and_answer_must_fit_the_context() -> None:
    check_length(1000, 24, 1024)
    check_length(1023, None, 1024)
    with pytest.raises(RefusalError, match="you requested 25 output tokens"):
        check_length(1000, 25, 1024)
    with pytest.raises(RefusalError, match="exceeds this limit even without any output tokens"):
        check_length(1024, 1, 1024)


def test_choices_are_bounded() -> None:
    assert checked(n=16_384).n == 16_384
    refusal = refused(n=16_385)
    assert refusal.message == (
        "n must be at most 16384, got 16385. To increase this limit, set the VLLM_MAX_N_SEQUENCES "
        "environment variable."
    )
    assert refusal.param is None


@pytest.mark.parametrize("rank", [None, "", "0", "first"])
def test_the_only_rank_is_taken(rank: str | None) -> None:
    check_rank(rank)


@pytest.mark.parametrize("rank", ["1", "9", "-1"])
def test_another_rank_is_refused(rank: str) -> None:
    with pytest.raises(RefusalError, match=rf"data_parallel_rank {rank} is out of range \[0, 1\)\."):
        check_rank(rank)
