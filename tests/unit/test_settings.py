from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.settings import Settings
from tools.settings_reference import TARGET, reference

FILES = {"fleet": Path("fleet.yaml"), "policy": Path("policy.yaml")}


def test_the_page_of_settings_is_in_step():
    assert TARGET.read_text(encoding="utf-8") == reference(), "run python tools/settings_reference.py"


@pytest.mark.parametrize(
    "address", ["http://localhost:4318", "https://u:p@collector/otlp/", "http://[::1]:4318", None]
)
def test_a_collector_has_an_http_address(address: str | None) -> None:
    assert Settings(**FILES, otlp_endpoint=address).otlp_endpoint == address


@pytest.mark.parametrize(
    "address",
    [
        "localhost:4318",
        "collector",
        "",
        "grpc://c:4317",
        "http://",
        "http://c:port",
        "http://c:0",
        "http://[::1",
    ],
)
def test_a_collector_that_cannot_be_posted_to_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="write http://localhost:4318 or the like"):
        Settings(**FILES, otlp_endpoint=address)


@pytest.mark.parametrize(
    ("given", "traces", "metrics"),
    [
        ({}, None, None),
        ({"otlp_endpoint": "http://c:1/"}, "http://c:1/v1/traces", "http://c:1/v1/metrics"),
        (
            {"otlp_endpoint": "http://c:1", "otlp_traces_endpoint": "http://t:1/in"},
            "http://t:1/in",
            "http://c:1/v1/metrics",
        ),
        ({"otlp_endpoint": "http://c:1", "otlp_metrics_endpoint": "none"}, "http://c:1/v1/traces", None),
        ({"otlp_metrics_endpoint": "http://m:1/"}, None, "http://m:1/"),
    ],
)
def test_spans_and_metrics_go_to_one_receiver_or_to_two(
    given: dict[str, str], traces: str | None, metrics: str | None
) -> None:
    settings = Settings(**FILES, **given)
    assert (settings.receiver("traces"), settings.receiver("metrics")) == (traces, metrics)


@pytest.mark.parametrize("name", ["otlp_traces_endpoint", "otlp_metrics_endpoint"])
def test_a_receiver_of_one_signal_has_an_http_address_too(name: str) -> None:
    with pytest.raises(ValidationError, match="it is no HTTP address"):
        Settings(**FILES, **{name: "nowhere"})
