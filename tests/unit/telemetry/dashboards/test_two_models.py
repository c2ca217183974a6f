"""A fleet of two models: what is fast for one of them is no measure for the other."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from ruamel.yaml import YAML

from gateway.telemetry.dashboards import DASHBOARDS
from gateway.telemetry.dashboards.recordings import RECORDINGS
from gateway.telemetry.dashboards.rules import ALERTS

if TYPE_CHECKING:
    from pathlib import Path

PROMTOOL = shutil.which("promtool")

SPEEDS = {"slow-none": 10, "slow-mtp": 20, "fast-none": 50, "fast-mtp": 100}
"""Tokens per second of a stream; the first half of a name is the target."""


def grown() -> list[dict[str, str]]:
    """Counters: each backend decodes 600 tokens a minute, those that draft at 3 tokens a step."""
    series = {}
    for backend, speed in SPEEDS.items():
        target, method = backend.split("-")
        series[f'specroute_backend_info{{backend="{backend}",target="{target}",method="{method}"}}'] = "1x30"
        of = f'{{workload="chat",backend="{backend}",method="{method}"}}'
        series[f"specroute_decode_tokens_total{of}"] = "0+600x30"
        series[f"specroute_decode_time_seconds_total{of}"] = f"0+{600 // speed}x30"
        if method != "none":
            series[f"specroute_speculation_steps_total{of}"] = "0+200x30"
            series[f"specroute_speculation_accepted_tokens_total{of}"] = "0+400x30"
    return [{"series": name, "values": values} for name, values in series.items()]


def drawn(title: str) -> str:
    (panel,) = [
        panel
        for board in DASHBOARDS
        for row in board.rows
        for panel in row.panels
        if panel.title.startswith(title)
    ]
    (query,) = panel.queries
    return re.sub(r"\$__rate_interval", "5m", re.sub(r"\$(workload|backend)", ".*", query.expression))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Price of a step", {'workload="chat",backend="%s-mtp",target="%s"': 1.5}),
        # Half of the tokens at half of the speed: they take 3 where 2 would do.
        ("Traffic as routed against its fastest backend", {'workload="chat",target="%.0s%s"': 0.667}),
    ],
)
def test_each_model_is_compared_with_its_own(title: str, shown: dict[str, float], tmp_path: Path) -> None:
    found = [
        {"labels": f"{{{labels % (target, target)}}}", "value": value}
        for labels, value in shown.items()
        for target in ("slow", "fast")
    ]
    ask = {"expr": f"round({drawn(title)}, 0.001)", "eval_time": "20m", "exp_samples": found}
    cases = {"tests": [{"interval": "1m", "input_series": grown(), "promql_expr_test": [ask]}]}
    page = tmp_path / "cases.yaml"
    YAML().dump(cases, page)
    done = subprocess.run(  # noqa: S603 - found on the path
        [str(PROMTOOL), "test", "rules", str(page)], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_expression_joins_what_different_models_do() -> None:
    every = [query.expression for board in DASHBOARDS for query in board.queries]
    every += [each.expression for each in (*RECORDINGS, *ALERTS)]
    joins = {
        tuple(labels.split(", ")) for one in every for labels in re.findall(r"(?<! or) on \(([^)]*)\)", one)
    }
    assert joins
    assert all({"backend", "target"} & set(labels) for labels in joins), joins
