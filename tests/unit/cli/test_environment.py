from __future__ import annotations

import pytest

from gateway.cli.environment import mistyped


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("SPECROUTE_SCRAPE_INTERVALL", "did you mean SPECROUTE_SCRAPE_INTERVAL?"),
        ("SPECROUTE_WORKER", "did you mean SPECROUTE_WORKERS?"),
        ("SPECROUTE_QQQ", "docs/settings.md has all there are"),
    ],
)
def test_a_variable_that_is_no_setting_is_told_with_the_nearest(variable: str, remedy: str) -> None:
    assert mistyped([variable], "") == [f"{variable} is set, but there is no such setting; {remedy}"]


@pytest.mark.parametrize(
    "variable",
    [
        "SPECROUTE_SCRAPE_INTERVAL",
        "SPECROUTE_VLLM_PYTHON",
        "SPECROUTE_GEMMA_KEY",
        "SPECROUTE_SIM_SERVICE_HOST",
        "SPECROUTE_SIM_SERVICE_PORT_HTTP",
        "SPECROUTE_SIM_PORT",
        "SPECROUTE_SIM_PORT_8000_TCP_ADDR",
        "SPECROUTE_SERVICE_HOST",
        "PATH",
        "SPEC_ROUTE",
    ],
)
def test_settings_keys_and_what_kubernetes_sets_are_in_order(variable: str) -> None:
    assert mistyped([variable], "  api_key_env: SPECROUTE_GEMMA_KEY\n") == []
