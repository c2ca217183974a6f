from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from backends.sim import tokens
from backends.sim.fields import RefusalError
from backends.sim.limits import check, check_length, check_rank
from backends.sim.prompt import Prompt
from backends.sim.validate import call_of, fields_of

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
        ([{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}, "b"], "a\nno\nb"),
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


@pytest.mark.parametrize(
    ("prompt", "kinds"),
    [
        ({"a": 1}, ["list_type", "list_type", "string_type", "list_type"]),
        (5, ["list_type", "list_type", "string_type", "list_type"]),
        ([1.5], ["int_from_float", "list_type", "string_type", "string_type"]),
        ([-1], ["greater_than_equal", "list_type", "string_type", "string_type"]),
        (["a", {}], ["int_parsing", "int_type", "list_type", "list_type", "string_type", "string_type"]),
        ([[1, "a"]], ["int_type", "int_parsing", "string_type", "string_type"]),
    ],
)
def test_other_prompts_are_refused_for_each_form_they_do_not_have(prompt: Any, kinds: list[str]) -> None:
    assert re.findall("'type': '(.*?)'", refused(chat=False, prompt=prompt).message) == kinds


@pytest.mark.parametrize("prompt", [None, ""])
def test_no_prompt_is_refused(prompt: Any) -> None:
    assert refused(chat=False, prompt=prompt).param == "prompt"


def test_an_empty_list_of_prompts_is_refused() -> None:
    assert refused(chat=False, prompt=[]).message == "You must pass at least one prompt"


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"min_p": 0.1}, "min_p and logit_bias sampling parameters are not yet supported", None),
        ({"logit_bias": {"5": 1}}, "min_p and logit_bias sampling parameters are not yet supported", None),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0.", "max_tokens"),
        ({"top_logprobs": 2}, "`logprobs` must be set to true", "top_logprobs"),
        ({"tool_choice": "auto"}, "`tools` must be set", "tool_choice"),
        ({"n": 1.5}, "got a number with a fractional part", "body.n"),
        ({"n": []}, "Input should be a valid integer", "body.n"),
        ({"temperature": "warm"}, "unable to parse string as a number", "body.temperature"),
        ({"stream": "perhaps"}, "Input should be a valid boolean", "body.stream"),
        ({"model": 5}, "Input should be a valid string", "body.model"),
        ({"messages": "hi"}, "Input should be a valid list", "body.messages"),
        (
            {"messages": ["hi"]},
            "8 validation errors",
            "body.messages.0.ChatCompletionDeveloperMessageParam",
        ),
        ({"stop_token_ids": "x"}, "Input should be a valid list", "body.stop_token_ids"),
        ({"parallel_tool_calls": "x"}, "unable to interpret input", "body.parallel_tool_calls"),
        ({"stop": 5}, "Input should be a valid string", "body.stop"),
        (
            {"stream": True, "stream_options": "usage"},
            "Input should be a valid dictionary",
            "body.stream_options",
        ),
        ({"temperature": 10**400}, "Input should be a valid number", "body.temperature"),
        ({"tools": "hammer"}, "Input should be a valid list", "body.tools"),
        ({"tools": [{"type": "function"}]}, "Field required", "body.tools.0.function"),
    ],
)
def test_what_is_refused(body: dict[str, Any], message: str, param: str | None) -> None:
    refusal = refused(**body)
    assert message in refusal.message
    assert (refusal.status, refusal.param) == (400, param)


def test_a_named_tool_must_be_declared() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}]
    named = {"type": "function", "function": {"name": "b"}}
    assert "does not match any" in refused(tools=tools, tool_choice=named).message
    assert "Invalid value for `function`: `5`" in refused(tools=tools, tool_choice={"function": 5}).message
    assert "Expected field `name`" in refused(tools=tools, tool_choice={"function": {}}).message
    for wrong in ("a", 5):
        assert f"Invalid value for `tool_choice`: {wrong}!" in refused(tools=tools, tool_choice=wrong).message
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
    check_length(Prompt.read((5,) * 1000), 24, 1024)
    check_length(Prompt.read((5,) * 1023), None, 1024)
    with pytest.raises(RefusalError, match="you requested 25 output tokens"):
        check_length(Prompt.read((5,) * 1000), 25, 1024)
    with pytest.raises(RefusalError, match="contains 1024 input tokens, which exceeds this limit"):
        check_length(Prompt.read((5,) * 1024), 1, 1024)


def test_a_long_text_is_refused_by_its_characters_or_cut() -> None:
    with pytest.raises(RefusalError) as caught:
        check_length(Prompt.read("x" * 17_000), 1, 1024)
    assert caught.value.param == "input_text"
    assert caught.value.message == (
        "This model's maximum context length is 1024 tokens. However, your prompt contains 17000 characters "
        "(more than 16384 characters, which is the upper bound for 1024 input tokens). Please reduce the "
        "length of the input prompt. (parameter=input_text, value=17000)"
    )
    with pytest.raises(RefusalError, match=r"contains at least 1025 input tokens.*value=1025"):
        check_length(Prompt.read("x" * 16_000), 1, 1024)
    check_length(Prompt.read((5,) * 1000), 1, 1024)


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


RANGES: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 3}, "temperature must be in [0, 2], got 3.0. (parameter=temperature, value=3.0)"),
    (
        {"temperature": "nan"},
        "temperature must be a finite number, got nan. (parameter=temperature, value=nan)",
    ),
    ({"top_k": -5}, "top_k must be 0 (disable), or at least 1, got -5."),
    ({"min_p": 2}, "min_p must be in [0, 1], got 2.0."),
    ({"presence_penalty": 9}, "presence_penalty must be in [-2, 2], got 9.0."),
    ({"frequency_penalty": -9}, "frequency_penalty must be in [-2, 2], got -9.0."),
    ({"repetition_penalty": 0}, "repetition_penalty must be greater than zero, got 0.0."),
    ({"repetition_penalty": "inf"}, "repetition_penalty must be a finite number, got inf."),
    ({"min_tokens": -1}, "min_tokens must be greater than or equal to 0, got -1."),
    ({"min_tokens": 5, "max_tokens": 3}, "min_tokens must be less than or equal to max_tokens=3, got 5."),
    ({"stop": ""}, "stop cannot contain an empty string."),
    ({"stop": ["a", ""]}, "stop cannot contain an empty string."),
    ({"n": 2, "temperature": 0}, "n must be 1 when using greedy sampling, got 2."),
    (
        {"logit_bias": {"x": 1}},
        (
            "logit_bias contains key(s) that cannot be converted to integer token IDs: ['x'] "
            "(parameter=logit_bias, value=['x'])"
        ),
    ),
    (
        {"logprobs": True, "top_logprobs": -2},
        "`top_logprobs` must be a positive value or -1. (parameter=top_logprobs, value=-2)",
    ),
    ({"top_logprobs": "x"}, "`top_logprobs` must be an integer. (parameter=top_logprobs, value=x)"),
    (
        {"top_logprobs": 2},
        "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)",
    ),
    (
        {"prompt_logprobs": 1, "stream": True},
        "`prompt_logprobs` are not available when `stream=True`. (parameter=prompt_logprobs)",
    ),
    (
        {"prompt_logprobs": -3},
        "`prompt_logprobs` must be a positive value or -1. (parameter=prompt_logprobs, value=-3)",
    ),
    (
        {"tools": []},
        (
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. "
            "(parameter=tools)"
        ),
    ),
    ({"tool_choice": "auto"}, "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)"),
    (
        {"response_format": {"type": "json_schema"}},
        (
            "When response_format type is 'json_schema', the 'json_schema' field must be provided. "
            "(parameter=response_format)"
        ),
    ),
    (
        {"continue_final_message": True, "add_generation_prompt": True},
        "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
    ),
    (
        {"messages": []},
        "Cannot apply chat template to an empty conversation. Provide at least one message.",
    ),
    ({"messages": None}, "'NoneType' object is not iterable"),
    (
        {"allowed_token_ids": []},
        "allowed_token_ids is not None and empty! (parameter=allowed_token_ids, value=[])",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "tiny is not a multimodal model",
    ),
]


@pytest.mark.parametrize(("body", "message"), RANGES)
def test_the_words_of_a_refusal_are_those_of_a_real_server(body: dict[str, Any], message: str) -> None:
    refusal = refused(**body)
    assert refusal.message == message
    named = re.search(r"\(parameter=(\w+)", message)
    assert (refusal.kind, refusal.param) == ("BadRequestError", named and named[1])


TYPES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"seed": 2**70},
        [
            (
                "{'type': 'less_than_equal', 'loc': 'body.seed', 'msg': 'Input should be less than or equal to "
                "9223372036854775807', 'input': '1180591620717411303424', 'ctx': {'le': 9223372036854775807}}"
            )
        ],
    ),
    (
        {"seed": -(2**70)},
        [
            (
                "{'type': 'greater_than_equal', 'loc': 'body.seed', 'msg': 'Input should be greater than or equal "
                "to -9223372036854775808', 'input': '-1180591620717411303424', 'ctx': {'ge': -9223372036854775808}}"
            )
        ],
    ),
    (
        {"logit_bias": [1]},
        [
            (
                "{'type': 'dict_type', 'loc': 'body.logit_bias', 'msg': 'Input should be a valid dictionary', "
                "'input': '<list of 1 items>'}"
            )
        ],
    ),
    (
        {"user": 5},
        [
            "{'type': 'string_type', 'loc': 'body.user', 'msg': 'Input should be a valid string', 'input': '5'}"
        ],
    ),
    (
        {"stop": 5},
        [
            "{'type': 'string_type', 'loc': 'body.stop', 'msg': 'Input should be a valid string', 'input': '5'}",
            "{'type': 'list_type', 'loc': 'body.stop', 'msg': 'Input should be a valid list', 'input': '5'}",
        ],
    ),
    (
        {"response_format": {"type": "xml"}},
        [
            (
                "{'type': 'literal_error', 'loc': 'body.response_format.type', 'msg': \"Input should be 'text', "
                "'json_object' or 'json_schema'\", 'input': 'xml', 'ctx': {'expected': \"'text', 'json_object' or "
                "'json_schema'\"}}"
            ),
            (
                "{'type': 'literal_error', 'loc': 'body.response_format.type', 'msg': \"Input should be "
                "'structural_tag'\", 'input': 'xml', 'ctx': {'expected': \"'structural_tag'\"}}"
            ),
            (
                "{'type': 'missing', 'loc': 'body.response_format.format', 'msg': 'Field required', 'input': "
                "'<dict of 1 items>'}"
            ),
            (
                "{'type': 'literal_error', 'loc': 'body.response_format.type', 'msg': \"Input should be "
                "'structural_tag'\", 'input': 'xml', 'ctx': {'expected': \"'structural_tag'\"}}"
            ),
            (
                "{'type': 'missing', 'loc': 'body.response_format.structures', 'msg': 'Field required', 'input': "
                "'<dict of 1 items>'}"
            ),
            (
                "{'type': 'missing', 'loc': 'body.response_format.triggers', 'msg': 'Field required', 'input': "
                "'<dict of 1 items>'}"
            ),
        ],
    ),
]


@pytest.mark.parametrize(("body", "lines"), TYPES)
def test_wrong_types_are_listed_as_by_a_real_server(body: dict[str, Any], lines: list[str]) -> None:
    assert refused(**body).message.split("\n")[1:] == [f"  {line}" for line in lines]


@pytest.mark.parametrize(
    ("format_", "kinds"),
    [
        ("json", ["model_attributes_type"] * 3),
        ({}, ["missing"] * 6),
    ],
)
def test_a_format_that_is_none_of_three(format_: Any, kinds: list[str]) -> None:
    assert re.findall("'type': '(.*?)'", refused(response_format=format_).message) == kinds


@pytest.mark.parametrize("format_", [None, {"type": "text"}, {"type": "structural_tag", "format": {}}])
def test_formats_that_leave_the_text_alone(format_: Any) -> None:
    assert checked(response_format=format_).schema is None


@pytest.mark.parametrize(
    ("tool", "kind", "where"),
    [
        (5, "model_attributes_type", "body.tools.0"),
        ({"function": 5}, "model_attributes_type", "body.tools.0.function"),
        ({"function": {}}, "missing", "body.tools.0.function.name"),
        ({"function": {"name": 5}}, "string_type", "body.tools.0.function.name"),
    ],
)
def test_what_is_no_tool(tool: Any, kind: str, where: str) -> None:
    refusal = refused(tools=[tool])
    assert (refusal.param, f"'type': '{kind}'" in refusal.message) == (where, True)


@pytest.mark.parametrize("value", ["true", 1, "1", 1.0, "Yes", "on"])
def test_true_has_many_names(value: Any) -> None:
    assert checked(stream=value).stream
    assert checked(stream=True, stream_options={"include_usage": value}).include_usage


@pytest.mark.parametrize("value", ["false", 0, "0", "OFF", 0.0])
def test_so_has_false(value: Any) -> None:
    assert not checked(stream=value).stream


@pytest.mark.parametrize(
    ("value", "kind"), [(2, "bool_parsing"), ("maybe", "bool_parsing"), (1.5, "bool_type"), ([], "bool_type")]
)
def test_what_is_neither(value: Any, kind: str) -> None:
    assert f"'type': '{kind}'" in refused(stream=value).message


def test_an_echo_needs_no_answer() -> None:
    assert checked(chat=False, echo=True, max_tokens=0).max_tokens == 0
    assert refused(chat=False, max_tokens=0).param == "max_tokens"


def test_a_suffix_is_refused() -> None:
    refusal = refused(chat=False, suffix="x")
    assert refusal.message == "suffix is only supported for models with FIM completion rendering"
    assert refusal.param == "suffix"


def test_a_message_goes_on_only_without_a_new_one() -> None:
    assert "are not compatible" in refused(continue_final_message=True).message
    assert checked(continue_final_message=True, add_generation_prompt=False).messages


def test_all_logprobs_are_too_many() -> None:
    message = f"Requested sample logprobs of {tokens.VOCABULARY}, which is greater than max allowed: 20"
    assert message in refused(logprobs=True, top_logprobs=-1).message
    assert message in refused(chat=False, logprobs=-1).message
    assert refused(chat=False, logprobs=-2).message.startswith("`logprobs` must be a positive value or -1.")


@pytest.mark.parametrize("raw", [b"", b"null"])
def test_a_body_that_is_nothing(raw: bytes) -> None:
    with pytest.raises(RefusalError) as caught:
        fields_of(raw, "application/json")
    assert caught.value.message == (
        "1 validation error:\n  {'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}"
    )
    assert caught.value.param == "body"


def test_no_choices_and_too_many_tokens_are_refused() -> None:
    assert refused(n=0).message == "n must be at least 1, got 0."
    assert refused(max_tokens=1025).param == "max_tokens"
