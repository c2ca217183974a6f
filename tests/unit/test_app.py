from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.app import Gateway
from gateway.core.breaker import BreakerSettings
from gateway.core.budget import BudgetSettings
from gateway.runtime.reload import load_files
from gateway.settings import Settings

if TYPE_CHECKING:
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
