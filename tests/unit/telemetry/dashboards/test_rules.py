from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gateway.telemetry.dashboards.recordings import RECORDINGS
from gateway.telemetry.dashboards.rules import ALERTS, rule_file

ROOT = Path(__file__).parents[4]
RULES = ROOT / "deploy" / "prometheus" / "specroute.rules.yaml"
CASES = ROOT / "tests" / "rules" / "specroute.rules.test.yaml"
PROMTOOL = shutil.which("promtool")


def promtool(*arguments: str) -> str:
    if PROMTOOL is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run(  # noqa: S603 - found on the path
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_accepts_the_rules() -> None:
    assert f"SUCCESS: {len(RECORDINGS) + len(ALERTS)} rules found" in promtool("check", "rules", str(RULES))


def test_every_alert_fires_when_it_should() -> None:
    promtool("test", "rules", str(CASES))


def test_every_alert_has_such_a_test() -> None:
    cases = YAML(typ="safe").load(CASES.read_text())["tests"]
    fired = {
        check["alertname"]
        for case in cases
        for check in case.get("alert_rule_test", ())
        if check["exp_alerts"]
    }
    assert fired == {alert.name for alert in ALERTS}


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    anchors = {line.removeprefix("### ").lower() for line in page.splitlines() if line.startswith("### ")}
    for alert in ALERTS:
        assert alert.summary
        assert alert.description.endswith(".")
        assert alert.name.lower() in anchors


def test_what_an_alert_takes_from_a_recording_is_recorded() -> None:
    recorded = {each.name for each in RECORDINGS}
    asked = {
        word.strip("()")
        for alert in ALERTS
        for word in alert.expression.split()
        if word.strip("()").startswith("specroute:")
    }
    assert asked
    assert asked <= recorded


def test_conditions_are_joined() -> None:
    (both,) = [alert for alert in ALERTS if alert.name == "SpecrouteErrorsFast"]
    assert both.expression == (
        "(specroute:errors:ratio_rate1h) > 0.072\nand (specroute:errors:ratio_rate5m) > 0.072\n"
        'and (sum(increase(specroute_requests_total{status=~"upstream_error|timeout|truncated|rejected"}[1h])))'
        " >= 5"
    )
    assert len(rule_file()["groups"]) == 2
