"""The gateway in front of real servers: bytes, acceptance, one trace, clients that leave, refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import openai
import pytest

from gateway.core import reasons
from gateway.core.decide import Decision
from gateway.core.outcome import accepted_by_position
from tests.vllm import chain, scraping
from tests.vllm.asking import ask, dateless, eventually, joined, question, sdk
from tests.vllm.collector import CLIENT, SERVER

if TYPE_CHECKING:
    from tests.vllm.collector import Collector
    from tests.vllm.conftest import Front
    from tests.vllm.servers import Server

pytestmark = pytest.mark.vllm

DRAFTING = ["ngram", "draft-model", "eagle3"]
ALL = ["baseline", *DRAFTING]
ENDPOINTS = ["chat", "completions"]
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("name", ALL)
def test_whole_answers_are_the_servers_bytes(
    fleet: dict[str, Server], front: Front, name: str, endpoint: str
) -> None:
    asked: dict[str, Any] = {
        "last": chain.MULTIBYTE,
        "endpoint": endpoint,
        "request_id": f"whole-{name}-{endpoint}",
    }
    direct = ask(fleet[name].url, **asked)
    through = ask(front.url, backend=name, **asked)
    assert dateless(through.body) == dateless(direct.body)
    assert through.headers["x-specroute-backend"] == name
    assert through.headers["x-request-id"] == asked["request_id"]
    assert through.headers["content-type"] == direct.headers["content-type"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("name", ALL)
def test_streams_with_usage_are_the_servers_bytes(
    fleet: dict[str, Server], front: Front, name: str, endpoint: str
) -> None:
    asked: dict[str, Any] = {
        "last": chain.MULTIBYTE,
        "endpoint": endpoint,
        "request_id": f"stream-{name}-{endpoint}",
        "stream": True,
        **USAGE,
    }
    direct = ask(fleet[name].url, **asked)
    through = ask(front.url, backend=name, **asked)
    assert joined(through.body) == joined(direct.body)
    assert through.headers["content-type"] == direct.headers["content-type"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("name", ALL)
def test_streams_without_usage_hide_that_the_gateway_asked_for_it(
    fleet: dict[str, Server], front: Front, name: str, endpoint: str
) -> None:
    request_id = f"bare-{name}-{endpoint}"
    asked: dict[str, Any] = {
        "last": chain.LOOPING,
        "endpoint": endpoint,
        "request_id": request_id,
        "stream": True,
    }
    direct = ask(fleet[name].url, **asked)
    through = ask(front.url, backend=name, **asked)
    assert joined(through.body) == joined(direct.body)
    assert front.records.of(request_id).outcome.usage.output_tokens == 40


@pytest.mark.parametrize("stream", [False, True])
def test_the_shortest_answer_is_equal_with_no_allowance(
    fleet: dict[str, Server], front: Front, stream: bool
) -> None:
    # One token comes in one piece, and with log-probabilities, so nothing is left to chance but the date.
    asked: dict[str, Any] = {
        "request_id": f"shortest-{stream}",
        "max_tokens": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "stream": stream,
        **(USAGE if stream else {}),
    }
    direct = ask(fleet["baseline"].url, **asked)
    through = ask(front.url, backend="baseline", **asked)
    assert b'"top_logprobs":[{' in direct.body
    assert dateless(through.body) == dateless(direct.body)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 5000},
        {"temperature": -1},
        {"max_tokens": "many"},
        {"stream": True, "temperature": -1},
        {"endpoint": "completions", "prompt": [chain.LOOPING] * 3000},
    ],
)
def test_refusals_are_the_servers_bytes(
    fleet: dict[str, Server], front: Front, fields: dict[str, Any]
) -> None:
    direct = ask(fleet["baseline"].url, **fields)
    through = ask(front.url, backend="baseline", **fields)
    assert direct.status == 400
    assert (through.status, through.body) == (direct.status, direct.body)


def test_an_alias_reaches_the_server_under_its_own_name(front: Front) -> None:
    answer = ask(front.url, model="made-up")
    assert answer.status == 200
    assert answer.json()["choices"][0]["message"]["content"] == chain.answer(chain.UNREPEATED, 40)


def test_the_sdk_reads_a_stream_through_the_gateway(front: Front) -> None:
    with sdk(front.url) as client:
        chunks = list(client.chat.completions.create(**question(chain.MULTIBYTE, stream=True, **USAGE)))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == chain.answer(chain.MULTIBYTE, 40)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 40


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("last", [chain.LOOPING, chain.UNREPEATED])
@pytest.mark.parametrize("name", DRAFTING)
def test_the_record_has_the_acceptance_that_the_server_counted(
    fleet: dict[str, Server], front: Front, name: str, last: int, stream: bool
) -> None:
    request_id = f"acceptance-{name}-{last}-{stream}"
    before = scraping.samples(fleet[name].url)
    through = ask(
        front.url,
        last,
        backend=name,
        request_id=request_id,
        max_tokens=150,
        stream=stream,
        **(USAGE if stream else {}),
    )
    record = front.records.of(request_id)
    measured = record.outcome.speculation
    reported = (through.events()[-1] if stream else through.json())["metrics"]["speculative_decoding"]
    assert (record.backend, record.method) == (name, name)
    assert measured.grade == "exact"
    assert measured.steps == reported["num_spec_steps"]
    assert measured.drafted == reported["num_draft_tokens"]
    assert measured.accepted == reported["num_accepted_draft_tokens"]
    assert list(measured.histogram) == reported["acceptance_histogram"]
    assert record.outcome.usage.output_tokens == 150

    counted = eventually(
        lambda: scraping.growth(before, scraping.samples(fleet[name].url)),
        lambda grown: grown[scraping.GENERATED] == 150,
    )
    assert measured.steps == counted[scraping.DRAFTS]
    assert measured.drafted == counted[scraping.DRAFTED]
    assert measured.accepted == counted[scraping.ACCEPTED]
    assert accepted_by_position(measured.histogram) == tuple(
        counted[f"{scraping.ACCEPTED_AT}@{position}"] for position in range(record.draft_tokens)
    )
    if name != "ngram":
        expected = chain.acceptance(last, 150, record.draft_tokens)
        assert measured.histogram == expected.histogram


def test_a_baseline_has_no_acceptance_to_measure(front: Front) -> None:
    ask(front.url, backend="baseline", request_id="no-acceptance")
    record = front.records.of("no-acceptance")
    assert record.baseline
    assert record.outcome.speculation.grade == "none"


def test_acceptance_is_known_although_the_client_asked_for_no_usage(front: Front) -> None:
    ask(front.url, backend="draft-model", request_id="unasked", stream=True)
    outcome = front.records.of("unasked").outcome
    expected = chain.acceptance(chain.UNREPEATED, 40, draft_tokens=3)
    assert (outcome.speculation.grade, outcome.speculation.histogram) == ("exact", expected.histogram)
    assert outcome.usage.output_tokens == 40
    assert outcome.ttft is not None
    assert outcome.tpot is not None


@pytest.mark.parametrize("stream", [False, True])
def test_client_gateway_and_engine_are_one_trace(front: Front, collector: Collector, stream: bool) -> None:
    trace_id, client_span = f"{'ab' * 15}{stream:02x}", "cd" * 8
    request_id = f"trace-{stream}"
    ask(
        front.url,
        backend="draft-model",
        request_id=request_id,
        stream=stream,
        headers={"traceparent": f"00-{trace_id}-{client_span}-01"},
    )
    spans = collector.trace(trace_id, count=3)
    (engine,) = (span for span in spans if span.name == "llm_request")
    (request,) = (span for span in spans if span.kind == SERVER and span is not engine)
    (attempt,) = (span for span in spans if span.kind == CLIENT)
    assert len(spans) == 3
    assert request.parent_id == client_span
    assert attempt.parent_id == request.span_id
    assert engine.parent_id == attempt.span_id
    record = front.records.of(request_id)
    assert (request.span_id, attempt.span_id) == (record.trace.span_id, record.attempts[0].span_id)
    assert engine.attributes["gen_ai.request.id"] == f"chatcmpl-{request_id}"
    assert engine.attributes["gen_ai.usage.completion_tokens"] == 40


LONG = 2000
"""Tokens of an answer that takes seconds: it cannot end by itself while a test looks."""


def once_free(server: Server, before: dict[str, int]) -> dict[str, int]:
    """By how much the server's counters grew until it ran nothing any more, which it must."""
    samples = eventually(lambda: scraping.samples(server.url), lambda now: now[scraping.RUNNING] == 0)
    assert samples[scraping.RUNNING] == 0
    return scraping.growth(before, samples)


def test_a_client_that_leaves_mid_stream_frees_the_server(fleet: dict[str, Server], front: Front) -> None:
    server = fleet["baseline"]
    before = scraping.samples(server.url)
    arguments = question(backend="baseline", request_id="leaves", max_tokens=LONG, stream=True)
    with sdk(front.url) as client:
        stream = client.chat.completions.create(**arguments)
        for _ in range(5):
            next(stream)
        stream.close()
    assert once_free(server, before)[scraping.GENERATED] < LONG
    record = front.records.of("leaves")
    assert (record.outcome.status, record.attempts[0].error) == ("cancelled", "client_gone")
    assert record.outcome.events >= 1


async def test_a_client_that_leaves_before_the_answer_frees_the_server(
    fleet: dict[str, Server], front: Front
) -> None:
    server = fleet["baseline"]
    before = scraping.samples(server.url)
    arguments = question(backend="baseline", request_id="impatient", max_tokens=LONG)
    async with openai.AsyncOpenAI(base_url=f"{front.url}/v1", api_key="none", max_retries=0) as client:
        asking = asyncio.create_task(client.chat.completions.create(**arguments))
        working = await asyncio.to_thread(
            eventually, lambda: scraping.samples(server.url), lambda now: now[scraping.RUNNING] == 1
        )
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert working[scraping.RUNNING] == 1
    assert once_free(server, before)[scraping.GENERATED] < LONG
    record = front.records.of("impatient")
    assert (record.outcome.status, record.outcome.http_status) == ("cancelled", 499)


@pytest.mark.parametrize("parameter", [{"min_p": 0.1}, {"logit_bias": {"50": 1}}])
def test_what_a_draft_cannot_take_lands_on_the_baseline(
    fleet: dict[str, Server], front: Front, parameter: dict[str, Any]
) -> None:
    request_id = f"capability-{next(iter(parameter))}"
    asked: dict[str, Any] = {"temperature": 0.5, "seed": 7, "request_id": request_id, "extra_body": parameter}
    assert ask(fleet["draft-model"].url, **asked).status == 400
    through = ask(front.url, **asked)
    assert (through.status, through.headers["x-specroute-backend"]) == (200, "baseline")
    decision = front.records.of(request_id).decision
    assert isinstance(decision, Decision)
    assert ("draft-model", reasons.REFUSES_PARAMETER) in {
        (rejected.backend, rejected.reason) for rejected in decision.rejected
    }
    # Without the parameter the same request goes where the policy prefers.
    assert ask(front.url, temperature=0.5, seed=7).headers["x-specroute-backend"] == "draft-model"


def test_the_workload_decides_the_method(front: Front) -> None:
    through = ask(front.url, chain.LOOPING, headers={"x-specroute-workload": "code"})
    assert through.headers["x-specroute-backend"] == "ngram"
    assert through.headers["x-specroute-workload"] == "code"
