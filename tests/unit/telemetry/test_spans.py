from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, StatusCode

from gateway.core.decide import NoCandidate
from gateway.core.fleet import Snapshot
from gateway.core.outcome import Attempt, Outcome, Trace, Usage
from gateway.core.predict import ServerModel, ask, predict
from gateway.telemetry import names
from gateway.telemetry.span_attributes import error_type
from gateway.telemetry.spans import Spans
from tests import factories

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from gateway.core.outcome import Record

S = 1_000_000_000
FAILED = Attempt("dflash", "connect", "connect", 0, 100.01, 100.2, "e" * 16)


@pytest.fixture
def spans(snapshot: Snapshot) -> Spans:
    backends = {state.backend.name: state.backend for state in snapshot.states}
    return Spans(Resource({"service.name": "test"}), InstrumentationScope("specroute"), backends.get)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    assert span.attributes is not None
    return dict(span.attributes)


def test_the_tree_hangs_on_the_caller_and_attempts_on_the_request(spans: Spans, record: Record) -> None:
    attempt, request = spans.of(record)
    assert request.parent is not None
    assert (request.parent.span_id, request.parent.is_remote) == (int("c" * 16, 16), True)
    assert request.context is not None
    assert (request.context.trace_id, request.context.span_id) == (int("a" * 32, 16), int("b" * 16, 16))
    assert attempt.parent == request.context
    assert attempt.context is not None
    assert (attempt.context.trace_id, attempt.context.span_id) == (int("a" * 32, 16), int("d" * 16, 16))
    assert (request.kind, attempt.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert request.name == attempt.name == "chat gemma"
    assert request.context.trace_state.get("vendor") == "1"


def test_without_a_caller_the_request_is_the_root(spans: Spans, record: Record) -> None:
    *_, request = spans.of(replace(record, trace=replace(record.trace, parent_id="")))
    assert request.parent is None


def test_times_are_the_wall_clock_s_start_plus_monotonic_differences(spans: Spans, record: Record) -> None:
    attempt, request = spans.of(record)
    start = record.started_unix_ns
    assert (request.start_time, request.end_time) == (start, start + 3 * S)
    assert (attempt.start_time, attempt.end_time) == (start + 2_000_000, start + 3 * S)
    assert [(event.name, event.timestamp) for event in attempt.events] == [
        ("first_token", start + 502_000_000)
    ]


def test_a_good_request_says_what_it_was_where_it_went_and_why(spans: Spans, record: Record) -> None:
    _, request = spans.of(record)
    assert request.status.status_code is StatusCode.UNSET
    assert attributes(request) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gemma",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 512,
        "gen_ai.request.temperature": 0.5,
        "http.response.status_code": 200,
        "specroute.request.id": "req-1",
        "specroute.status": "ok",
        "specroute.workload": "math",
        "specroute.classification.confidence": 0.9,
        "specroute.classification.source": "rule:latex",
        "specroute.route": "math",
        "specroute.class": "default",
        "specroute.decision.reason": "lowest_cost",
        "specroute.decision.propensity": 0.95,
        "specroute.decision.duration": pytest.approx(0.001),
        "specroute.decision.candidates": ("eagle=0.25",),
        "specroute.decision.rejected": ("dflash=full",),
        "specroute.policy.revision": "p1",
        "specroute.fleet.revision": "f1",
        "specroute.backend": "eagle",
        "specroute.method": "eagle3",
        "specroute.draft_tokens": 5,
        "specroute.attempts": 1,
        "specroute.ttft": 0.5,
        "specroute.tpot": 0.01,
        "specroute.measurement.grade": "exact",
        "specroute.mean_accepted_length": 2.0,
        "specroute.acceptance_rate": 0.2,
        "specroute.accepted_histogram": (40, 30, 20, 10, 0, 0),
        "specroute.tokens_per_event": 4.02,
    }


def test_its_attempt_says_what_was_asked_of_whom_and_answered(spans: Spans, record: Record) -> None:
    attempt, _ = spans.of(record)
    assert attributes(attempt) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "gemma",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 512,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "gemma-31b",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 201,
        "gen_ai.usage.cache_read.input_tokens": 16,
        "http.response.status_code": 200,
        "server.address": "10.0.0.2",
        "server.port": 8000,
        "specroute.backend": "eagle",
        "specroute.attempt.number": 1,
        "specroute.attempt.phase": "done",
    }


def test_only_documented_attributes_are_used(spans: Spans, record: Record) -> None:
    failed = replace(
        record,
        features=replace(record.features, n=2),
        attempts=(FAILED, *record.attempts),
        outcome=replace(record.outcome, status="truncated", error="reset"),
    )
    first, last, request = spans.of(failed)
    elsewhere = {
        "specroute.tpot",
        "specroute.trace.kept",
        "specroute.decision.shadow",
        "specroute.predicted.ttft",
        "specroute.predicted.tpot",
    }
    assert set(attributes(request)) == {each.name for each in names.SERVER_SPAN} - elsewhere
    assert set(attributes(first)) | set(attributes(last)) == {each.name for each in names.ATTEMPT_SPAN}


def test_usage_is_on_the_attempt_that_answered_alone(spans: Spans, record: Record) -> None:
    first, last, request = spans.of(replace(record, attempts=(FAILED, *record.attempts)))
    assert "gen_ai.usage.output_tokens" in attributes(last)
    assert not any(name.startswith("gen_ai.usage") for name in {*attributes(first), *attributes(request)})


def test_a_failover_is_an_event_of_the_request_and_an_error_of_the_attempt(
    spans: Spans, record: Record
) -> None:
    first, last, request = spans.of(replace(record, attempts=(FAILED, *record.attempts)))
    assert [(event.name, event.timestamp, dict(event.attributes or {})) for event in request.events] == [
        (
            "failover",
            record.started_unix_ns + 200_000_000,
            {"specroute.failover.from": "dflash", "specroute.failover.to": "eagle", "error.type": "connect"},
        )
    ]
    assert first.status.status_code is StatusCode.ERROR
    assert attributes(first)["error.type"] == "connect"
    assert attributes(first)["specroute.attempt.number"] == 1
    assert "http.response.status_code" not in attributes(first)
    assert "server.address" not in attributes(first)  # it has left the fleet
    assert last.status.status_code is request.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("status", ["upstream_error", "timeout", "truncated"])
def test_a_failure_of_ours_is_an_error_of_both(spans: Spans, record: Record, status: str) -> None:
    failed = replace(
        record,
        attempts=(replace(record.attempts[0], error="status:503", status=503),),
        outcome=Outcome(status, 502, error="status:503"),
    )
    attempt, request = spans.of(failed)
    assert attempt.status.status_code is request.status.status_code is StatusCode.ERROR
    assert attributes(attempt)["error.type"] == attributes(request)["error.type"] == "503"
    assert attributes(attempt)["specroute.attempt.error"] == "status:503"
    assert attributes(request)["specroute.status"] == status
    assert attributes(attempt)["http.response.status_code"] == 503
    assert attributes(request)["http.response.status_code"] == 502


def test_a_client_s_own_mistake_is_no_error_of_the_server(spans: Spans, record: Record) -> None:
    refused = replace(
        record,
        attempts=(replace(record.attempts[0], error="status:400", status=400),),
        outcome=Outcome("client_error", 400, error="status:400"),
    )
    attempt, request = spans.of(refused)
    assert (attempt.status.status_code, request.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)


def test_a_client_that_left_is_an_event_with_the_time(spans: Spans, record: Record) -> None:
    left = replace(
        record,
        ended=101.5,
        attempts=(replace(record.attempts[0], error="client_gone", phase="first_byte", ended=101.6),),
        outcome=Outcome("cancelled", 200, ttft=0.5, error="client_gone"),
    )
    attempt, request = spans.of(left)
    assert [(event.name, event.timestamp) for event in request.events] == [
        ("client_disconnected", record.started_unix_ns + 1_500_000_000)
    ]
    assert attempt.end_time == record.started_unix_ns + 1_600_000_000
    assert attempt.status.status_code is request.status.status_code is StatusCode.UNSET
    assert attributes(attempt)["specroute.attempt.error"] == "client_gone"


def test_a_request_without_candidate_is_one_span_that_says_why(spans: Spans, record: Record) -> None:
    refused = replace(
        record,
        features=replace(record.features, model="typed by a client"),
        decision=NoCandidate("unknown_model", "no model 'typed by a client'", busy=False, route=None, rejected=(),
                             policy_revision="p1", fleet_revision="f1"),
        attempts=(), outcome=Outcome("rejected", 404, error="unknown_model"), backend="", method="",
    )  # fmt: skip
    (request,) = spans.of(refused)
    assert request.name == "chat"
    assert request.status.status_code is StatusCode.ERROR
    found = attributes(request)
    assert found["specroute.decision.reason"] == found["error.type"] == "unknown_model"
    assert "typed by a client" not in str(found)
    assert "specroute.backend" not in found
    assert "specroute.route" not in found


def unsampled(record: Record, **given: Any) -> Record:
    return replace(record, trace=Trace("a" * 32, "b" * 16, sampled=False), **given)


def test_what_is_not_sampled_gives_no_span(spans: Spans, record: Record) -> None:
    assert spans.of(unsampled(record)) == []


def test_what_failed_explored_or_was_slow_is_kept_though_it_was_not_sampled(
    snapshot: Snapshot, record: Record
) -> None:
    spans = Spans(Resource({}), InstrumentationScope("specroute"), lambda _: None, slow=2.0)
    outcome = record.outcome
    for kept, changes in (
        ("failed", {"outcome": replace(outcome, status="timeout")}),
        ("slow", {"outcome": replace(outcome, ttft=2.5)}),
        ("slow", {"outcome": replace(outcome, ttft=None)}),  # 3 s until the end
        ("explored", {"decision": replace(record.decision, reason="baseline_share")}),
        ("explored", {"decision": replace(record.decision, reason="explores")}),
    ):
        attempt, request = spans.of(unsampled(record, **changes))
        assert attributes(request)["specroute.trace.kept"] == kept
        assert request.context is not None
        assert request.context.trace_flags.sampled
        assert attempt.parent == request.context
        assert names.ROUTE_KEPT in names.SERVER_SPAN
    assert spans.of(unsampled(record)) == []
    assert spans.of(unsampled(record, outcome=replace(outcome, status="cancelled"))) == []


def test_a_caller_that_wants_no_trace_gets_none(spans: Spans, record: Record) -> None:
    failed = replace(record.outcome, status="timeout")
    unwanted = replace(record, trace=replace(record.trace, sampled=False), outcome=failed)
    assert spans.of(unwanted) == []


def test_a_stream_that_another_backend_went_on_with_is_told_from_a_failover(
    spans: Spans, record: Record
) -> None:
    broke = replace(FAILED, phase="first_byte", error="reset", status=200)
    refused = replace(FAILED, phase="first_byte", error="status:503", status=503)
    attempts = (FAILED, refused, broke, *record.attempts)
    *_, request = spans.of(replace(record, attempts=attempts))
    assert record.outcome.resumed == 1
    assert [event.name for event in request.events] == ["failover", "failover", "resume"]
    *_, request = spans.of(replace(record, attempts=attempts, outcome=replace(record.outcome, resumed=0)))
    assert {event.name for event in request.events} == {"failover"}


def test_what_was_predicted_stands_beside_what_was_observed(spans: Spans, record: Record) -> None:
    model = ServerModel("learnt", other_steps_per_token=0.4)
    state = factories.state("eagle", in_flight=1, model=model)
    *_, request = spans.of(replace(record, snapshot=Snapshot.of((state,), "f1")))
    found = attributes(request)
    asked = ask(record.features, record.classification)
    assert found["specroute.predicted.ttft"] == predict(model, asked, 1.0).ttft
    assert found["specroute.predicted.tpot"] == predict(model, asked, 1.0).tpot > 0
    assert "specroute.predicted.ttft" not in attributes(spans.of(record)[-1])
    unlearnt = Snapshot.of((factories.state("eagle"),), "f1")
    assert "specroute.predicted.ttft" not in attributes(spans.of(replace(record, snapshot=unlearnt))[-1])


def test_an_attempt_under_which_nothing_was_sent_is_left_out(spans: Spans, record: Record) -> None:
    assert len(spans.of(replace(record, attempts=(replace(FAILED, span_id=""), *record.attempts)))) == 2


def test_what_the_backend_did_not_say_is_absent(spans: Spans, record: Record) -> None:
    attempt, request = spans.of(replace(record, outcome=Outcome("ok", 200, usage=Usage())))
    assert not any(name.startswith(("gen_ai.usage", "gen_ai.response")) for name in attributes(attempt))
    assert "specroute.tokens_per_event" not in attributes(request)
    assert attempt.events == ()


@pytest.mark.parametrize(
    ("endpoint", "operation"),
    [
        ("completions", "text_completion"),
        ("responses", "chat"),
        ("embeddings", "embeddings"),
        ("score", "score"),
    ],
)
def test_the_operation_follows_the_endpoint(
    spans: Spans, record: Record, endpoint: str, operation: str
) -> None:
    *_, request = spans.of(replace(record, features=replace(record.features, endpoint=endpoint)))
    assert request.name == f"{operation} gemma"


def test_what_the_client_left_open_is_absent(spans: Spans, record: Record) -> None:
    open_ended = replace(record, features=replace(record.features, max_tokens=None, temperature=None))
    for span in spans.of(open_ended):
        assert not {"gen_ai.request.max_tokens", "gen_ai.request.temperature"} & set(attributes(span))


def test_a_port_that_is_not_given_is_the_scheme_s(record: Record, snapshot: Snapshot) -> None:
    backend = replace(snapshot.states[1].backend, url="https://gpu.example")
    attempt, _ = Spans(Resource({}), InstrumentationScope("x"), lambda _: backend).of(record)
    assert attributes(attempt)["server.port"] == 443


@pytest.mark.parametrize(
    ("error", "kind"), [("status:503", "503"), ("timeout:idle", "timeout:idle"), ("", "")]
)
def test_the_error_type_of_a_status_is_its_number(error: str, kind: str) -> None:
    assert error_type(error) == kind
