"""Servers die, fall ill and come back: no request fails, and traffic returns to them."""

import asyncio
import sys
from contextlib import asynccontextmanager

import aiohttp
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.contract.stack import listening

MODEL = "google/gemma-4-31B-it"
FLEET = """\
version: 1
backends:
  - {{name: first, url: "{0}", model: google/gemma-4-31B-it}}
  - {{name: second, url: "{1}", model: google/gemma-4-31B-it}}
"""
POLICY = """\
version: 1
routes:
  - {name: all, prefer: [first, any], score: {preference: 1.0}}
"""
CLIENTS = 16


class Killable:
    """A simulated server in a process of its own."""

    def __init__(self):
        self.port = "0"

    async def start(self):
        arguments = ("-m", "gateway.cli", "sim", "--port", self.port, "--speed", "20")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
        )
        said = b""
        while b"are up" not in said:
            line = await self._process.stdout.readline()
            assert line, said
            said += line
        self.port = said.split(b"http://127.0.0.1:")[1].split()[0].decode()

    async def kill(self):
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


class Records:
    """What became of the requests, as they end."""

    def __init__(self):
        self._queue = asyncio.Queue()

    def add(self, record):
        self._queue.put_nowait(record)

    async def until(self, wanted):
        """Wait for a record of that kind."""
        while not wanted(await self._queue.get()):
            pass


@asynccontextmanager
async def gateway(folder, *urls):
    """A gateway before the servers at these addresses, a client of it, and the records of what it relays."""
    (folder / "fleet.yaml").write_text(FLEET.format(*urls))
    (folder / "policy.yaml").write_text(POLICY)
    settings = Settings(
        fleet=folder / "fleet.yaml", policy=folder / "policy.yaml", port=0, probe_interval=0.05
    )
    records = Records()
    loaded = load_files(settings.fleet, settings.policy, {})
    async with (
        serving(Gateway(settings, loaded, on_record=[records.add]), settings) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session, records


async def ask(session, tokens=40):
    """The backend that answered, and whether the answer was whole and good."""
    request = {
        "model": MODEL,
        "max_tokens": tokens,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": "Hi."}],
    }
    async with session.post("/v1/chat/completions", json=request) as response:
        answer = await response.json()
        good = response.status == 200 and answer["choices"][0]["finish_reason"] == "length"
        return response.headers.get("x-specroute-backend"), good


async def test_others_take_over_from_a_killed_server_until_it_is_back(tmp_path):
    first = Killable()
    await first.start()
    member = Member(MODEL, options=Options(speed=20.0))
    answers = []
    enough = asyncio.Event()

    async def client(session, tokens):
        while not enough.is_set():
            answers.append(await ask(session, tokens))

    async with (
        run_fleet([member]) as (second,),
        gateway(tmp_path, f"http://127.0.0.1:{first.port}", second.url) as (session, records),
        asyncio.TaskGroup() as clients,
    ):
        # When the first answer has ended and its server is killed, others are under way.
        for tokens in (40, *[400] * (CLIENTS - 1)):
            clients.create_task(client(session, tokens))
        try:
            await records.until(lambda record: record.backend == "first")
            await first.kill()
            await records.until(
                lambda record: [one.backend for one in record.attempts] == ["first", "second"]
            )
            await records.until(lambda record: [one.backend for one in record.attempts] == ["second"])
            await first.start()
            await records.until(lambda record: record.backend == "first" and not record.outcome.error)
        finally:
            enough.set()
            await first.kill()
    assert all(good for _, good in answers)
    assert {backend for backend, _ in answers} == {"first", "second"}


class Patient:
    """A simulated server that can be made to give a bad answer to a probe."""

    def __init__(self, healthy):
        self._healthy = healthy
        self.ill = {}

    async def __call__(self, scope, receive, send):
        if (answer := self.ill.get(scope["path"])) is None:
            await self._healthy(scope, receive, send)
            return
        status, body = answer
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize(
    "illness",
    [{"/health": (503, b"")}, {"/v1/models": (200, b'{"data": [{"id": "another"}]}')}],
    ids=["unwell", "another-model"],
)
async def test_a_server_whose_metrics_answer_is_out_while_its_health_is_bad(tmp_path, illness):
    members = [Member(MODEL, options=Options(speed=20.0)), Member(MODEL, options=Options(speed=20.0))]
    async with run_fleet(members) as (inner, second):
        patient = Patient(inner.simulator)
        async with listening(patient) as url, gateway(tmp_path, url, second.url) as (session, _):
            assert await ask(session) == ("first", True)
            for patient.ill, then in ((illness, "second"), ({}, "first")):
                while (answer := await ask(session)) != (then, True):
                    assert answer[1]
