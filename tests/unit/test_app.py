from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gateway import app
from gateway.app import Gateway
from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from gateway.telemetry.setup import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FLEET = """\
version: 1
backends:
  - {name: a, url: "http://127.0.0.1:1", model: org/Tiny}
"""
POLICY = """\
version: 1
breaker: {{consecutive: {0}}}
retries: {{burst: {0}}}
routes:
  - {{name: all, prefer: [any]}}
"""


async def test_the_policy_governs_the_fleet_from_the_start_and_after_each_reload(tmp_path: Path) -> None:
    settings = Settings(fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml")
    settings.fleet.write_text(FLEET)
    settings.policy.write_text(POLICY.format(7))
    gateway = Gateway(settings, load_files(settings.fleet, settings.policy, {}))  # type: ignore[arg-type]
    fleet = gateway._fleet
    assert (fleet._breaker, fleet._retries) == (BreakerSettings(consecutive=7), BudgetSettings(burst=7))
    async with gateway._lifespan(gateway._control):
        settings.policy.write_text(POLICY.format(9))
        assert await gateway._configuration.reload()
        assert (fleet._breaker, fleet._retries) == (BreakerSettings(consecutive=9), BudgetSettings(burst=9))


async def test_the_metrics_are_asked_for_before_there_are_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml")
    settings.fleet.write_text(FLEET)
    settings.policy.write_text(POLICY.format(7))
    made, page = [], Telemetry.page

    def watched(telemetry: Telemetry, accept: str) -> tuple[bytes, str]:
        made.append(page(telemetry, accept))
        return made[-1]

    monkeypatch.setattr(Telemetry, "page", watched)
    gateway = Gateway(settings, load_files(settings.fleet, settings.policy, {}))  # type: ignore[arg-type]
    async with gateway._lifespan(gateway._control):
        ((text, _),) = made
        assert b"specroute_" in text


STEPS = ("_upstream", "_consumers", "_telemetry")


@pytest.mark.parametrize("stuck", STEPS)
@pytest.mark.parametrize("how", ["hangs", "fails"])
async def test_a_step_of_the_shutdown_that_hangs_or_fails_keeps_no_other_from_being_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stuck: str, how: str
) -> None:
    settings = Settings(fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml")
    settings.fleet.write_text(FLEET)
    settings.policy.write_text(POLICY.format(7))
    gateway = Gateway(settings, load_files(settings.fleet, settings.policy, {}))  # type: ignore[arg-type]
    closed: list[str] = []
    never = threading.Event()

    def watched(name: str, close: Callable[..., Any]) -> Callable[..., Any]:
        async def step(*given: float) -> None:
            if name == stuck and how == "fails":
                raise OSError(name)
            if name == stuck:
                await asyncio.Event().wait()
            await close(*given)
            closed.append(name)

        def blocking() -> None:
            if name == stuck and how == "fails":
                raise OSError(name)
            if name == stuck:
                never.wait()
            close()
            closed.append(name)

        return step if asyncio.iscoroutinefunction(close) else blocking

    for name in STEPS:
        part = getattr(gateway, name)
        monkeypatch.setattr(part, "close", watched(name, part.close))
    monkeypatch.setattr(app, "STEP_SECONDS", 0.5)
    async with gateway._lifespan(gateway._control):
        pass
    assert closed == [name for name in STEPS if name != stuck]
    assert any("is given up" in one.message or "failed" in one.message for one in caplog.records)
    never.set()
