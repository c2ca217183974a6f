from __future__ import annotations

import json

import pytest

from backends.sweep.prompts import Prompt, PromptError, filled, parse, tokens_of, usual

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


def test_the_shipped_prompts_are_there_by_workload() -> None:
    found = usual(["code", "math"])
    assert set(found) == {"code", "math"}
    assert len(found["code"]) > 20
    with pytest.raises(ValueError, match="no prompts for workload"):
        usual(["poetry"])


@pytest.mark.parametrize(
    ("line", "workload", "content"),
    [
        ({"workload": "code", **HELLO}, "code", "Hello"),
        ({"label": "math", "request": {**HELLO, "model": "x", "stream": True}}, "math", "Hello"),
        ({"prompt": "Say hi"}, "chat", "Say hi"),
    ],
)
def test_lines_of_ones_own_are_read(line: dict, workload: str, content: str) -> None:
    found = parse(json.dumps(line) + "\n\n", "mine.jsonl")
    (prompt,) = found[workload]
    assert prompt.body["messages"][-1]["content"] == content
    assert set(prompt.body) == {"messages"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "mine.jsonl:1: this is not JSON"),
        ("[]", "mine.jsonl:1: this has no messages"),
        ('{"request": 3}', "mine.jsonl:1: this has no messages"),
        ('{"messages": ["x"]}', "mine.jsonl:1: this has no messages"),
        ("\n", "there is no prompt in it"),
        (json.dumps({"workload": "a\nb", **HELLO}), "mine.jsonl:1: 'a.nb' cannot be a workload's name"),
    ],
)
def test_what_is_no_prompt_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(PromptError, match=said):
        parse(text, "mine.jsonl")


def test_lengths_are_named_by_thousands_of_tokens() -> None:
    assert (tokens_of("short"), tokens_of("8k"), tokens_of("32k")) == (0, 8192, 32768)
    for wrong in ("8", "k", "0k", "long"):
        with pytest.raises(ValueError, match="write short, 8k or 32k"):
            tokens_of(wrong)


def test_prompts_are_filled_up_before_the_question_and_each_with_its_own() -> None:
    prompts = [Prompt(str(place), HELLO) for place in range(2)]
    assert filled(prompts, "short") == tuple(prompts)
    one, other = filled(prompts, "2k")
    text = one.body["messages"][-1]["content"]
    assert len(text) == pytest.approx(2048 * 4, rel=0.05)
    assert text.endswith("Hello")
    assert text[:400] != other.body["messages"][-1]["content"][:400]
    assert prompts[0].body == HELLO


def test_ids_that_come_twice_are_told_apart() -> None:
    lines = [{"id": "a", **HELLO}, {"id": "a", "prompt": "Another"}, {"id": "a:2", "prompt": "A third"}]
    found = parse("\n".join(map(json.dumps, lines)), "mine.jsonl")["chat"]
    assert len({one.id for one in found}) == 3


def test_what_shapes_an_answer_is_kept_of_a_whole_request() -> None:
    shape = {
        "chat_template_kwargs": {"enable_thinking": False}, "response_format": {"type": "json_object"},
        "stop": ["END"], "reasoning_effort": "low",
    }  # fmt: skip
    request = {**HELLO, **shape, "max_completion_tokens": 20, "temperature": 1.0, "model": "x"}
    (prompt,) = parse(json.dumps({"request": request}), "mine.jsonl")["chat"]
    assert prompt.body == {**HELLO, **shape, "max_tokens": 20}


def test_a_message_of_several_parts_is_filled_up_with_one_more() -> None:
    part = {"type": "text", "text": "Hi"}
    (prompt,) = filled([Prompt("a", {"messages": [{"role": "user", "content": [part]}]})], "1k")
    first, last = prompt.body["messages"][-1]["content"]
    assert first["type"] == "text"
    assert len(first["text"]) > 4000
    assert last == part
