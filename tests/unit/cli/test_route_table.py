"""The table of the demo, read back from what a person would see."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from gateway.cli.route_table import WIDTH, Routes
from gateway.core.classify import Classification
from gateway.core.decide import Decision, NoCandidate
from gateway.core.outcome import Outcome, Record, Speculation, Trace, Usage
from tests import factories

DECISION = Decision(
    route="all",
    target="org/Tiny",
    candidates=(),
    rejected=(),
    reason="lowest_cost",
    propensity=1.0,
    max_attempts=3,
    policy_revision="p",
    fleet_revision="f",
)


def record(
    backend: str, *, ttft: float = 0.1, seconds: float = 1.0, tokens: int = 101, at: float = 0.0
) -> Record:
    baseline = backend == "plain"
    outcome = Outcome(
        "ok",
        200,
        ttft=ttft,
        decode_seconds=seconds,
        usage=Usage(10, tokens),
        speculation=Speculation("none") if baseline else Speculation("exact", 40, 120, 60, (5, 20, 5, 10)),
    )
    return Record(
        request_id="r",
        trace=Trace("1" * 32, "2" * 16),
        started=at,
        started_unix_ns=0,
        decided=at,
        ended=at + 1.0,
        features=factories.features(),
        classification=Classification("math", 1.0, "hint"),
        decision=DECISION,
        attempts=(),
        outcome=outcome,
        backend=backend,
        method="none" if baseline else "eagle3",
        draft_tokens=0 if baseline else 3,
        baseline=baseline,
    )


def shown(*records: Record) -> tuple[list[list[str]], list[str]]:
    """Cells of each row as printed, and the lines below the table."""
    routes = Routes()
    for one in records:
        routes.add(one)
    out = io.StringIO()
    console = Console(file=out, width=WIDTH)
    for table in routes.tables():
        console.print(table)
    rows = [line.split() for line in out.getvalue().splitlines()]
    return [row for row in rows if {"fast", "plain", "slow"} & set(row)], routes.totals()


FAST = [record("fast", ttft=ttft, at=float(at)) for at, ttft in enumerate([0.1] * 5 + [0.2] * 5)]
PLAIN = [record("plain", seconds=2.0, ttft=0.4, at=float(at)) for at in range(10)]


def test_a_row_says_what_was_measured() -> None:
    rows, totals = shown(*FAST, *PLAIN)
    # Ten answers of 101 tokens from 0 s to 10 s; 100 of the tokens decoded in 1 s, or in 2 s by the baseline.
    assert rows == [
        ["math", "fast", "10", "50%", "150", "200", "10.0", "101", "2.50", "50%", "2.00", "(2.00–2.00)"],
        ["plain", "10", "50%", "400", "400", "20.0", "101", "–", "–", "baseline"],
    ]
    (line,) = totals
    assert line.startswith("org/Tiny: 10 requests with a draft, 10 on the baseline")
    assert line.endswith("a stream with a draft decodes 2.00 (2.00–2.00) times as fast")


def test_the_interval_holds_the_spread() -> None:
    uneven = [record("fast", seconds=0.5 + 0.1 * step) for step in range(10)]
    rows, _ = shown(*uneven, *PLAIN)
    low, high = (float(bound) for bound in rows[0][-1].strip("()").split("–"))
    assert low < float(rows[0][-2]) < high


def test_too_few_requests_are_called_so() -> None:
    rows, totals = shown(*FAST[:2], *PLAIN)
    assert rows[-1][-2:] == ["too", "few"]
    assert totals[0].endswith("too few to compare (the backend has 2.0 of 5 effective requests)")


def test_shares_are_of_the_workload_and_the_most_used_comes_first() -> None:
    code = [replace(one, classification=Classification("code", 1.0, "hint")) for one in FAST[:1]]
    rows, _ = shown(*FAST[:1], *PLAIN[:3], *code)
    assert [row[:4] for row in rows] == [
        ["code", "fast", "1", "100%"],
        ["math", "plain", "3", "75%"],
        ["fast", "1", "25%", "100"],
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"decision": NoCandidate("no_route", "", False, None, (), "p", "f")},
        {"backend": ""},
    ],
    ids=["refused", "nobody tried"],
)
def test_what_reached_no_backend_is_in_no_row(change: dict[str, Any]) -> None:
    rows, totals = shown(replace(FAST[0], **change))
    assert rows == []
    assert totals == []
