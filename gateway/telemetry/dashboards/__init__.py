"""Dashboards and rules made from the table of names."""

from __future__ import annotations

from typing import Final

from gateway.telemetry.dashboards.fleet import FLEET
from gateway.telemetry.dashboards.health import HEALTH
from gateway.telemetry.dashboards.routes import ROUTES
from gateway.telemetry.dashboards.speculation import SPECULATION

DASHBOARDS: Final = (ROUTES, SPECULATION, FLEET, HEALTH)
"""All of them."""
