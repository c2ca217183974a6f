from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from gateway.core.fleet import METHODS
from gateway.telemetry import names
from gateway.telemetry.dashboards import DASHBOARDS, vllm
from gateway.telemetry.dashboards.expressions import FIRST_TOKEN
from gateway.telemetry.dashboards.recordings import RECORDINGS
from gateway.telemetry.dashboards.rules import ALERTS
from tests.factories import backend

WHOLE = ", whole fleet"
FOREIGN = {"process_cpu_seconds_total", "process_resident_memory_bytes", "up"}


def panels(board: Any) -> list[dict[str, Any]]:
    return [panel for panel in board.grafana()["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    drawn = [query.expression for board in DASHBOARDS for query in board.queries]
    return [*drawn, *(each.expression for each in (*RECORDINGS, *ALERTS))]


def mentioned(expression: str) -> set[str]:
    """Names of metrics in an expression; those of recording rules have two colons."""
    without = re.sub(r'"[^"]*"|\[[^]]*\]|(by|on|group_left) \([^)]*\)', "", expression)
    words = re.findall(r"[a-z_:]+[a-z0-9_:]*(?=[{\s)/*]|$)", without)
    return {word for word in words if "_" in word or ":" in word or word == "up"} - {"histogram_quantile"}


def known() -> set[str]:
    kinds = {names.HISTOGRAM: ("_bucket", "_sum", "_count")}
    every = (*names.METRICS, FIRST_TOKEN, *vllm.METRICS)
    ours = {metric.prometheus + end for metric in every for end in kinds.get(metric.kind, ("",))}
    return ours | FOREIGN | {each.name for each in RECORDINGS}


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_a_dashboard_is_json_with_panels_side_by_side(board: Any) -> None:
    assert json.loads(json.dumps(board.grafana()))["uid"] == f"specroute-{board.name}"
    places = [panel["gridPos"] for panel in board.grafana()["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    identities = [panel["id"] for panel in board.grafana()["panels"]]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_every_panel_has_a_title_a_source_and_something_to_show(board: Any) -> None:
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)
    for panel in panels(board):
        assert panel["targets"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
        if panel["type"] == "table":
            (shape,) = panel["transformations"]
            assert set(shape["options"].values()) <= {*names.LABELS, "Value"}


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_what_can_be_chosen_is_what_the_expressions_use(board: Any) -> None:
    used = {name for query in board.queries for name in re.findall(r"\$(\w+)", query.expression)}
    chosen = {variable.name for variable in board.variables}
    assert used - {"__rate_interval"} == chosen


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_a_panel_shows_what_is_chosen_or_says_that_it_shows_all(board: Any) -> None:
    """Of a metric with a label that can be chosen, a panel shows the chosen values only."""
    ours = {metric.prometheus: metric for metric in (*names.METRICS, *vllm.METRICS)}
    for panel in (panel for row in board.rows for panel in row.panels):
        for query in panel.queries:
            shown = [
                ours[name] for name in ours if re.search(rf"{name}(_bucket|_sum|_count)?\b", query.expression)
            ]
            can = {each.name for each in board.variables if any(each.name in of.labels for of in shown)}
            does = set(re.findall(r"\$(workload|backend)\b", query.expression))
            if board.variables:
                assert can == does or WHOLE in panel.title, (panel.title, can, does)
                assert does or WHOLE in panel.title, panel.title


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_names_metrics_that_exist(expression: str) -> None:
    assert mentioned(expression)
    assert mentioned(expression) <= known()


def test_names_that_do_not_exist_are_seen() -> None:
    assert mentioned('sum by (le) (rate(specroute_nothing_total{a=~"b"}[5m])) / up') == {
        "specroute_nothing_total", "up",
    }  # fmt: skip


def test_percentiles_lead_to_traces() -> None:
    shown = [panel for board in DASHBOARDS for panel in panels(board) if panel["targets"][0]["exemplar"]]
    assert len(shown) >= 4


def test_targets_carry_the_labels_that_dashboards_ask_for() -> None:
    one = backend("a", url="https://user:key@10.0.0.5:8000", method=METHODS[1])
    (target,) = vllm.targets([one])
    assert target == {
        "targets": ["10.0.0.5:8000"],
        "labels": {
            "backend": "a", "method": METHODS[1], "target_model": one.target, "__scheme__": "https",
        },
    }  # fmt: skip
