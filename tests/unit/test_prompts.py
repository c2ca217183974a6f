from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from backends.prompts import Prompt, load
from gateway.core.classify import RuleClassifier
from gateway.core.features import WORKLOADS, Features, extract
from gateway.core.language_words import LANGUAGES
from gateway.wire.inbound import Malformed, view

PROMPTS: Final = load()
KEYS: Final = {"messages", "tools", "max_tokens"}


def features(prompt: Prompt) -> tuple[Features, str]:
    seen = view("chat", json.dumps(prompt.request).encode(), {})
    assert not isinstance(seen, Malformed)
    found = extract(seen)
    return found, RuleClassifier().label(seen, found).label


def last_user(prompt: Prompt) -> str:
    texts: list[str] = [m["content"] for m in prompt.request["messages"] if m["role"] == "user"]
    return texts[-1]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_has_a_few_dozen_prompts(workload: str) -> None:
    prompts = load(workload)
    assert 30 <= len(prompts) <= 40
    assert {prompt.workload for prompt in prompts} == {workload}
    assert sum(prompt.hard is not None for prompt in prompts) >= 8


def test_all_are_loaded_in_the_order_of_the_workloads() -> None:
    assert tuple(prompt for workload in WORKLOADS for prompt in load(workload)) == PROMPTS


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no prompts for workload 'poetry', only for math, code"):
        load("poetry")


def test_ids_and_requests_are_unique() -> None:
    assert [key for key, count in Counter(prompt.id for prompt in PROMPTS).items() if count > 1] == []
    requests = Counter(json.dumps(prompt.request, sort_keys=True) for prompt in PROMPTS)
    assert [key for key, count in requests.items() if count > 1] == []


def test_several_languages_are_spoken() -> None:
    spoken = Counter(prompt.language for prompt in PROMPTS)
    assert set(spoken) <= LANGUAGES
    assert len(spoken) >= 15


@pytest.mark.parametrize("prompt", PROMPTS, ids=[prompt.id for prompt in PROMPTS])
def test_requests_have_the_form_of_a_chat_completion(prompt: Prompt) -> None:
    assert set(prompt.request) <= KEYS
    messages: list[dict[str, Any]] = prompt.request["messages"]
    assert {message["role"] for message in messages} <= {"system", "user", "assistant", "tool"}
    assert messages[-1]["role"] in {"user", "tool"}
    assert last_user(prompt).strip()
    for tool in prompt.request.get("tools", []):
        assert tool["type"] == "function"
        assert set(tool["function"]) == {"name", "description", "parameters"}


def test_tool_calls_have_tools_to_call() -> None:
    texts = {"tools_in_system_prompt"}
    without = [p.id for p in load("tool_use") if "tools" not in p.request and p.hard not in texts]
    assert without == []


def test_most_are_recognised() -> None:
    right = Counter(prompt.workload for prompt in PROMPTS if features(prompt)[1] == prompt.workload)
    assert right.total() / len(PROMPTS) >= 0.93
    assert {name: right[name] for name in WORKLOADS if right[name] < 0.85 * len(load(name))} == {}


def test_the_language_of_the_answer_is_recognised() -> None:
    wrong = [p.id for p in PROMPTS if features(p)[0].output_language not in {p.language, "und"}]
    assert len(wrong) <= 0.03 * len(PROMPTS)
