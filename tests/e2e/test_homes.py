"""Where a conversation was answered is known to every process of a gateway."""

import asyncio
import signal

import aiohttp

from backends.sim.fleet import Member, run_fleet
from tests.e2e.test_drain import POLICY
from tests.e2e.test_workers import FLEET, SECONDS, SMALL, workers

AUTOMATIC = f"{POLICY}learning: {{mode: auto}}\n"
CONVERSATION = {"x-session-id": "of the sea"}


async def costs(session, headers):
    """What a decision would count each server now."""
    async with session.post("/-/decide", json=SMALL, headers=headers) as answer:
        return {one["backend"]: one["cost"] for one in (await answer.json())["candidates"]}


async def test_all_workers_prefer_the_server_that_has_a_conversation(tmp_path):
    async with run_fleet([Member(SMALL["model"]), Member(SMALL["model"], "dflash", 7)]) as servers:
        urls = [one.url for one in servers]
        async with workers(tmp_path, urls, fleet=FLEET, policy=AUTOMATIC, count=3) as (process, url):
            async with aiohttp.ClientSession(url) as session:
                path = "/v1/chat/completions"
                async with session.post(path, json=SMALL, headers=CONVERSATION) as answer:
                    await answer.read()
                    home, sure = answer.headers["x-specroute-backend"], 0
            async with asyncio.timeout(SECONDS):
                while sure < 20:  # in a row: at first the record may be on its way
                    async with aiohttp.ClientSession(url) as session:  # with a connection to any of them
                        alike = await costs(session, {}), await costs(session, CONVERSATION)
                    sure = sure + 1 if alike[1][home] < 0.97 * alike[0][home] else 0
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
