from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.classify import Classification
from gateway.core.decide import Candidate, Decision, NoCandidate
from gateway.core.outcome import Outcome, Record, Speculation, Trace, Usage
from gateway.ui.decisions import KEPT, Decisions
from tests import factories

KNOWN = frozenset({"math", "chat"})
RECORD = Record(
    request_id="r",
    trace=Trace("a" * 32, "b" * 16),
    started=1.0,
    started_unix_ns=1_800_000_000_000_000_000,
    decided=1.0,
    ended=3.0,
    features=factories.features(),
    classification=factories.classification(),
    decision=Decision(
        "all", factories.TARGET, (Candidate("a", 0.25, ()), Candidate("b", 1.5, ())), (), "lowest_cost", 1.0, 3, "p", "f"
    ),
    attempts=(factories.attempt("a", error=""),),
    outcome=Outcome(
        "ok", 200, ttft=0.05, first_token=0.051, decode_seconds=1.0, usage=Usage(10, 101),
        speculation=Speculation("exact", 40, 160, 60, (1, 2)),
    ),
    backend="a",
    method="mtp",
)  # fmt: skip


@pytest.fixture
def decisions() -> Decisions:
    return Decisions(lambda: KNOWN)


def test_a_line_says_where_why_and_what_came_of_it(decisions: Decisions) -> None:
    decisions.on_record(RECORD)
    (line,) = decisions.after(0)
    assert (line.number, line.workload, line.backend, line.method) == (1, "math", "a", "mtp")
    assert line.why == "it has the lowest cost: 0.25, before b with 1.5"
    assert line.result == "first token after 51 ms, 100 tok/s, 2.50 tokens a step"
    assert not line.explored


def test_lines_have_the_time_of_their_end_and_are_in_its_order(decisions: Decisions) -> None:
    later = replace(RECORD, started=1.5, ended=2.0, started_unix_ns=1_800_000_000_500_000_000)
    for record in (later, RECORD):  # as they end
        decisions.on_record(record)
    assert [line.unix for line in decisions.after(0)] == [1_800_000_001.0, 1_800_000_002.0]


def test_a_failover_is_told_first(decisions: Decisions) -> None:
    decisions.on_record(replace(RECORD, attempts=(factories.attempt("b"), *RECORD.attempts)))
    (line,) = decisions.after(0)
    assert line.why.startswith("b failed (connect); it has the lowest cost")


def test_what_a_client_waited_for_is_told_apart_from_the_backend(decisions: Decisions) -> None:
    outcome = replace(RECORD.outcome, first_token=13.6)
    decisions.on_record(
        replace(RECORD, outcome=outcome, queued=12.44, attempts=(factories.attempt("b"), *RECORD.attempts))
    )
    decisions.on_record(replace(RECORD, outcome=Outcome("rejected", 429), queued=30.0, attempts=()))
    served, refused = decisions.after(0)
    assert served.why.startswith("waited 12.4 s for room; b failed (connect); it has the lowest cost")
    assert served.result.startswith("first token after 13.6 s (50 ms after dispatch), 100 tok/s")
    assert refused.why.startswith("waited 30.0 s for room; ")


@pytest.mark.parametrize(("reason", "explored"), [("baseline_share", True), ("only_candidate", False)])
def test_what_went_there_to_learn_is_marked(decisions: Decisions, reason: str, explored: bool) -> None:
    assert isinstance(RECORD.decision, Decision)
    decisions.on_record(replace(RECORD, decision=replace(RECORD.decision, reason=reason)))
    (line,) = decisions.after(0)
    assert line.explored == explored


def test_a_refusal_says_why_without_the_words_of_the_client(decisions: Decisions) -> None:
    refused = NoCandidate("unknown_model", "The model `CANARY` does not exist", False, None, (), "p", "f")
    label = Classification("CANARY", 1.0, "hint")
    decisions.on_record(
        replace(
            RECORD, decision=refused, classification=label, backend="", outcome=Outcome("client_error", 404)
        )
    )
    (line,) = decisions.after(0)
    assert (line.why, line.result, line.workload) == ("the model is not known", "client error 404", "")


def test_those_after_a_number_come_once_and_in_order(decisions: Decisions) -> None:
    for number in range(5):
        decisions.on_record(replace(RECORD, request_id=str(number)))
    assert [line.request_id for line in decisions.after(3)] == ["3", "4"]
    assert decisions.after(5) == decisions.after(9) == []
    assert [line.number for line in decisions.after(0, limit=2)] == [4, 5]


def test_only_the_last_are_kept(decisions: Decisions) -> None:
    for _ in range(KEPT + 50):
        decisions.on_record(RECORD)
    found = decisions.after(0, limit=1000)
    assert (found[0].number, found[-1].number) == (51, KEPT + 50)
