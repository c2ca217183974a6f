"""Advice on a gateway that serves simulated servers, from its own metrics over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import aiohttp
import pytest

from backends import prompts
from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.front import gateway

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "google/gemma-4-31B-it"
POLICY = """\
version: 1
defaults: {baseline_share: 40%}
routes:
  - {name: code, match: {workload: code}, prefer: [{method: dflash, draft_tokens: 15}]}
  - {name: default, prefer: [{method: gemma4-mtp}]}
"""


def member(method: str, tokens: int) -> Member:
    reporting = Reporting(acceptance="summary" if tokens else "off")
    return Member(TARGET, method, tokens, options=Options(speed=20.0, reporting=reporting))


async def ask(session: aiohttp.ClientSession, workload: str, number: int) -> None:
    known = prompts.load(workload)
    body = {
        **known[number % len(known)].request,
        "model": TARGET,
        "stream": True,
        "max_tokens": 120,
        "temperature": 0,
    }
    headers = {"x-specroute-workload": workload}
    async with session.post("/v1/chat/completions", json=body, headers=headers) as response:
        assert response.status == 200
        await response.read()


async def advised(url: str, *more: str) -> list[dict]:
    command = (sys.executable, "-m", "gateway.cli", "advise", url, "--json", *more)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(said)


@pytest.mark.timeout(180)
async def test_a_gateway_is_told_what_its_traffic_shows(tmp_path: Path) -> None:
    members = [member("none", 0), member("dflash", 15), member("gemma4-mtp", 4)]
    async with run_fleet(members) as servers:
        backends = [
            {"name": f"s{place}", "url": one.url, "model": TARGET}
            | ({"method": one.member.method, "draft_tokens": one.member.draft_tokens} if place else {})
            for place, one in enumerate(servers)
        ]
        async with gateway(tmp_path, backends, policy=POLICY) as url, aiohttp.ClientSession(url) as session:
            assert await advised(url) == []
            for turn in range(12):
                workloads = ("code", "chat") * 6
                await asyncio.gather(
                    *(ask(session, name, 12 * turn + place) for place, name in enumerate(workloads))
                )
            found = {one["kind"]: one for one in await advised(url)}
    # Nobody needs the last positions of a draft of 15: from some position on they bring less than 3 % of the tokens.
    assert "of dflash-15 (s1) give" in found["shorter"]["words"]
    assert "try N=" in found["shorter"]["words"]
