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
