from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.decide import NoCandidate
from gateway.core.draft_latency import Estimate
from gateway.core.fleet import Guide
from gateway.core.gpus import GpuLoad
from gateway.core.outcome import STATUSES, Attempt, Outcome, Speculation, Usage
from gateway.core.plan import Plan
from gateway.core.policy import ClassifierSettings, Match, Policy, Route, Timeouts
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.runtime.fleet_advice import FleetAdvice
from gateway.telemetry import names
from gateway.telemetry.gauges import observe_dropped
from gateway.telemetry.setup import setup

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.fleet import Snapshot
    from gateway.core.outcome import Record

    Series = Callable[[bytes], dict[str, float]]

LABELS = " backend=eagle method=eagle3 workload=math"
GENAI = " gen_ai_operation_name=chat gen_ai_provider_name=vllm gen_ai_request_model=google/gemma-4-31b"


def labelled(record: Record, label: str) -> Record:
    return replace(record, classification=replace(record.classification, label=label))


def policy(revision: str, default: str, *workloads: str) -> Policy:
    routes = (Route("only", Match(workloads=frozenset(workloads)), (), ()),)
    return Policy({}, routes, Timeouts(), ClassifierSettings(default=default), False, 5.0, revision)


def test_a_good_stream_is_counted(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(record)
    telemetry.on_record(record)
    found = series(telemetry.exposition())
    assert found["specroute_requests_total backend=eagle method=eagle3 status=ok workload=math"] == 2
    assert found[f"specroute_request_duration_seconds_sum{LABELS}"] == 6.0
    assert found[f"specroute_ttft_seconds_sum{LABELS}"] == 1.0
    assert found[f"specroute_ttft_seconds_count{LABELS}"] == 2
    assert found[f"specroute_tpot_seconds_sum{LABELS}"] == pytest.approx(0.02)
    assert found[f"specroute_input_tokens_total{LABELS}"] == 40
    assert found[f"specroute_output_tokens_total{LABELS}"] == 402
    assert found[f"specroute_decode_tokens_total{LABELS}"] == 400
    assert found[f"specroute_decode_time_seconds_total{LABELS}"] == 4.0
    assert found["specroute_classifications_total source=rule:latex workload=math"] == 2
    assert found["specroute_decisions_total reason=lowest_cost route=math"] == 2
    assert found["specroute_rejections_total backend=dflash reason=full"] == 2


def test_acceptance_is_counted_as_sums(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(record)
    found = series(telemetry.exposition())
    assert found[f"specroute_speculation_steps_total{LABELS}"] == 100
    assert found[f"specroute_speculation_drafted_tokens_total{LABELS}"] == 500
    assert found[f"specroute_speculation_accepted_tokens_total{LABELS}"] == 100
    positions = [
        found[
            f"specroute_speculation_accepted_at_position_total backend=eagle method=eagle3 position={at} workload=math"
        ]
        for at in range(5)
    ]
    assert positions == [60, 30, 10, 0, 0]
    assert (
        found["specroute_speculation_requests_total backend=eagle grade=exact method=eagle3 workload=math"]
        == 1
    )


def test_acceptance_that_was_not_measured_is_no_zero(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(
        replace(record, outcome=replace(record.outcome, speculation=Speculation("not_measured")))
    )
    found = series(telemetry.exposition())
    assert (
        found[
            "specroute_speculation_requests_total backend=eagle grade=not_measured method=eagle3 workload=math"
        ]
        == 1
    )
    assert f"specroute_speculation_steps_total{LABELS}" not in found


def test_the_tpot_histogram_has_its_own_buckets(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(record)  # 10 ms
    found = series(telemetry.exposition())
    bounds = [name for name in found if name.startswith("specroute_tpot_seconds_bucket")]
    assert len(bounds) == len(names.TPOT.buckets) + 1
    assert found["specroute_tpot_seconds_bucket backend=eagle le=0.008 method=eagle3 workload=math"] == 0
    assert found["specroute_tpot_seconds_bucket backend=eagle le=0.01 method=eagle3 workload=math"] == 1


def test_what_says_nothing_of_speed_is_left_out_of_it(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(replace(record, features=replace(record.features, n=4)))
    telemetry.on_record(replace(record, outcome=Outcome("ok", 200, usage=Usage(20, 300))))
    found = series(telemetry.exposition())
    assert f"specroute_tpot_seconds_count{LABELS}" not in found
    assert f"specroute_decode_tokens_total{LABELS}" not in found
    assert found[f"specroute_output_tokens_total{LABELS}"] == 501


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_told_apart(record: Record, series: Series, status: str) -> None:
    telemetry = setup()
    telemetry.on_record(replace(record, outcome=replace(record.outcome, status=status)))
    found = series(telemetry.exposition())
    assert found[f"specroute_requests_total backend=eagle method=eagle3 status={status} workload=math"] == 1


def test_failovers_are_counted_by_the_backend_that_failed(record: Record, series: Series) -> None:
    telemetry = setup()
    first = Attempt("dflash", "connect", "connect", 0, 100.0, 100.1, "e" * 16)
    second = Attempt("plain", "headers", "status:503", 503, 100.1, 100.2, "f" * 16)
    telemetry.on_record(replace(record, attempts=(first, second, *record.attempts)))
    found = series(telemetry.exposition())
    failovers = {name: value for name, value in found.items() if name.startswith("specroute_failovers")}
    assert failovers == {
        "specroute_failovers_total backend=dflash error=connect": 1,
        "specroute_failovers_total backend=plain error=status:503": 1,
    }


def test_a_request_without_candidate_is_counted_by_its_reason(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(
        replace(
            record, attempts=(), backend="", method="", outcome=Outcome("rejected", 503, error="all_rejected"),
            decision=NoCandidate("all_rejected", "", busy=True, route="math", rejected=record.decision.rejected,
                                 policy_revision="p", fleet_revision="f"),
        )
    )  # fmt: skip
    found = series(telemetry.exposition())
    assert found["specroute_requests_total status=rejected workload=math"] == 1
    assert found["specroute_decisions_total reason=all_rejected route=math"] == 1
    assert found["specroute_rejections_total backend=dflash reason=full"] == 1
    server = (
        "gen_ai_server_request_duration_seconds_count error_type=all_rejected gen_ai_operation_name=chat"
        " gen_ai_provider_name=vllm gen_ai_request_model=other"
    )
    assert found[server] == 1


def test_what_waited_for_a_backend_is_measured_and_nothing_else(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(record)
    assert "specroute_queue_wait" not in telemetry.exposition().decode()
    telemetry.on_record(replace(record, queued=12.4))
    found = series(telemetry.exposition())
    assert found["specroute_queue_wait_seconds_sum backend=eagle method=eagle3 workload=math"] == 12.4
    assert found["specroute_queue_wait_seconds_count backend=eagle method=eagle3 workload=math"] == 1


def test_the_conventions_names_are_those_of_the_version(record: Record, series: Series) -> None:
    telemetry = setup(semconv="0.1.0")
    telemetry.on_record(record)
    found = series(telemetry.exposition())
    assert found[f"gen_ai_client_inference_duration_seconds_sum{GENAI}"] == pytest.approx(2.998)
    assert found[f"gen_ai_client_inference_time_to_first_chunk_seconds_sum{GENAI}"] == 0.5
    assert found[f"gen_ai_client_inference_usage_input_tokens_total{GENAI}"] == 20
    assert found[f"gen_ai_client_inference_usage_output_tokens_total{GENAI}"] == 201
    assert found[f"gen_ai_client_inference_usage_cache_read_input_tokens_total{GENAI}"] == 16
    assert found[f"gen_ai_client_inference_operation_input_tokens_sum{GENAI}"] == 20
    assert found[f"gen_ai_client_inference_operation_output_tokens_sum{GENAI}"] == 201
    assert found[f"gen_ai_server_request_duration_seconds_sum{GENAI}"] == 3.0
    assert found[f"gen_ai_server_time_to_first_token_seconds_sum{GENAI}"] == pytest.approx(0.502)
    assert found[f"gen_ai_server_time_per_output_token_seconds_sum{GENAI}"] == pytest.approx(0.01)


def test_the_older_conventions_keep_tokens_in_one_histogram(record: Record, series: Series) -> None:
    telemetry = setup(semconv="1.41")
    telemetry.on_record(record)
    found = series(telemetry.exposition())
    assert found[f"gen_ai_client_operation_duration_seconds_sum{GENAI}"] == pytest.approx(2.998)
    assert found[f"gen_ai_client_token_usage_sum{GENAI} gen_ai_token_type=input"] == 20
    assert found[f"gen_ai_client_token_usage_sum{GENAI} gen_ai_token_type=output"] == 201
    assert not any(name.startswith("gen_ai_client_inference") for name in found)


def test_what_is_no_genai_operation_has_no_genai_metrics(record: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.on_record(replace(record, features=replace(record.features, endpoint="tokenize")))
    assert not any(name.startswith("gen_ai") for name in series(telemetry.exposition()))


def test_an_error_is_told_apart_in_the_durations(record: Record, series: Series) -> None:
    telemetry = setup()
    failed = replace(record.attempts[0], error="status:500", status=500)
    telemetry.on_record(
        replace(record, attempts=(failed,), outcome=Outcome("upstream_error", 500, error="status:500"))
    )
    found = series(telemetry.exposition())
    for name in ("gen_ai_server_request_duration", "gen_ai_client_inference_duration"):
        assert found[f"{name}_seconds_count error_type=500{GENAI}"] == 1


def test_whatever_status_a_server_answers_the_number_of_series_is_bounded(
    record: Record, series: Series
) -> None:
    telemetry = setup()
    for status in range(100, 1000):
        error = f"status:{status}"
        failed = replace(record.attempts[0], error=error, status=status)
        outcome = Outcome("upstream_error", status, error=error)
        telemetry.on_record(replace(record, attempts=(failed, failed), outcome=outcome))
    found = [name for name in series(telemetry.exposition()) if "_count" in name or "failovers" in name]
    told = [[part for part in name.split() if part.startswith(("error=", "error_type="))] for name in found]
    kinds = {part.partition("=")[2] for parts in told for part in parts}
    assert {"503", "4xx", "status:503", "status:4xx", "3xx", "_OTHER", "other"} <= kinds
    assert len(kinds) <= 2 * len(names.ERRORS)
    assert "418" not in kinds


def test_ten_thousand_junk_names_make_no_series(record: Record, series: Series) -> None:
    telemetry = setup()

    def junk(number: int) -> Record:
        unknown = NoCandidate("unknown_model", f"no model junk-{number}", busy=False, route=None, rejected=(),
                              policy_revision="p", fleet_revision="f")  # fmt: skip
        changed = labelled(record, f"workload-{number}")
        features = replace(record.features, model=f"junk-{number}")
        if number % 2:
            return replace(changed, features=features, request_id=f"r{number}")
        return replace(changed, features=features, decision=unknown, attempts=(), backend="", method="")

    for number in range(10):
        telemetry.on_record(junk(number))
    before = set(series(telemetry.exposition()))
    for number in range(10, 10_000):
        telemetry.on_record(junk(number))
    assert set(series(telemetry.exposition())) == before
    assert len(telemetry.gain.cells()) == 1
    assert not any("junk" in name or "workload-" in name for name in before)


def test_what_a_server_counts_as_none_is_0_from_the_first_request_on(record: Record, series: Series) -> None:
    """A series that began with the first cached tokens would lose them to ``increase()``."""
    telemetry = setup()
    usage = replace(record.outcome.usage, cached_tokens=0)
    telemetry.on_record(replace(record, outcome=replace(record.outcome, usage=usage)))
    found = series(telemetry.exposition())
    assert found[f"gen_ai_client_inference_usage_cache_read_input_tokens_total{GENAI}"] == 0
    untold = setup()
    usage = replace(usage, cached_tokens=None)
    untold.on_record(replace(record, outcome=replace(record.outcome, usage=usage)))
    assert "cache_read" not in untold.exposition().decode()


def test_languages_are_counted(record: Record, series: Series) -> None:
    telemetry = setup()
    for language in ("fr", "fr", "und"):
        telemetry.on_record(replace(record, features=replace(record.features, output_language=language)))
    found = series(telemetry.exposition())
    assert {name: value for name, value in found.items() if name.startswith("specroute_languages")} == {
        "specroute_languages_total language=fr workload=math": 2,
        "specroute_languages_total language=und workload=math": 1,
    }


def test_the_confusion_of_labels_with_what_came_back_is_counted(record: Record, series: Series) -> None:
    telemetry = setup()
    for nature in ("math", "math", "code", ""):
        telemetry.on_record(replace(record, outcome=replace(record.outcome, nature=nature)))
    found = series(telemetry.exposition())
    assert {name: value for name, value in found.items() if name.startswith("specroute_answers")} == {
        "specroute_answers_total nature=math workload=math": 2,
        "specroute_answers_total nature=code workload=math": 1,
    }


def test_labels_of_the_policy_in_force_are_known(record: Record, series: Series) -> None:
    telemetry = setup()
    counted = "specroute_classifications_total source=rule:latex workload="
    telemetry.on_record(labelled(record, "legal"))
    telemetry.policy_loaded(policy("p2", "poetry", "legal", "math"))
    for label in ("legal", "poetry", "code", "junk"):
        telemetry.on_record(labelled(record, label))
    found = series(telemetry.exposition())
    assert {name: value for name, value in found.items() if name.startswith(counted)} == {
        f"{counted}other": 2,
        f"{counted}legal": 1,
        f"{counted}poetry": 1,
        f"{counted}code": 1,
    }


def test_policies_are_counted_as_they_come_into_force(series: Series) -> None:
    telemetry = setup()
    telemetry.policy_loaded(policy("p1", "chat"))
    telemetry.policy_loaded(policy("p2", "chat"))
    assert series(telemetry.exposition())["specroute_policy_loads_total"] == 2


@pytest.mark.parametrize("semconv", names.GENAI)
def test_every_documented_metric_is_served_with_its_labels(
    record: Record, baseline: Record, snapshot: Snapshot, series: Series, semconv: str
) -> None:
    telemetry = setup(semconv=semconv)
    telemetry.observe_fleet(lambda: snapshot, lambda: 100.0)
    telemetry.observe_gain(lambda: 100.0)
    telemetry.observe_dropped(names.RECORDS_DROPPED, lambda: 0)
    model = ServerModel(steps_per_token={Cell("math", 0, SAMPLED): 0.5}, evidence={"math": 1.0}, measured=1.0)
    seen = replace(
        snapshot,
        states=tuple(replace(state, model=model) for state in snapshot.states),
        guide=Guide(plan={"m/x": Plan({"chat": frozenset({"eagle"})})}),
    )
    advice = {"m/x": FleetAdvice(0.05, {"eagle": 0.1}, ())}
    telemetry.observe_learning(lambda: seen, lambda: 100.0, lambda: 1, lambda: advice)
    telemetry.observe_dropped(names.DECISIONS_DROPPED, lambda: 0)
    telemetry.observe_dropped(names.ACCESS_DROPPED, lambda: 0)
    telemetry.observe_dropped(names.LOG_DROPPED, lambda: 0)
    observe_dropped(telemetry._meter, names.SPANS_DROPPED, lambda: 0)
    observe_dropped(telemetry._meter, names.POINTS_DROPPED, lambda: 0)
    telemetry.observe_failures({("eagle", "failure_share"): 1}, lambda: 0, lambda: 9.0)
    telemetry.observe_requests(lambda: 2, lambda: 1)
    telemetry.observe_gpus({"eagle": GpuLoad(0.5, 0.4, 700.0, 99.0)}, lambda: 100.0)
    telemetry.observe_acceptance(
        lambda: [(("eagle", "math", "counters"), 2.5)], lambda: [("eagle", 3.0)], lambda: [("eagle", 0.0)],
        {("eagle",): 1},
    )  # fmt: skip
    telemetry.observe_agreement(lambda: [("math", 0.9)], lambda: [("math", False)])
    telemetry.observe_draft_latency(
        lambda: [("eagle", Estimate(4.0, 4.0, 0.03, 0.006, 0.005, 0.007, 0.01, 9.0))]
    )
    telemetry.policy_loaded(policy("p1", "chat"))
    telemetry.observe_policy(lambda: ("p1", True))
    failed = Attempt("dflash", "connect", "connect", 0, 100.0, 100.1, "e" * 16)
    for _ in range(10):
        telemetry.on_record(replace(record, attempts=(failed, *record.attempts)))
        telemetry.on_record(baseline)
    telemetry.on_record(
        replace(
            record, queued=1.0, attempts=(failed,), outcome=Outcome("upstream_error", 502, error="connect")
        )
    )
    found: dict[str, set[str]] = {}
    for each in series(telemetry.exposition()):
        name, *labels = each.split(" ")
        found.setdefault(name, set()).update(label.split("=")[0] for label in labels)
    expected = {
        metric.prometheus + "_count" * (metric.kind == names.HISTOGRAM): {
            label.replace(".", "_") for label in metric.labels
        }
        for metric in (*names.METRICS, *names.GENAI[semconv].metrics)
    }
    assert {name: found.get(name) for name in expected} == expected
    served = {name for name in found if not name.endswith(("_bucket", "_sum")) if name[:8] != "process_"}
    assert served - set(expected) == {"target_info"}


def test_a_failure_is_at_0_before_the_first(record: Record, snapshot: Snapshot, series: Series) -> None:
    """Prometheus sees no growth in a series that begins with its first count."""
    telemetry = setup()
    telemetry.observe_fleet(lambda: snapshot, lambda: 100.0)
    telemetry.observe_failures({("eagle", "failure_share"): 1}, lambda: 0, lambda: 9.0)
    telemetry.observe_acceptance(list, list, list, {("eagle",): 2})
    telemetry.policy_loaded(policy("p1", "chat", "poetry"))
    before = series(telemetry.exposition())
    for labels in (
        "requests_total backend=eagle method=eagle3 status=upstream_error workload=math",
        "requests_total backend=eagle method=eagle3 status=timeout workload=poetry",
        "requests_total backend=plain method=none status=truncated workload=chat",
        "requests_total backend= method= status=rejected workload=code",
        "requests_total backend= method= status=rejected workload=other",
        "tool_calls_total backend=eagle method=eagle3 validity=invalid workload=tool_use",
        "failovers_total backend=plain error=connect",
        "failovers_total backend=plain error=status:503",
        "decisions_total reason=unknown_model",
        "breaker_trips_total backend=plain reason=trial_failed",
        "backend_restarts_total backend=plain",
    ):
        assert before[f"specroute_{labels}"] == 0, labels
    assert before["specroute_breaker_trips_total backend=eagle reason=failure_share"] == 1
    assert before["specroute_backend_restarts_total backend=eagle"] == 2
    failed = replace(record, outcome=Outcome("upstream_error", 502, error="connect"))
    telemetry.on_record(failed)
    after = series(telemetry.exposition())
    counted = "specroute_requests_total backend=eagle method=eagle3 status=upstream_error workload=math"
    assert after[counted] == 1
    assert telemetry.numbers(names.REQUESTS) == {("math", "eagle", "eagle3", "upstream_error"): 1}


def test_tool_calls_are_counted_by_whether_they_can_be_used(record: Record, series: Series) -> None:
    telemetry = setup()
    for verdict in ("valid", "invalid", "invalid", ""):
        telemetry.on_record(replace(record, outcome=replace(record.outcome, tool_arguments=verdict)))
    found = series(telemetry.exposition())
    counts = [value for name, value in sorted(found.items()) if name.startswith("specroute_tool_calls")]
    assert counts == [2, 1]
