"""A gateway in front of servers of a test, in the running loop."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.runtime.reload import load_files
from gateway.settings import Settings

POLICY = """\
version: 1
routes:
  - {name: all, prefer: [any], score: {load: 1.0}}
"""

WAYS = pytest.mark.parametrize(
    "way", [{}, {"upstream": "httpx"}, {"pipe": False}], ids=["lean", "httpx", "messages"]
)
"""The ways from a server to a client: by default, by the other client, and without the pipe."""


@asynccontextmanager
async def gateway(folder, backends, *, policy=POLICY, on_record=(), **settings):
    """Serve a gateway; gives its address.

    Args:
        folder: Where its files are put.
        backends: What the fleet file says of each backend.
        policy: Text of the policy file.
        on_record: See :class:`gateway.app.Gateway`.
        settings: Further settings of the process.
    """
    (folder / "fleet.yaml").write_text(fleet_file(backends))
    (folder / "policy.yaml").write_text(policy)
    given = Settings(fleet=folder / "fleet.yaml", policy=folder / "policy.yaml", port=0, **settings)
    loaded = load_files(given.fleet, given.policy, {})
    async with serving(Gateway(given, loaded, on_record=on_record), given) as url:
        yield url


def fleet_file(backends):
    """Text of a fleet file: JSON is YAML too."""
    return json.dumps({"version": 1, "backends": backends})


async def status(session):
    """What the gateway says of itself."""
    async with session.get("/status") as response:
        return await response.json()


async def idle(url, within=30.0):
    """Wait until every backend is well and has no request open, as the gateway sees it."""
    async with asyncio.timeout(within), aiohttp.ClientSession(url) as session:
        while True:
            backends = (await status(session))["fleet"]["backends"]
            if all(one["healthy"] and not one["in_flight"] for one in backends):
                return
            await asyncio.sleep(0.02)
