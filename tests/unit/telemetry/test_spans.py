from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from gateway.core.decide import NoCandidate
from gateway.core.fleet import Snapshot
from gateway.core.outcome import Attempt, Outcome, Trace, Usage
from gateway.core.predict import ServerModel, ask, predict
from gateway.telemetry import names
from gateway.telemetry.spans import Spans
from tests import factories

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Record

S = 1_000_000_000
FAILED = Attempt("dflash", "connect", "connect", 0, 100.01, 100.2, "e" * 16)


class Decoded:
    """Spans as a receiver reads them."""

    def __init__(self, spans: Decoded) -> None:
        self._spans = spans

    def of(self, record: Record) -> list[Span]:
        return list(ScopeSpans.FromString(b"".join(self._spans.of(record))).spans)


def building(backend: Callable[[str], Backend | None], slow: float = math.inf) -> Decoded:
    return Decoded(Spans({"service.name": "test"}, "1", backend, slow))


@pytest.fixture
def spans(snapshot: Snapshot) -> Decoded:
    return building({state.backend.name: state.backend for state in snapshot.states}.get)


def value(found: AnyValue) -> Any:
    kind = found.WhichOneof("value")
    assert kind is not None
    held = getattr(found, kind)
    return tuple(map(value, held.values)) if kind == "array_value" else held


def attributes(holder: Span | Span.Event) -> dict[str, Any]:
    assert len({pair.key for pair in holder.attributes}) == len(holder.attributes)
    return {pair.key: value(pair.value) for pair in holder.attributes}


def is_error(span: Span) -> bool:
    return span.status.code == Status.STATUS_CODE_ERROR


def events(span: Span) -> list[tuple[str, int, dict[str, Any]]]:
    return [(event.name, event.time_unix_nano, attributes(event)) for event in span.events]


def test_the_tree_hangs_on_the_caller_and_attempts_on_the_request(spans: Decoded, record: Record) -> None:
    attempt, request = spans.of(record)
    assert {span.trace_id.hex() for span in (attempt, request)} == {"a" * 32}
    assert (request.parent_span_id.hex(), request.span_id.hex()) == ("c" * 16, "b" * 16)
    assert (attempt.parent_span_id.hex(), attempt.span_id.hex()) == ("b" * 16, "d" * 16)
    assert (request.kind, attempt.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert (request.flags, attempt.flags) == (0x300, 0x100)  # whose parent is remote, and whose is not
    assert request.name == attempt.name == "chat gemma"
    assert request.trace_state == attempt.trace_state == ""  # words of the caller, for the backend alone


def test_without_a_caller_the_request_is_the_root(spans: Decoded, record: Record) -> None:
    *_, request = spans.of(replace(record, trace=replace(record.trace, parent_id="")))
    assert (request.parent_span_id, request.flags) == (b"", 0x100)


def test_times_are_the_wall_clock_s_start_plus_monotonic_differences(spans: Decoded, record: Record) -> None:
    attempt, request = spans.of(record)
    start = record.started_unix_ns
    assert (request.start_time_unix_nano, request.end_time_unix_nano) == (start, start + 3 * S)
    assert (attempt.start_time_unix_nano, attempt.end_time_unix_nano) == (start + 2_000_000, start + 3 * S)
    assert events(attempt) == [("first_token", start + 502_000_000, {})]


def test_what_is_posted_says_who_sent_it(snapshot: Snapshot, record: Record) -> None:
    spans = Spans({"service.name": "gw", "process.pid": 7}, "9", lambda _: None)
    posted = ExportTraceServiceRequest.FromString(spans.export(spans.of(record)))
    (resource,) = posted.resource_spans
    assert {pair.key: value(pair.value) for pair in resource.resource.attributes} == {
        "service.name": "gw",
        "process.pid": 7,
    }
    (scope,) = resource.scope_spans
    assert (scope.scope.name, scope.scope.version) == ("specroute", "9")
    assert len(scope.spans) == 2


def test_a_good_request_says_what_it_was_where_it_went_and_why(spans: Decoded, record: Record) -> None:
    _, request = spans.of(record)
    assert not is_error(request)
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


def test_its_attempt_says_what_was_asked_of_whom_and_answered(spans: Decoded, record: Record) -> None:
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


def test_a_reason_to_end_that_no_server_is_known_to_give_is_not_repeated(
    spans: Decoded, record: Record
) -> None:
    odd = replace(record, outcome=replace(record.outcome, finish_reason="sk-canary"))
    attempt, _ = spans.of(odd)
    assert attributes(attempt)["gen_ai.response.finish_reasons"] == ("other",)


def test_only_documented_attributes_are_used(spans: Decoded, record: Record) -> None:
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


def test_usage_is_on_the_attempt_that_answered_alone(spans: Decoded, record: Record) -> None:
    first, last, request = spans.of(replace(record, attempts=(FAILED, *record.attempts)))
    assert "gen_ai.usage.output_tokens" in attributes(last)
    assert not any(name.startswith("gen_ai.usage") for name in {*attributes(first), *attributes(request)})


def test_a_failover_is_an_event_of_the_request_and_an_error_of_the_attempt(
    spans: Decoded, record: Record
) -> None:
    first, last, request = spans.of(replace(record, attempts=(FAILED, *record.attempts)))
    assert events(request) == [
        (
            "failover",
            record.started_unix_ns + 200_000_000,
            {"specroute.failover.from": "dflash", "specroute.failover.to": "eagle", "error.type": "connect"},
        )
    ]
    assert is_error(first)
    assert attributes(first)["error.type"] == "connect"
    assert attributes(first)["specroute.attempt.number"] == 1
    assert "http.response.status_code" not in attributes(first)
    assert "server.address" not in attributes(first)  # it has left the fleet
    assert not is_error(last)
    assert not is_error(request)


@pytest.mark.parametrize("status", ["upstream_error", "timeout", "truncated"])
def test_a_failure_of_ours_is_an_error_of_both(spans: Decoded, record: Record, status: str) -> None:
    failed = replace(
        record,
        attempts=(replace(record.attempts[0], error="status:503", status=503),),
        outcome=Outcome(status, 502, error="status:503"),
    )
    attempt, request = spans.of(failed)
    assert is_error(attempt)
    assert is_error(request)
    assert attributes(attempt)["error.type"] == attributes(request)["error.type"] == "503"
    assert attributes(attempt)["specroute.attempt.error"] == "status:503"
    assert attributes(request)["specroute.status"] == status
    assert attributes(attempt)["http.response.status_code"] == 503
    assert attributes(request)["http.response.status_code"] == 502


def test_a_client_s_own_mistake_is_no_error_of_the_server(spans: Decoded, record: Record) -> None:
    refused = replace(
        record,
        attempts=(replace(record.attempts[0], error="status:400", status=400),),
        outcome=Outcome("client_error", 400, error="status:400"),
    )
    attempt, request = spans.of(refused)
    assert (is_error(attempt), is_error(request)) == (True, False)


def test_a_client_that_left_is_an_event_with_the_time(spans: Decoded, record: Record) -> None:
    left = replace(
        record,
        ended=101.5,
        attempts=(replace(record.attempts[0], error="client_gone", phase="first_byte", ended=101.6),),
        outcome=Outcome("cancelled", 200, ttft=0.5, error="client_gone"),
    )
    attempt, request = spans.of(left)
    assert events(request) == [("client_disconnected", record.started_unix_ns + 1_500_000_000, {})]
    assert attempt.end_time_unix_nano == record.started_unix_ns + 1_600_000_000
    assert not is_error(attempt)
    assert not is_error(request)
    assert attributes(attempt)["specroute.attempt.error"] == "client_gone"


def test_a_request_without_candidate_is_one_span_that_says_why(spans: Decoded, record: Record) -> None:
    refused = replace(
        record,
        features=replace(record.features, model="typed by a client"),
        decision=NoCandidate("unknown_model", "no model 'typed by a client'", busy=False, route=None, rejected=(),
                             policy_revision="p1", fleet_revision="f1"),
        attempts=(), outcome=Outcome("rejected", 404, error="model_not_found"), backend="", method="",
    )  # fmt: skip
    (request,) = spans.of(refused)
    assert request.name == "chat"
    assert is_error(request)
    found = attributes(request)
    assert found["specroute.decision.reason"] == "unknown_model"
    assert found["error.type"] == "model_not_found"
    assert "typed by a client" not in str(found)
    assert "specroute.backend" not in found
    assert "specroute.route" not in found


def unsampled(record: Record, **given: Any) -> Record:
    return replace(record, trace=Trace("a" * 32, "b" * 16, sampled=False), **given)


def test_what_is_not_sampled_gives_no_span(spans: Decoded, record: Record) -> None:
    assert spans.of(unsampled(record)) == []


def test_waiting_for_a_backend_is_an_event_of_the_request(spans: Decoded, record: Record) -> None:
    *_, request = spans.of(replace(record, queued=12.4, decided=record.started + 12.5))
    assert events(request)[0] == ("queued", record.started_unix_ns + S // 10, {"specroute.queue.wait": 12.4})
    *_, request = spans.of(record)
    assert "queued" not in {name for name, _, _ in events(request)}
    assert {"first_token", "queued"} <= names.EVENTS.keys()


def test_what_failed_explored_or_was_slow_is_kept_though_it_was_not_sampled(
    snapshot: Snapshot, record: Record
) -> None:
    spans = building(lambda _: None, slow=2.0)
    outcome = record.outcome
    for kept, changes in (
        ("failed", {"outcome": replace(outcome, status="timeout")}),
        ("slow", {"outcome": replace(outcome, first_token=2.5)}),  # 0.5 s of them after dispatch
        ("slow", {"outcome": replace(outcome, first_token=None)}),  # 3 s until the end
        ("slow", {"outcome": replace(outcome, usage=Usage())}),  # 2.5 s for 50 events
        ("slow", {"ended": 104.6}),  # 4.1 s for 201 tokens
        ("explored", {"decision": replace(record.decision, reason="baseline_share")}),
        ("explored", {"decision": replace(record.decision, reason="explores")}),
    ):
        attempt, request = spans.of(unsampled(record, **changes))
        assert attributes(request)["specroute.trace.kept"] == kept
        assert attempt.parent_span_id == request.span_id
        assert names.ROUTE_KEPT in names.SERVER_SPAN
    assert spans.of(unsampled(record)) == []  # 2.5 s for 201 tokens
    assert spans.of(unsampled(record, outcome=replace(outcome, status="cancelled"))) == []


def test_a_caller_that_wants_no_trace_gets_none(spans: Decoded, record: Record) -> None:
    failed = replace(record.outcome, status="timeout")
    unwanted = replace(record, trace=replace(record.trace, sampled=False), outcome=failed)
    assert spans.of(unwanted) == []


def test_a_stream_that_another_backend_went_on_with_is_told_from_a_failover(
    spans: Decoded, record: Record
) -> None:
    broke = replace(FAILED, phase="first_byte", error="reset", status=200)
    refused = replace(FAILED, phase="first_byte", error="status:503", status=503)
    attempts = (FAILED, refused, broke, *record.attempts)
    *_, request = spans.of(replace(record, attempts=attempts))
    assert record.outcome.resumed == 1
    assert [event.name for event in request.events] == ["failover", "failover", "resume"]
    *_, request = spans.of(replace(record, attempts=attempts, outcome=replace(record.outcome, resumed=0)))
    assert {event.name for event in request.events} == {"failover"}


def test_what_was_predicted_stands_beside_what_was_observed(spans: Decoded, record: Record) -> None:
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


def test_an_attempt_under_which_nothing_was_sent_is_left_out(spans: Decoded, record: Record) -> None:
    assert len(spans.of(replace(record, attempts=(replace(FAILED, span_id=""), *record.attempts)))) == 2


def test_what_the_backend_did_not_say_is_absent(spans: Decoded, record: Record) -> None:
    attempt, request = spans.of(replace(record, outcome=Outcome("ok", 200, usage=Usage())))
    assert not any(name.startswith(("gen_ai.usage", "gen_ai.response")) for name in attributes(attempt))
    assert "specroute.tokens_per_event" not in attributes(request)
    assert events(attempt) == []


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
    spans: Decoded, record: Record, endpoint: str, operation: str
) -> None:
    *_, request = spans.of(replace(record, features=replace(record.features, endpoint=endpoint)))
    assert request.name == f"{operation} gemma"


def test_what_the_client_left_open_is_absent(spans: Decoded, record: Record) -> None:
    open_ended = replace(record, features=replace(record.features, max_tokens=None, temperature=None))
    for span in spans.of(open_ended):
        assert not {"gen_ai.request.max_tokens", "gen_ai.request.temperature"} & set(attributes(span))


def test_a_port_that_is_not_given_is_the_scheme_s(record: Record, snapshot: Snapshot) -> None:
    backend = replace(snapshot.states[1].backend, url="https://gpu.example")
    attempt, _ = building(lambda _: backend).of(record)
    assert attributes(attempt)["server.port"] == 443


@pytest.mark.parametrize("said", ["The canary sings", "sk-canary-4f9d2c71", "i" * 10_000, ""])
def test_what_a_backend_says_of_itself_is_told_if_it_looks_like_a_name(
    spans: Decoded, record: Record, said: str
) -> None:
    outcome = replace(record.outcome, response_id=said, response_model=said)
    attempt, _ = spans.of(replace(record, outcome=outcome))
    assert not {"gen_ai.response.id", "gen_ai.response.model"} & attributes(attempt).keys()


@pytest.mark.parametrize("answer_id", ["chatcmpl-req-1", "req-1", "resp_1"])
def test_the_id_of_an_answer_is_told(spans: Decoded, record: Record, answer_id: str) -> None:
    outcome = replace(record.outcome, response_id=answer_id)
    attempt, _ = spans.of(replace(record, outcome=outcome))
    assert attributes(attempt)["gen_ai.response.id"] == answer_id


def test_what_an_answer_says_of_itself_is_not_told_if_it_has_to_do_with_the_client_s_key(
    spans: Decoded, record: Record
) -> None:
    outcome = replace(record.outcome, response_id="chatcmpl-0123canary", response_model="model-0123canary")
    asked: list[bytes] = []

    def of_client(text: bytes) -> bool:
        asked.append(text)
        return True

    attempt, _ = spans.of(replace(record, outcome=outcome, of_client=of_client))
    assert not {"gen_ai.response.id", "gen_ai.response.model"} & attributes(attempt).keys()
    assert asked == [b"model-0123canary", b"chatcmpl-0123canary"]


def test_the_model_that_was_asked_for_is_told_without_a_look_at_the_client_s_key(
    spans: Decoded, record: Record
) -> None:
    outcome = replace(record.outcome, response_id="", response_model=record.features.model)
    attempt, _ = spans.of(replace(record, outcome=outcome, of_client=lambda _: True))
    assert attributes(attempt)["gen_ai.response.model"] == record.features.model


def test_what_repeats_is_kept_for_what_it_is_of(spans: Decoded, record: Record) -> None:
    """Facts of one request do not get into the spans of the next."""
    before = [attributes(span) for span in spans.of(record)]
    other = replace(
        record,
        features=replace(record.features, max_tokens=1, temperature=1.0, stream=False, n=2),
        classification=replace(record.classification, label="code"),
        attempts=(replace(record.attempts[0], backend="plain", status=201),),
        backend="plain", method="none", draft_tokens=0,
    )  # fmt: skip
    attempt, request = map(attributes, spans.of(other))
    assert request["gen_ai.request.stream"] is False
    assert (request["gen_ai.request.max_tokens"], request["gen_ai.request.temperature"]) == (1, 1.0)
    assert (request["specroute.workload"], request["specroute.backend"]) == ("code", "plain")
    assert (attempt["server.address"], attempt["http.response.status_code"]) == ("10.0.0.1", 201)
    assert [attributes(span) for span in spans.of(record)] == before
