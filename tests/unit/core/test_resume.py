import pytest

from gateway.core.resume import COPIED, obstacle
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
