# ruff: noqa: S311 - seeded draws, no secrets
from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from backends.sim import tokens
from backends.sim.answer import Answer, plan
from backends.sim.fields import Fields
from backends.sim.prompt import Prompt, render
from backends.sim.validate import call_of
from backends.sim.wording import Writer

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Forecast for a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK = {"type": "function", "function": {"name": "set_timer"}}


def say(asked: str = "Tell me something nice.", *, room: int = 4000, seed: int = 1, **body: Any) -> Answer:
    body = {"messages": [{"role": "user", "content": asked}]} | body
    call = call_of(Fields(body), chat=True)
    writer = Writer(call, None, Random(seed))
    return plan(call, Prompt.read(render(call.messages)), room, writer, 0)


def test_an_answer_ends_by_itself_with_an_end_token_that_shows_nothing() -> None:
    answer = say()
    assert (answer.reason, answer.stop, answer.workload) == ("stop", None, "chat")
    assert answer.generated[-1] == tokens.END_OF_TURN
    assert answer.shown[-1] == ""
    assert len(answer.shown) == len(answer.generated)
    assert tokens.decode(answer.generated[:-1]) == "".join(answer.shown)


def test_max_tokens_and_the_context_cut_it() -> None:
    assert (len(say(max_tokens=7).generated), say(max_tokens=7).reason) == (7, "length")
    assert (len(say(room=5).generated), say(room=5).reason) == (5, "length")


def test_lengths_vary_from_draw_to_draw() -> None:
    assert len({len(say(seed=seed).generated) for seed in range(12)}) > 4


def test_ignore_eos_goes_on_to_the_end() -> None:
    answer = say(max_tokens=3000, ignore_eos=True)
    assert (len(answer.generated), answer.reason) == (3000, "length")


def test_a_stop_string_ends_the_answer_before_itself() -> None:
    whole = "".join(say().shown)
    stop = whole[40:46]
    at = whole.index(stop)
    answer = say(stop=["never there", stop])
    assert (answer.text, answer.reason, answer.stop) == (whole[:at], "stop", stop)
    assert tokens.decode(answer.generated).startswith(whole[: at + len(stop)])
    kept = say(stop=stop, include_stop_str_in_output=True)
    assert kept.text == whole[: at + len(stop)]


def test_the_earliest_stop_string_wins() -> None:
    whole = "".join(say().shown)
    assert say(stop=[whole[30:34], whole[5:9]]).stop == whole[5:9]


@pytest.mark.parametrize(
    ("asked", "choice", "called"),
    [
        ("What is the weather like?", "auto", "get_weather"),
        ("Tell me a joke.", "auto", None),
        ("What is the weather like?", "none", None),
        ("Tell me a joke.", "required", "get_weather"),
        ("Wake me with a timer.", "required", "set_timer"),
        ("Tell me a joke.", {"type": "function", "function": {"name": "set_timer"}}, "set_timer"),
    ],
)
def test_which_tool_is_called(asked: str, choice: Any, called: str | None) -> None:
    answer = say(asked, tools=[WEATHER, CLOCK], tool_choice=choice)
    assert (answer.tool.name if answer.tool else None) == called
    assert answer.reason == ("tool_calls" if called else "stop")


def test_the_arguments_of_a_tool_call_are_json_that_fits_its_schema() -> None:
    answer = say("The weather?", tools=[WEATHER])
    assert answer.tool is not None
    arguments = "".join(answer.shown[answer.tool.start : answer.tool.stop])
    assert list(json.loads(arguments)) == ["city"]
    assert answer.workload == "tool_use"


def test_a_tool_that_has_answered_is_not_called_again() -> None:
    turns = [{"role": "user", "content": "The weather?"}, {"role": "tool", "content": "Rain."}]
    assert say("The weather?", tools=[WEATHER], messages=turns).tool is None


def test_structured_answers_are_valid_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    strict = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = json.loads("".join(say(response_format=strict).shown))
    assert isinstance(answer["a"], bool)
    assert json.loads("".join(say(response_format={"type": "json_object"}).shown))


def test_a_label_in_the_metadata_decides() -> None:
    assert say(metadata={"x-sim-workload": "math"}).workload == "math"
