"""The files are rewritten ten times a second under load, now and then badly: nobody notices."""

import asyncio
import random

import aiohttp
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.front import fleet_file, gateway, idle, status

MODEL = "google/gemma-4-31B-it"
CLIENTS = 12
REWRITES = 40
PAUSE = 0.1
BROKEN_FIRST = 2
"""Of ten changes, the one that nothing can come of."""
LONG = 1200
"""Tokens of the streams that begin before the first change and end after the last."""

POLICIES = (
    "version: 1\nroutes:\n  - {name: all, prefer: [any], score: {load: 1.0}}\n",
    "version: 1\nroutes:\n  - {name: first, prefer: [a, any], score: {preference: 1.0}}\n",
    "version: 1\nbreaker: {consecutive: 3}\nroutes:\n  - {name: some, prefer: [b, any], max_attempts: 9}\n",
    "version: 1\nresume: {mode: exact}\nroutes:\n  - {name: other, prefer: [{method: dflash}, any]}\n",
)
BROKEN = (
    "",
    "version: 1\nroutes: [",
    "version: 1\nroutes:\n  - {name: all, prefer: [nobody]}\n",
    "version: 2\n",
)


def fleets(urls):
    a, b, c = (
        {"name": name, "url": url, "model": MODEL} | more
        for name, url, more in zip(
            "abc", urls, ({}, {}, {"method": "dflash", "draft_tokens": 7}), strict=True
        )
    )
    return [
        [a, b, c],
        [c, a, b],
        [a | {"max_in_flight": 200}, b, c],
        [b | {"labels": {"zone": "x"}}, a, c],
        [a, b],
        [a, b, c | {"name": "d"}],
    ]


def body(length, *, stream):
    messages = [{"role": "user", "content": "Tell me of the sea."}]
    return {
        "model": MODEL,
        "messages": messages,
        "max_tokens": length,
        "ignore_eos": True,
        "stream": stream,
        "temperature": 0,
    }


async def ask(session, length, *, stream, begun=None):
    """The policy that took a request, once its answer has proved whole."""
    async with session.post("/v1/chat/completions", json=body(length, stream=stream)) as response:
        assert response.status == 200, await response.text()
        said = bytearray()
        async for part in response.content.iter_any():
            said += part
            if begun is not None:
                begun.release()
                begun = None
        if stream:
            assert said.endswith(b"data: [DONE]\n\n"), said[-300:]
            assert b'"error"' not in said
        assert said.count(b'"finish_reason":"length"') == 1, said[-300:]
        return response.headers["x-specroute-policy"]


def write(path, text, rng):
    """Write a file in either of the ways that there are: in place, or beside it and then over it."""
    if rng.random() < 0.5:
        path.write_text(text)
    else:
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.replace(path)


async def refused(look):
    """Wait until the gateway says what is wrong with a file."""
    while True:
        if (await look())["policy"]["problems"]:
            return
        await asyncio.sleep(PAUSE)


async def rewrite(folder, urls, rng, look, lasting):
    """Change a file again and again while answers last; says how many changes were bad, each seen refused."""
    bad = 0
    for number in range(REWRITES):
        if any(one.done() for one in lasting):
            break
        if broken := number % 10 == BROKEN_FIRST:
            write(folder / "policy.yaml", rng.choice(BROKEN), rng)
        elif rng.random() < 0.5:
            write(folder / "fleet.yaml", fleet_file(rng.choice(fleets(urls))), rng)
        else:
            write(folder / "policy.yaml", rng.choice(POLICIES), rng)
        await asyncio.sleep(PAUSE)
        if broken:
            await refused(look)
            bad += 1
    return bad


@pytest.mark.parametrize("upstream", ["lean", "httpx"])
async def test_no_request_fails_while_the_files_change(tmp_path, upstream):
    rng = random.Random(5)  # noqa: S311 - not for secrets
    slow, fast = Options(speed=4.0), Options(speed=40.0)
    members = [
        Member(MODEL, options=slow),
        Member(MODEL, options=fast),
        Member(MODEL, "dflash", 7, options=fast),
    ]
    taken, ended = [], asyncio.Event()
    async with run_fleet(members) as fleet:
        urls = [one.url for one in fleet]
        async with (
            gateway(tmp_path, fleets(urls)[0], policy=POLICIES[1], upstream=upstream) as url,
            aiohttp.ClientSession(url) as session,
        ):
            await idle(url)
            begun = asyncio.Semaphore(0)
            long = [asyncio.create_task(ask(session, LONG, stream=True, begun=begun)) for _ in range(4)]
            for _ in long:
                await begun.acquire()

            async def client(number):
                while not ended.is_set():
                    taken.append(await ask(session, 20, stream=bool(number % 2)))

            async with asyncio.TaskGroup() as clients:
                for number in range(CLIENTS):
                    clients.create_task(client(number))
                bad = await rewrite(tmp_path, urls, rng, lambda: status(session), long)
                ended.set()
            before = set(await asyncio.gather(*long))
            (tmp_path / "policy.yaml").write_text(POLICIES[0])
            (tmp_path / "fleet.yaml").write_text(fleet_file(fleets(urls)[0]))
            await idle(url)
    assert len(before) == 1
    assert len(set(taken)) > 2
    assert bad
