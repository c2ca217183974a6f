"""Where a conversation was answered is known to every process of a gateway."""

import asyncio
import signal

import aiohttp

from backends.sim.fleet import Member, run_fleet
from tests.e2e.test_drain import POLICY
from tests.e2e.test_workers import FLEET, SECONDS, SMALL, workers

AUTOMATIC = f"{POLICY}learning: {{mode: auto}}\n"
CONVERSATION = {"x-session-id": "of the sea"}


async def ask(url, path):
    """One request of the conversation over a connection of its own, so that any worker may get it."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        session.post(url + path, json=SMALL, headers=CONVERSATION) as answer,
    ):
        assert answer.status == 200
        return answer.headers, await answer.json()


async def test_all_workers_prefer_the_server_that_has_a_conversation(tmp_path):
    async with run_fleet([Member(SMALL["model"]), Member(SMALL["model"], "dflash", 7)]) as servers:
        urls = [one.url for one in servers]
        async with workers(tmp_path, urls, fleet=FLEET, policy=AUTOMATIC, count=3) as (process, url):
            headers, _ = await ask(url, "/v1/chat/completions")
            home, sure = headers["x-specroute-backend"], 0
            async with asyncio.timeout(SECONDS):
                while sure < 20:  # in a row: at first the record may be on its way
                    _, decision = await ask(url, "/-/decide")
                    costs = {one["backend"]: one["cost"] for one in decision["candidates"]}
                    # Nothing is known of the servers yet, so that it is the home alone that tells them apart.
                    sure = sure + 1 if costs.pop(home) < min(costs.values()) else 0
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
