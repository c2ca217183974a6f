"""A gateway that begins without knowing anything of its servers, and finds out which suits what."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import aiohttp
import pytest

from backends import prompts
from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from gateway.core.predict import GREEDY, Cell
from gateway.policy.learned import parse
from tests.e2e.front import gateway

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "google/gemma-4-31B-it"
POLICY = """\
version: 1
learning: {mode: auto, explore: 5%, floor: 2%}
classes:
  - {name: interactive, match: {stream: true}, tpot: 200ms, priority: 1}
  - {name: bulk}
routes:
  - {name: default, prefer: [any]}
"""
SERVERS = (("plain", "none", 0), ("mtp", "gemma4-mtp", 4), ("ngram", "ngram", 8))
SETTLED = 23
"""Turn by which the work is where it suits."""

TURNS = 200
"""Most turns until every server was tried."""


async def ask(session: aiohttp.ClientSession, workload: str, number: int) -> str:
    known = prompts.load(workload)
    body = {
        **known[number % len(known)].request,
        "model": TARGET, "stream": True, "max_tokens": 120, "temperature": 0,
    }  # fmt: skip
    headers = {"x-specroute-workload": workload}
    async with session.post("/v1/chat/completions", json=body, headers=headers) as response:
        assert response.status == 200
        await response.read()
        return response.headers["x-specroute-backend"]


@pytest.mark.timeout(240)
async def test_without_a_prior_work_ends_up_on_the_servers_that_suit_it(tmp_path: Path) -> None:
    members = [
        Member(
            TARGET, method, tokens,
            options=Options(speed=4.0, reporting=Reporting(acceptance="summary" if tokens else "off")),
        )
        for _, method, tokens in SERVERS
    ]  # fmt: skip
    async with run_fleet(members) as servers:
        backends = [
            {"name": name, "url": one.url, "model": TARGET}
            | ({"method": method, "draft_tokens": tokens} if tokens else {})
            for one, (name, method, tokens) in zip(servers, SERVERS, strict=True)
        ]
        async with gateway(tmp_path, backends, policy=POLICY) as url, aiohttp.ClientSession(url) as session:
            went: dict[str, Counter[str]] = defaultdict(Counter)
            for turn in range(TURNS):
                workloads = ("code", "grounded") * 4
                found = await asyncio.gather(
                    *(ask(session, name, 8 * turn + place) for place, name in enumerate(workloads))
                )
                if 8 <= turn <= SETTLED:
                    for workload, backend in zip(workloads, found, strict=True):
                        went[workload][backend] += 1
                learnt = parse(await (await session.get("/-/learned")).text())
                # The budget of exploration decides when the last server is tried.
                if turn >= SETTLED and learnt["ngram"].evidence.get("grounded"):
                    break
            status = (await (await session.get("/status")).json())["learning"]
            question = {"model": TARGET, "messages": [{"role": "user", "content": "hello"}]}
            told = await (await session.post("/-/decide", json=question)).json()
    assert went["code"]["mtp"] > went["code"]["ngram"], went
    assert went["code"]["plain"] + went["grounded"]["plain"] < 0.3 * 16 * 8, went
    drafted = 1.0 / learnt["mtp"].steps_per_token[Cell("code", 0, GREEDY)]
    assert 2.8 < drafted < 5.0, "tokens a step, as published for this draft"
    assert learnt["ngram"].evidence["grounded"] > 0.0, "it was tried"
    assert learnt["plain"].other_steps_per_token == 1.0
    assert status["mode"] == "auto"
    assert any("routing by workload" in one for one in status["statements"][TARGET])
    assert "the first token after" in told["candidates"][0]["words"]
