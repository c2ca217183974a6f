"""Servers die, hang and come back at random under load: each request ends well or in one error, nothing is left."""

import asyncio
import gc
import json
import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import aiohttp
import pytest
import uvloop

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from gateway.wire.attempt import Trial
from gateway.wire.client import Client
from gateway.wire.exchange import Exchange
from tests.e2e.front import WAYS, gateway, idle

GIVEN = os.environ.get("SPECROUTE_CHAOS")
REQUESTS = int(GIVEN or 150)
CLIENTS = 24
SECONDS = 30.0
"""How long a request may take before it counts as hanging; the policy's limits are far below."""

MODEL = "google/gemma-4-31B-it"
DFLASH = {"method": "dflash", "draft_tokens": 7}
METHODS = {"a": {}, "b": DFLASH, "c": {}, "d": DFLASH}
SERVER = Options(max_model_len=4096, speed=15.0)
POLICY = """\
version: 1
timeouts: {{connect: 500ms, first_byte: 1s, idle: 600ms, total: 6s, keep_alive: 250ms}}
breaker: {{open: 200ms, open_max: 1s, slow_start: never}}
retries: {{per_second: 1000, burst: 1000}}
resume: {{mode: {}}}
routes:
  - {{name: all, prefer: [any], score: {{load: 1.0}}}}
"""
QUESTIONS = (
    "Tell me something nice 🙂 about <b>work</b>.",
    "Write a function that walks a tree.",
    "Prove that $1 + 2 + 3 = 6$.",
    "Làm thế nào để học tiếng Anh tốt hơn mỗi ngày?",
    "怎么泡茶才好喝𠮷",
    "朝の過ごし方を教えてください。",
)
ENDPOINTS = ("chat/completions", "completions")
LENGTHS = (12, 60, 150)
DEATHS = ("error", "reset", "stall")
GROWTH = 16.0
"""MiB that memory may grow by over the last two thirds of a run of thousands."""


@dataclass(frozen=True)
class Ask:
    """A greedy request, whose undisturbed answer is known.

    Attributes:
        bound: It holds what keeps its answer from being gone on with.
    """

    endpoint: str
    question: str
    length: int
    stream: bool = False
    usage: bool = False
    bound: bool = False

    @classmethod
    def drawn(cls, rng):
        return cls(
            rng.choice(ENDPOINTS),
            rng.choice(QUESTIONS),
            rng.choice(LENGTHS),
            stream=rng.random() < 0.75,
            usage=rng.random() < 0.5,
            bound=rng.random() < 0.1,
        )

    @property
    def undisturbed(self):
        return Ask(self.endpoint, self.question, self.length)

    @property
    def body(self):
        asked = (
            {"prompt": self.question}
            if self.endpoint == "completions"
            else {"messages": [{"role": "user", "content": self.question}]}
        )
        body = {"model": MODEL, "temperature": 0, "max_tokens": self.length, **asked}
        if self.stream:
            body["stream"] = True
            if self.usage:
                body["stream_options"] = {"include_usage": True}
        if self.bound:
            body["presence_penalty"] = 0.0
        return body


@dataclass(frozen=True)
class Said:
    """The text of an answer, why it ended, and its usage."""

    text: str
    reason: str
    usage: tuple

    @classmethod
    def of(cls, answer):
        (choice,) = answer["choices"]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        return cls(text, choice["finish_reason"], counts(answer["usage"]))


def counts(usage):
    return usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]


def told(error):
    """Whether it is an error as clients of OpenAI know it."""
    return bool(error["message"]) and {"type", "code"} <= error.keys()


def judge_stream(ask, body, wanted):
    """True for a whole answer, False for one error in its place or at its end; anything else fails."""
    assert body.endswith(b"\n\n"), body[-200:]
    events = [one for one in body.decode().split("\n\n")[:-1] if not one.startswith(":")]
    assert all(one.startswith("data: ") for one in events), body
    data = [one.removeprefix("data: ") for one in events]
    done = data.count("[DONE]")
    chunks = [json.loads(one) for one in data if one != "[DONE]"]
    errors = [one for one in chunks if "error" in one]
    answer = chunks[: len(chunks) - len(errors)]
    choices = [one["choices"][0] for one in answer if one["choices"]]
    text = "".join((one["text"] if "text" in one else one["delta"].get("content")) or "" for one in choices)
    reasons = [one["finish_reason"] for one in choices if one["finish_reason"]]
    usages = [counts(one["usage"]) for one in answer if one.get("usage")]
    assert len({one["id"] for one in answer}) <= 1, body
    assert not any(one.get("token_ids") or one.get("prompt_token_ids") for one in (*choices, *answer)), body
    if errors:
        assert chunks[-1:] == errors, body
        assert told(errors[0]["error"]), body
        assert "[DONE]" not in data[:-1], body  # a dying engine says it after its error
        assert wanted.text.startswith(text), (text, wanted.text)
        return False
    assert data[-1] == "[DONE]", body
    assert done == 1, body
    assert (text, reasons) == (wanted.text, [wanted.reason])
    assert usages == ([wanted.usage] if ask.usage else []), body
    return True


class Fleet:
    """Simulated servers that are killed, stalled and revived."""

    def __init__(self, servers, rng):
        self.servers = servers
        self.simulators = [one.simulator for one in servers]
        self.acts = Counter()
        self._rng = rng
        self._dead = set()
        self._deaths = []
        self._left = 0
        self._ended = False
        self._due = asyncio.Event()

    def piece(self):
        """A part of an answer reached a client."""
        self._left -= 1
        if self._left <= 0:
            self._due.set()

    async def disturb(self):
        """Do something to a server every few dozen pieces, or after a while without any; until told to end."""
        while not self._ended:
            self._left = self._rng.randrange(5, 150)
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.4):
                    await self._due.wait()
            alive = [one for one in self.servers if one not in self._dead]
            # One stays alive: what clients see when there is nobody at all would drown all else.
            if self._dead and (len(alive) == 1 or self._rng.random() < 0.65):
                await self._revive(self._rng.choice(sorted(self._dead, key=self.servers.index)))
            else:
                await self._kill(self._rng.choice(alive))

    def end(self):
        self._ended = True
        self._due.set()

    async def heal(self):
        for one in tuple(self._dead):
            await self._revive(one)

    async def _kill(self, one):
        if not self._deaths:
            self._deaths = self._rng.sample(DEATHS, len(DEATHS))
        how = self._deaths.pop()
        self.acts[how] += 1
        self._dead.add(one)
        await one.kill(how)

    async def _revive(self, one):
        self.acts["revive"] += 1
        await one.revive()
        self._dead.discard(one)
        self.simulators.append(one.simulator)


@dataclass
class Outcomes:
    """What became of the requests."""

    whole: Counter = field(default_factory=Counter)
    asked: Counter = field(default_factory=Counter)
    records: Counter = field(default_factory=Counter)
    sizes: list = field(default_factory=list)
    resumed: int = 0

    def look(self):
        """Take down the memory in use at the thirds of the run."""
        if self.asked.total() % (REQUESTS // 3) == 0:
            self.sizes.append(round(resident(), 1))

    def add(self, record):
        """Take a record, as a consumer of the gateway."""
        self.records[record.outcome.status] += 1
        self.resumed += record.outcome.resumed > 0 and record.outcome.status == "ok"

    @property
    def shares(self):
        of = {kind: f"{self.whole[kind] / self.asked[kind]:.2%}" for kind in sorted(self.asked)}
        return f"{of}, {self.whole.total() / self.asked.total():.2%} of all; {self.resumed} resumed"


async def client(session, asks, wanted, fleet, outcomes):
    for ask in asks:
        kind = "stream" if ask.stream else "whole"
        outcomes.asked[kind] += 1
        outcomes.look()
        body = bytearray()
        async with asyncio.timeout(SECONDS), session.post(f"/v1/{ask.endpoint}", json=ask.body) as response:
            async for part in response.content.iter_any():
                fleet.piece()
                body += part
        good = judged(ask, response, bytes(body), wanted[ask.undisturbed])
        outcomes.whole[kind] += good
        if not good:
            await asyncio.sleep(0.1)  # as callers do that know of backing off


def judged(ask, response, body, wanted):
    if response.headers["content-type"].startswith("text/event-stream"):
        assert response.status == 200
        assert ask.stream
        return judge_stream(ask, body, wanted)
    answer = json.loads(body)
    if response.status == 200:
        assert not ask.stream
        assert Said.of(answer) == wanted
        return True
    assert response.status >= 500, (response.status, body)
    assert told(answer["error"])
    return False


def tasks():
    return Counter(one.get_coro().__qualname__ for one in asyncio.all_tasks())


async def lasting():
    """Tasks that are there at each of many moments: probes, scrapes and what connects for them come and go."""
    found = tasks()
    for _ in range(30):
        await asyncio.sleep(0.02)
        found &= tasks()
    del found["RequestResponseCycle.run_asgi"]  # of probes and scrapes there are always some
    return found


def descriptors():
    """Open file descriptors by what they are."""
    found = Counter()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found[one.readlink().name.split(":")[0]] += 1
    return found


def exchanges():
    gc.collect()
    return sum(isinstance(one, (Client, Exchange, Trial)) for one in gc.get_objects())


def resident():
    """Memory of this process, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def becomes(read, wanted):
    """Wait until what is read is as wanted."""
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not wanted(value := read()):
        assert asyncio.get_running_loop().time() < deadline, value
        await asyncio.sleep(0.05)


async def undisturbed(server):
    """The answer to everything that is asked."""
    asks = [Ask(*one) for one in ((e, q, n) for e in ENDPOINTS for q in QUESTIONS for n in LENGTHS)]
    async with aiohttp.ClientSession(server.url) as session:
        found = {}
        for ask in asks:
            async with session.post(f"/v1/{ask.endpoint}", json=ask.body) as response:
                found[ask] = Said.of(await response.json())
        return found


@pytest.mark.timeout(0 if GIVEN else 120)
@WAYS
@pytest.mark.parametrize("mode", ["off", "exact"])
def test_every_request_ends_and_nothing_is_left(tmp_path, capsys, mode, way):
    # In a process of its own: what other tests of this one hold open comes and goes.
    process = get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=process) as pool:
        said = pool.submit(alone, tmp_path, mode, way).result()
    if GIVEN:
        with capsys.disabled():
            print(f"\nresume {mode}, {way}: {said}")


def alone(folder, mode, way):
    """What came of it, where afterwards as many descriptors are open as before."""
    uvloop.run(asyncio.sleep(0))  # the first loop of a process opens pipes that stay
    before = descriptors()
    said = uvloop.run(disturbed(folder, mode, way))
    assert descriptors() == before
    return said


async def disturbed(folder, mode, way):
    """Many requests to a fleet that is disturbed all the time. Says in figures how it went."""
    rng = random.Random(3)  # noqa: S311 - not for secrets
    outcomes = Outcomes()
    members = [Member(MODEL, name=name, options=SERVER, **method) for name, method in METHODS.items()]
    at_first, open_at_first = tasks(), descriptors()
    async with run_fleet(members) as servers:
        wanted = await undisturbed(servers[0])
        fleet = Fleet(servers, rng)
        backends = [
            {"name": one.member.name, "url": one.url, "model": MODEL} | METHODS[one.member.name]
            for one in servers
        ]
        async with gateway(
            folder,
            backends,
            policy=POLICY.format(mode),
            on_record=[outcomes.add],
            probe_interval=0.1,
            probe_timeout=0.3,
            scrape_timeout=0.3,
            **way,
        ) as url:
            await idle(url)
            before = await lasting()
            asks = (Ask.drawn(rng) for _ in range(REQUESTS))
            async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as session:
                disturbing = asyncio.create_task(fleet.disturb())
                async with asyncio.TaskGroup() as clients:
                    for _ in range(CLIENTS):
                        clients.create_task(client(session, asks, wanted, fleet, outcomes))
                fleet.end()
                await disturbing
            await fleet.heal()
            await idle(url)
            await becomes(
                lambda: [(one.running, one.waiting) for one in fleet.simulators],
                lambda each: set(each) == {(0, 0)},
            )
            await becomes(tasks, lambda now: now == before)
            await becomes(exchanges, lambda left: not left)
            # Listeners, and both ends of what probes and scrapes may keep open.
            most = open_at_first["socket"] + len(servers) + 1 + 2 * 2 * len(servers)
            await becomes(descriptors, lambda now: now["socket"] <= most)
    await becomes(tasks, lambda now: now == at_first)
    assert outcomes.records.total() == outcomes.asked.total() == REQUESTS
    assert outcomes.records["ok"] == outcomes.whole.total()
    assert {*DEATHS, "revive"} <= fleet.acts.keys()
    if REQUESTS >= 3000:
        assert outcomes.sizes[-1] - outcomes.sizes[0] < GROWTH, outcomes.sizes
    return f"{outcomes.shares}; {dict(fleet.acts)}; {dict(outcomes.records)}; MiB {outcomes.sizes}"
