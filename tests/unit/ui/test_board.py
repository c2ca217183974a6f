from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.fleet import Snapshot
from gateway.core.gain import Gain, decode_sample
from gateway.core.outcome import Outcome, Usage
from gateway.telemetry import names
from gateway.ui.board import Board
from gateway.ui.samples import FIRST_TOKEN, Samples
from tests import factories
from tests.unit.ui.test_decisions import RECORD
from tests.unit.ui.test_samples import Counters

PLAIN, FAST = ("math", "plain", "none"), ("math", "fast", "mtp")


def filled() -> Counters:
    counters = Counters()
    for route, requests, tokens, seconds in ((PLAIN, 10, 900, 30), (FAST, 30, 2700, 30)):
        counters.add(names.REQUESTS, (*route, "ok"), requests)
        counters.add(names.OUTPUT_TOKENS, route, tokens)
        counters.add(names.DECODE_TOKENS, route, tokens)
        counters.add(names.DECODE_TIME, route, seconds)
    counters.add(names.REQUESTS, ("math", "", "", "rejected"), 10)
    counters.add(names.STEPS, FAST, 1000)
    counters.add(names.DRAFTED, FAST, 2000)
    counters.add(names.ACCEPTED, FAST, 1500)
    counters.add(names.ACCEPTED_AT, (*FAST, "0"), 900)
    counters.add(names.ACCEPTED_AT, (*FAST, "1"), 600)
    return counters


def gained() -> Gain:
    gain = Gain()
    for backend, method, seconds in (("plain", "none", 3.0), ("fast", "mtp", 1.0)):
        for number in range(10):
            outcome = Outcome(
                "ok", 200, decode_seconds=seconds + number / 100, usage=Usage(10, 91), events=91
            )
            record = replace(
                RECORD, backend=backend, method=method, baseline=method == "none", outcome=outcome
            )
            gain.add(record, factories.TARGET, "math", decode_sample(record))
    return gain


@pytest.fixture
def board() -> Board:
    states = (
        factories.state("plain"),
        factories.state("fast", method="mtp", draft_tokens=2),
        factories.state("idle", method="mtp", draft_tokens=2),
    )
    now = [0.0]
    samples = Samples(Counters(), 0.0)
    samples._source = filled()
    now[0] = 10.0
    return Board(
        samples=samples,
        gain=gained(),
        speedups=gained().speedups,
        snapshot=lambda: Snapshot.of(states, "f"),
        open_requests=lambda: 7,
        waiting=lambda: 2,
        clock=lambda: now[0],
        unix=lambda: now[0] + 1000.0,
    )


def test_totals_are_of_the_window(board: Board) -> None:
    totals = board.state()["totals"]
    assert totals["requests_per_second"] == 5.0
    assert totals["failed_share"] == 0.2
    assert (totals["open"], totals["waiting"]) == (7, 2)
    assert totals["stream_speed"] == 60.0
    assert totals["output_tokens_per_second"] == 360.0
    assert totals["acceptance_rate"] == 0.75


def test_the_gain_is_that_of_all_traffic(board: Board) -> None:
    """Half the requests take a third of the time: together (3 + 3) / (3 + 1) of the baseline's speed."""
    totals = board.state()["totals"]
    assert totals["gain_over_baseline"] == pytest.approx(1.5, rel=0.03)
    assert totals["gain_over_best"] == pytest.approx(0.5, rel=0.03)


def test_cells_hold_speed_gain_and_acceptance(board: Board) -> None:
    fast, plain = board.state()["cells"]
    assert (fast["workload"], fast["backend"], fast["speed"], fast["requests"]) == ("math", "fast", 90.0, 30)
    assert (fast["acceptance_rate"], fast["mean_accepted_length"]) == (0.75, 2.5)
    assert fast["speedup"] == pytest.approx(3.0, rel=0.05)
    assert fast["speedup_low"] < fast["speedup"] < fast["speedup_high"]
    assert (plain["backend"], plain["speedup"], plain["acceptance_rate"]) == ("plain", 1.0, None)


def test_positions_are_shares_of_the_steps(board: Board) -> None:
    assert board.state()["positions"] == [
        {"backend": "fast", "method": "mtp", "draft_tokens": 2, "shares": [0.9, 0.6]}
    ]


def test_shares_over_time_are_rates_between_samples(board: Board) -> None:
    board.samples.add(5.0)
    board.samples._source.add(names.REQUESTS, (*FAST, "ok"), 20)  # type: ignore[attr-defined]
    board.samples.add(10.0)
    found = board.over_time()
    assert found["times"] == [1005.0, 1010.0]
    assert found["backends"] == {"plain": [2.0, 0.0], "fast": [6.0, 4.0], "idle": [0.0, 0.0]}


def test_speed_and_first_tokens_over_time_have_gaps_where_nothing_ended(board: Board) -> None:
    counters: Any = board.samples._source
    board.samples.add(5.0)
    counters.add(names.DECODE_TOKENS, FAST, 40)
    counters.add(names.DECODE_TIME, FAST, 2)
    counters.measure(names.TTFT, FAST, 0.3)
    counters.measure(names.TTFT, FAST, 0.5)
    counters.measure(FIRST_TOKEN, ("chat", "vllm", "tiny"), 12.9)
    counters.measure(FIRST_TOKEN, ("chat", "vllm", "other"), 0.5)
    board.samples.add(10.0)
    found = board.over_time()
    assert found["speeds"] == {"plain": [30.0, None], "fast": [90.0, 20.0], "idle": [None, None]}
    assert found["first_tokens"] == {"plain": [None, None], "fast": [None, 0.4], "idle": [None, None]}
    assert found["acceptance"]["fast"] == [0.75, None]
    (fast, _) = board.state()["cells"]
    assert (fast["first_token"], board.state()["totals"]["first_token"]) == (0.4, 0.4)
    assert board.state()["totals"]["client_first_token"] == 6.7


def test_a_long_history_is_thinned_and_keeps_its_end(board: Board) -> None:
    for number in range(1, 180):
        board.samples.add(number * 5.0)
    found = board.over_time()
    assert len(found["times"]) <= 90
    assert found["times"][-1] == 179 * 5.0 + 1000.0


def test_without_traffic_there_is_nothing_to_divide_by() -> None:
    empty: Any = Board(
        samples=Samples(Counters(), 0.0), gain=Gain(), speedups=Gain().speedups, snapshot=lambda: Snapshot.of((), "f"),
        open_requests=int, waiting=int, clock=lambda: 0.0, unix=lambda: 0.0,
    )  # fmt: skip
    state = empty.state()
    assert state["cells"] == state["positions"] == []
    assert state["totals"]["stream_speed"] is None
    assert state["totals"]["gain_over_baseline"] is None
    assert empty.over_time()["times"] == []


def test_of_many_backends_a_chart_shows_the_busiest(board: Board) -> None:
    many = [factories.state(f"b{number}", method="mtp", draft_tokens=1) for number in range(30)]
    counters = Counters()
    for number in range(30):
        route = ("math", f"b{number}", "mtp")
        counters.add(names.REQUESTS, (*route, "ok"), number + 1)
        counters.add(names.STEPS, route, number + 1)
    board.samples._source = counters
    big = replace(board, snapshot=lambda: Snapshot.of(many, "f"))
    assert [row["backend"] for row in big.state()["positions"]] == [f"b{number}" for number in range(22, 30)]
    board.samples.add(5.0)
    found = big.over_time()["backends"]
    assert list(found) == [*(f"b{number}" for number in range(23, 30)), "others"]
    assert found["others"] == [sum(range(1, 24)) / 5]
