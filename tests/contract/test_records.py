"""What the gateway records of a request is what the server said of it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.outcome import accepted_by_position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.outcome import Record
    from tests.contract.stack import Stack

CHAT = "/v1/chat/completions"
REQUEST = {"model": "gemma-4-31b", "messages": [{"role": "user", "content": "Tell me about your garden."}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
DRAFTS = {"gemma31-mtp4": 4, "gemma31-eagle5": 5, "gemma31-dflash7": 7, "gemma31-dspark7": 7}
_SAMPLE = re.compile(r"^(vllm:[a-z_]+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_POSITION = re.compile(r'position="(\d+)"')


def counters(stack: Stack, name: str) -> Mapping[str, float]:
    """Counters of a server, one for each position where they have one."""
    found = {}
    for family, labels, value in _SAMPLE.findall(stack.http.get(f"{stack.servers[name].url}/metrics").text):
        position = _POSITION.search(labels)
        key = f"{family}[{position[1]}]" if position else family
        found[key] = found.get(key, 0.0) + float(value)
    return found


def ask(stack: Stack, backend: str, identity: str, **changes: Any) -> tuple[bytes, Record]:
    headers = {"x-specroute-backend": backend, "x-request-id": identity}
    answer = stack.http.post(CHAT, json=REQUEST | changes, headers=headers)
    assert answer.status_code == 200
    return answer.content, stack.records.of(identity)


def last_event(stream: bytes) -> Any:
    return json.loads(stream.split(b"\n\n")[-3].removeprefix(b"data: "))


@pytest.mark.parametrize("backend", DRAFTS)
def test_acceptance_is_what_the_server_reports_of_the_request(stack: Stack, backend: str) -> None:
    whole, of_whole = ask(stack, backend, f"whole-{backend}")
    stream, of_stream = ask(stack, backend, f"stream-{backend}", **USAGE)
    for told, record in ((json.loads(whole), of_whole), (last_event(stream), of_stream)):
        said, found = told["metrics"]["speculative_decoding"], record.outcome.speculation
        assert found.grade == "exact"
        assert found.steps == said["num_spec_steps"] > 0
        assert found.drafted == said["num_draft_tokens"] == found.steps * DRAFTS[backend]
        assert found.accepted == said["num_accepted_draft_tokens"]
        assert list(found.histogram) == said["acceptance_histogram"]
        assert found.mean_accepted_length == pytest.approx(said["mean_acceptance_length"])
        assert found.acceptance_rate == pytest.approx(said["draft_acceptance_rate"])
        assert record.outcome.usage.input_tokens == told["usage"]["prompt_tokens"]
        assert record.outcome.usage.output_tokens == told["usage"]["completion_tokens"]
        assert (record.backend, record.draft_tokens) == (backend, DRAFTS[backend])


@pytest.mark.parametrize("backend", DRAFTS)
@pytest.mark.parametrize(
    "changes", [{}, {"stream": True}, USAGE], ids=["whole", "stream", "stream with usage"]
)
def test_acceptance_is_what_the_server_counts(stack: Stack, backend: str, changes: dict[str, Any]) -> None:
    stack.until_idle()
    before = counters(stack, backend)
    _, record = ask(stack, backend, f"count-{backend}-{len(str(changes))}", **changes)
    after = counters(stack, backend)
    counted = {name: after[name] - before.get(name, 0.0) for name in after}
    found = record.outcome.speculation
    assert found.grade == "exact"
    assert found.steps == counted["vllm:spec_decode_num_drafts_total"]
    assert found.drafted == counted["vllm:spec_decode_num_draft_tokens_total"]
    assert found.accepted == counted["vllm:spec_decode_num_accepted_tokens_total"]
    assert list(accepted_by_position(found.histogram)) == [
        counted[f"vllm:spec_decode_num_accepted_tokens_per_pos_total[{position}]"]
        for position in range(DRAFTS[backend])
    ]
    assert record.outcome.usage.output_tokens == counted["vllm:generation_tokens_total"]
    assert record.outcome.usage.input_tokens == counted["vllm:prompt_tokens_total"]


def test_a_baseline_has_nothing_to_accept(stack: Stack) -> None:
    _, record = ask(stack, "gemma31-none", "baseline-1", stream=True)
    assert record.baseline
    assert record.outcome.speculation.grade == "none"
    assert record.outcome.usage.output_tokens


def test_several_choices_are_not_measured(stack: Stack) -> None:
    _, record = ask(stack, "gemma31-mtp4", "choices-1", n=2)
    assert record.outcome.speculation.grade == "not_measured"


def test_the_sequences_of_several_prompts_are_not_timed_as_one(stack: Stack) -> None:
    headers = {"x-request-id": "prompts-1", "x-specroute-backend": "gemma31-mtp4"}
    body = {"model": REQUEST["model"], "prompt": ["one", "two", "three"], "max_tokens": 20, "stream": True}
    assert stack.http.post("/v1/completions", json=body, headers=headers).status_code == 200
    record = stack.records.of("prompts-1")
    assert record.features.n == 3
    assert record.outcome.usage.output_tokens == 60
    assert record.outcome.ttft is not None
    assert record.outcome.tpot is None


def test_times_of_a_stream_are_taken_where_tokens_arrive(stack: Stack) -> None:
    body, record = ask(stack, "gemma31-dflash7", "times-1", stream=True)
    outcome = record.outcome
    assert outcome.ttft is not None
    assert outcome.first_token is not None
    assert outcome.first_token > outcome.ttft
    assert outcome.decode_seconds is not None
    assert 0 < outcome.ttft + outcome.decode_seconds <= record.ended - record.attempts[-1].started
    assert outcome.tpot == pytest.approx(outcome.decode_seconds / outcome.decode_tokens)
    assert outcome.bytes_out == len(body)
    assert outcome.events == len([event for event in body.split(b"\n\n") if b'"content":"' in event]) - 1


def test_the_gateways_own_counters_add_up_the_records(stack: Stack) -> None:
    def accepted() -> float:
        samples = re.findall(
            r"^specroute_speculation_accepted_tokens_total\{([^}]*)\} (\S+)$",
            stack.http.get("/metrics").text,
            re.MULTILINE,
        )
        return sum(float(value) for labels, value in samples if 'backend="gemma31-eagle5"' in labels)

    before = accepted()
    _, record = ask(stack, "gemma31-eagle5", "metrics-1")
    assert accepted() - before == record.outcome.speculation.accepted
