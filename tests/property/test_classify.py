from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import models
from gateway.core.classify import Classification, classify
from gateway.core.features import WORKLOADS, extract
from gateway.core.policy import ClassifierSettings
from gateway.wire.inbound import Malformed, view
from tests.factories import learnt_labels

if TYPE_CHECKING:
    from gateway.core.model import TrainedClassifier

classifier = lru_cache(maxsize=1)(models.trained)


def found(body: bytes, model: TrainedClassifier | None = None) -> Classification | None:
    """What the gateway finds of a body, None where it refuses it."""
    seen = view("chat", body, {})
    if isinstance(seen, Malformed):
        return None
    return classify(seen, extract(seen), ClassifierSettings(), model or classifier())


def sound(answer: Classification) -> bool:
    known = answer.label in WORKLOADS and 0.0 <= answer.confidence <= 1.0 + 1e-9
    return known and (not answer.scores or abs(sum(answer.scores.values()) - 1) < 1e-6)


text = st.text(max_size=300) | st.sampled_from(
    ["", "🙂" * 40, "QUJD" * 2000, "\u200f\u0000", "İ" * 3000, "```", "\\"]
)
part = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "input_audio", "tool_result"])},
    optional={
        "text": text,
        "image_url": st.just({"url": "data:image/png;base64,AAAA"}),
        "input_audio": st.none(),
    },
)
content = st.none() | text | st.lists(part | text, max_size=4) | st.integers() | st.just({})
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant", "tool", "developer", "", "robot"]),
        "content": content,
    },
    optional={"tool_calls": st.lists(st.just({}), max_size=2)},
)
tool = (
    st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries({"name": text})})
    | st.none()
)
body = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(message, max_size=6) | text | st.none(),
        "prompt": text | st.lists(st.integers(0, 9), max_size=5),
        "input": content,
        "tools": st.lists(tool, max_size=4) | text,
        "tool_choice": st.sampled_from(["auto", "none", "required", 3]),
        "response_format": st.just({"type": "json_object"}),
    },
)


@given(body)
def test_any_body_gets_a_label_and_probabilities(request: dict[str, Any]) -> None:
    answer = found(json.dumps(request).encode())
    assert answer is not None
    assert sound(answer)


@given(body, st.floats(-40, 40), st.floats(0, 1))
def test_any_body_gets_one_beside_labels_of_ones_own_too(
    request: dict[str, Any], odds: float, threshold: float
) -> None:
    seen = view("chat", json.dumps(request).encode(), {})
    assert not isinstance(seen, Malformed)
    settings = ClassifierSettings(examples=learnt_labels(odds, "sql", "legal"), threshold=threshold)
    answer = classify(seen, extract(seen), settings, classifier())
    assert answer.label in {*WORKLOADS, "sql", "legal"}
    assert 0.0 <= answer.confidence <= 1.0 + 1e-9
    assert answer.confidence >= threshold or answer.source == "default"
    assert not answer.scores or abs(sum(answer.scores.values()) - 1) < 1e-6


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda raw: b'{"prompt":"' + raw + b'"}'))
def test_any_bytes_get_a_label_or_are_refused(raw: bytes) -> None:
    answer = found(raw)
    assert answer is None or sound(answer)


@given(body)
def test_the_same_body_gets_the_same_answer(request: dict[str, Any]) -> None:
    raw = json.dumps(request).encode()
    assert found(raw) == found(raw)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": "🙂🎉👍🏽"}],
        [{"role": "user", "content": "aGVsbG8gd29ybGQ" * 5000}],
        [{"role": "user", "content": None}],
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "input_audio"}],
            }
        ],
        [{"role": role, "content": "and so on"} for _ in range(5000) for role in ("user", "assistant")],
        [{"role": "system", "content": "Be brief."}] * 10_000,
    ],
    ids=["empty", "emoji", "base64", "null", "parts", "ten thousand turns", "ten thousand system prompts"],
)
def test_what_is_odd_gets_a_label_too(messages: list[dict[str, Any]]) -> None:
    answer = found(json.dumps({"messages": messages}).encode())
    assert answer is not None
    assert sound(answer)


def test_bytes_that_are_no_utf8_are_refused_or_labelled() -> None:
    answer = found(b'{"messages":[{"role":"user","content":"\xff\xfe caf\xe9"}]}')
    assert answer is None or sound(answer)
