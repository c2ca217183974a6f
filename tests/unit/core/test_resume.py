import pytest

from gateway.core.resume import COPIED, obstacle, obstacle_in
from tests import factories


def features(**changes):
    return factories.features(**{"endpoint": "chat", "stream": True} | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"endpoint": "completions"},
        {"parameters": frozenset(COPIED)},
        {"parameters": frozenset({"seed"}), "temperature": 0.0},
        {"tools": 3, "tool_choice": "none"},
    ],
    ids=["chat", "completions", "copied-parameters", "greedy-seed", "tools-not-to-be-called"],
)
def test_what_can_be_gone_on_with(changes):
    assert obstacle(features(**changes)) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"endpoint": "responses"}, "only streams"),
        ({"stream": False}, "only streams"),
        ({"n": 2}, "n is not 1"),
        ({"parameters": frozenset({"stop"})}, "stop may have held text back"),
        ({"parameters": frozenset({"top_logprobs", "logprobs"})}, "logprobs would have to be spliced"),
        (
            {"parameters": frozenset({"frequency_penalty"})},
            "frequency_penalty counts the tokens of the answer",
        ),
        ({"parameters": frozenset({"seed"})}, "a seed starts the sampling anew"),
        ({"tools": 1}, "a tool call may have begun"),
        ({"response_format": "json_object"}, "response_format binds"),
    ],
)
def test_what_cannot_says_why(changes, why):
    assert why in obstacle(features(**changes))


def test_nothing_is_both_copied_and_in_the_way():
    for parameter in COPIED:
        assert obstacle(features(parameters=frozenset({parameter}))) is None


TEXT = {"role": "user", "content": [{"type": "text", "text": "hi"}, "there"]}


@pytest.mark.parametrize(
    "request_",
    [
        {"model": "m", "messages": [TEXT, {"role": "user", "content": "hi"}], "max_tokens": 8},
        dict.fromkeys(COPIED, 1),
        {"prompt": "hi"},
        {"prompt": ["hi"]},
        {"prompt": [1, 2, 3]},
        {"prompt": [[1, 2, 3]]},
        {"vllm_xargs": None},
        {"frequency_penalty": 0},
        {"stream_options": {"include_usage": True}},
        {"chat_template_kwargs": {"enable_thinking": False}, "metadata": {"team": "a"}},
    ],
    ids=str,
)
def test_requests_that_can_be_gone_on_with(request_):
    assert obstacle_in(request_) is None


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"vllm_xargs": {"a": 1}}, "vllm_xargs is not known"),
        ({"thinking_token_budget": 9}, "thinking_token_budget is not known"),
        ({"something_of_tomorrow": 0}, "something_of_tomorrow is not known"),
        ({"return_token_ids": True}, "return_token_ids is not known"),
        ({"prompt": ["a", "b"]}, "several prompts"),
        ({"prompt": [[1], [2]]}, "several prompts"),
        ({"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, "more than usage"),
        (
            {"messages": [TEXT, {"content": [{"type": "image_url", "image_url": {}}]}]},
            "not all of the prompt",
        ),
        ({"messages": [{"content": [7]}]}, "not all of the prompt"),
    ],
)
def test_what_a_request_says_may_be_in_the_way(request_, why):
    assert why in obstacle_in(request_)
