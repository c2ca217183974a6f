from __future__ import annotations

from backends.sweep.evidence import evidence, measurement
from backends.sweep.model import BASELINE, Cell
from backends.sweep.plan import Family, Plan
from gateway.policy.evidence import Machine, parse
from tests.unit.backends.sweep.making import CODE, MTP2, measured_round, results

REFUSED = CODE._replace(workload="tool_use")


def made():
    found = results(
        measured_round(rate=50.0),
        measured_round(MTP2, rate=100.0, accepted=(10, 10, 20)),
        measured_round(condition=REFUSED, error="status 400: tools need a parser"),
    )
    plan = Plan((CODE, REFUSED), (Family("mtp", 2, (2,)),), found)
    return evidence(plan, "some/model", Machine(), measured="2026-01-01", failures={"x": "y"}, seconds=12.34)


def test_a_measured_cell_is_in_the_file_with_all_that_is_known_of_it() -> None:
    found = made()
    base, fast = found.measurements
    assert base.is_baseline
    assert (fast.label, fast.workload, fast.requests) == ("mtp-2", "code", 16)
    assert fast.speedup is not None
    assert fast.speedup.value == 2.0
    assert (fast.mean_accepted_length, fast.by_position, fast.cost) == (2.25, (0.75, 0.5), 1.125)
    assert (fast.compared, fast.different) == (16, 0)
    assert (fast.output_tokens, fast.prompt_tokens) == (100.0, 50.0)
    assert (base.cost, base.compared) == (None, 0)
    assert found.effort.rounds == 3
    assert parse(found.to_json()) == found


def test_what_no_server_took_is_said_with_its_reason() -> None:
    assert made().failures == {"none tool_use c8": "status 400: tools need a parser", "x": "y"}


def test_a_cell_without_a_good_request_is_no_measurement() -> None:
    found = results(measured_round(error="dead"))
    cell = found.get(Cell(BASELINE, CODE))
    assert cell is not None
    assert measurement(cell, found) is None
