"""The real servers by themselves: the facts of their wire that the gateway builds on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.vllm import chain, scraping
from tests.vllm.asking import Answer, ask, eventually

if TYPE_CHECKING:
    from tests.vllm.servers import Server

pytestmark = pytest.mark.vllm

DRAFTING = ["ngram", "draft-model", "eagle3"]
MODELLED = ["draft-model", "eagle3"]
ALL = ["baseline", *DRAFTING]
PROMPTS = [chain.LOOPING, chain.MULTIBYTE, chain.UNREPEATED]


def text_of(answer: Answer) -> str:
    """The text of a chat answer, whole or in pieces."""
    if not answer.body.startswith(b"data:"):
        content: str = answer.json()["choices"][0]["message"]["content"]
        return content
    return "".join(event["choices"][0]["delta"]["content"] for event in answer.events() if event["choices"])


@pytest.mark.parametrize("last", PROMPTS)
@pytest.mark.parametrize("name", ALL)
def test_greedy_answers_are_the_targets_whatever_the_method(
    fleet: dict[str, Server], name: str, last: int
) -> None:
    whole = ask(fleet[name].url, last, max_tokens=60)
    stream = ask(fleet[name].url, last, max_tokens=60, stream=True)
    assert text_of(whole) == text_of(stream) == chain.answer(last, 60)


@pytest.mark.parametrize(
    ("name", "last"),
    [("ngram", chain.LOOPING), ("draft-model", chain.UNREPEATED), ("eagle3", chain.UNREPEATED)],
)
def test_sampled_answers_follow_the_target_under_speculation(
    fleet: dict[str, Server], name: str, last: int
) -> None:
    # The successor's share is 0.9 at temperature 1 and all but 1 at 0.3. Without the plugin it was 0.6.
    answer = ask(fleet[name].url, last, max_tokens=100, temperature=0.3, seed=7)
    assert text_of(answer) == chain.answer(last, 100)


@pytest.mark.parametrize("last", [chain.LOOPING, chain.UNREPEATED])
@pytest.mark.parametrize("name", MODELLED)
def test_acceptance_is_what_the_draft_makes_it(fleet: dict[str, Server], name: str, last: int) -> None:
    expected = chain.acceptance(last, 150, draft_tokens=3)
    before = scraping.samples(fleet[name].url)
    numbers = ask(fleet[name].url, last, max_tokens=150).json()["metrics"]["speculative_decoding"]
    assert numbers["num_spec_steps"] == expected.steps
    assert numbers["num_draft_tokens"] == expected.drafted
    assert numbers["num_accepted_draft_tokens"] == expected.accepted
    assert tuple(numbers["acceptance_histogram"]) == expected.histogram
    assert numbers["num_spec_tokens"] == 3
    counted = eventually(
        lambda: scraping.growth(before, scraping.samples(fleet[name].url)),
        lambda grown: grown[scraping.ACCEPTED] == expected.accepted,
    )
    assert counted[scraping.DRAFTS] == expected.steps
    assert counted[scraping.DRAFTED] == expected.drafted
    assert counted[scraping.ACCEPTED] == expected.accepted


@pytest.mark.parametrize(("last", "rate"), [(chain.LOOPING, 1.0), (chain.UNREPEATED, 0.0)])
def test_prompt_lookup_accepts_all_of_a_loop_and_drafts_nothing_new(
    fleet: dict[str, Server], last: int, rate: float
) -> None:
    numbers = ask(fleet["ngram"].url, last, max_tokens=150).json()["metrics"]["speculative_decoding"]
    assert numbers["draft_acceptance_rate"] == rate
    assert (numbers["num_spec_steps"] > 0) == (rate > 0)


def test_a_stream_is_role_pieces_usage_done(fleet: dict[str, Server]) -> None:
    answer = ask(
        fleet["draft-model"].url,
        chain.LOOPING,
        request_id="stream-1",
        stream=True,
        stream_options={"include_usage": True},
    )
    first, *pieces, last = answer.events()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert {event["id"] for event in (first, *pieces, last)} == {"chatcmpl-stream-1"}
    assert pieces[-1]["choices"][0]["finish_reason"] == "length"
    assert len(pieces) < 40  # 40 tokens: a step's tokens come in one event
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 40
    assert last["metrics"]["speculative_decoding"]["num_draft_tokens"] == 30
    assert last["system_fingerprint"].startswith("vllm-")
    assert "system_fingerprint" not in pieces[-1]


def test_without_usage_a_stream_tells_no_acceptance(fleet: dict[str, Server]) -> None:
    answer = ask(fleet["draft-model"].url, stream=True)
    assert b'"metrics"' not in answer.body
    assert b'"usage"' not in answer.body


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("parameter", [{"min_p": 0.1}, {"logit_bias": {"50": 1}}])
def test_a_server_with_a_draft_refuses_what_the_baseline_takes(
    fleet: dict[str, Server], endpoint: str, parameter: dict[str, Any]
) -> None:
    for name in ALL:
        answer = ask(fleet[name].url, endpoint=endpoint, extra_body=parameter, temperature=0.5)
        assert answer.status == (200 if name == "baseline" else 400)
    assert answer.json()["error"]["message"] == (
        "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
    )


@pytest.mark.parametrize(
    ("fields", "status", "kind", "param"),
    [
        ({"model": "unknown"}, 404, "NotFoundError", "model"),
        ({"max_tokens": 5000}, 400, "BadRequestError", "max_tokens"),
        ({"temperature": -1}, 400, "BadRequestError", "temperature"),
        ({"n": 0}, 400, "BadRequestError", None),
        ({"max_tokens": "many"}, 400, "Bad Request", "body.max_tokens"),
    ],
)
def test_errors_are_openai_shaped(
    fleet: dict[str, Server], fields: dict[str, Any], status: int, kind: str, param: str | None
) -> None:
    answer = ask(fleet["baseline"].url, **fields)
    error = answer.json()["error"]
    assert answer.status == status
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == (kind, status, param)


@pytest.mark.parametrize("name", ALL)
def test_the_model_list_tells_the_context_length(fleet: dict[str, Server], name: str) -> None:
    (model,) = httpx.get(f"{fleet[name].url}/v1/models", trust_env=False).json()["data"]
    assert (model["id"], model["max_model_len"]) == ("tiny", 2048)
