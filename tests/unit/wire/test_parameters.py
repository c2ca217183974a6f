from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.core.features import PARAMETERS
from gateway.wire.parameters import Parameters, given


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"min_p": 0.1, "top_k": 5}, {"min_p"}),
        ({"logit_bias": {"5": 1}}, {"logit_bias"}),
        ({"logprobs": True, "top_logprobs": 3}, {"logprobs", "top_logprobs"}),
        ({"logprobs": False, "top_logprobs": 0}, set()),
        ({"logprobs": 0, "prompt_logprobs": 0}, {"logprobs", "prompt_logprobs"}),
        ({"seed": 0}, {"seed"}),
        (
            {"structured_outputs": {"regex": "a"}, "guided_choice": ["a"]},
            {"structured_outputs", "guided_choice"},
        ),
        ({"min_p": 0, "logit_bias": {}, "stop": [], "guided_regex": "", "presence_penalty": 0.0}, set()),
        ({"n": 2, "tools": [{"type": "function"}], "tool_choice": "auto"}, {"n", "tools", "tool_choice"}),
        ({"response_format": {"type": "json_object"}}, {"response_format"}),
        ({"n": 1, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}}, set()),
        ({"chat_template": "{{x}}", "prompt_embeds": "AAAA"}, {"chat_template", "prompt_embeds"}),
        ({"min_p": None, "seed": None, "logprobs": None}, set()),
    ],
)
def test_names_the_parameters_that_say_something(body: dict[str, Any], expected: set[str]) -> None:
    read = msgspec.json.decode(msgspec.json.encode(body), type=Parameters)
    assert given(read) == expected
    assert expected <= set(PARAMETERS)


def test_every_parameter_of_the_core_is_read() -> None:
    assert Parameters.__struct_fields__ == PARAMETERS
