"""Several processes on one port: work is shared, what dies is started again, all stop in good order."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.test_drain import FLEET, POLICY, REQUEST, live

SECONDS = 30.0
SMALL = REQUEST | {"stream": False, "max_tokens": 5}

ONE = """\
version: 1
backends:
  - {{name: plain, url: "{0}", model: google/gemma-4-31B-it, max_in_flight: 1}}
"""
IMPATIENT = f"{POLICY}queue: {{wait: 10ms}}\n"


@asynccontextmanager
async def workers(folder, urls, count=2, **settings):
    """A gateway of several processes: its supervisor and its address."""
    (folder / "fleet.yaml").write_text(settings.get("fleet", FLEET).format(*urls))
    (folder / "policy.yaml").write_text(settings.get("policy", POLICY))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", "serve", "--fleet", folder / "fleet.yaml",
        "--policy", folder / "policy.yaml", "--workers", str(count), "--port", str(settings.get("port", 0)),
        stderr=asyncio.subprocess.PIPE, start_new_session=settings.get("alone", False),
    )  # fmt: skip
    try:
        log = ""
        async with asyncio.timeout(SECONDS):
            async for line in process.stderr:
                log += line.decode()
                if "serving on" in log:
                    log = log.split("serving on ")[1].split()[0]
                    break
        yield process, log
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def servers():
    async with run_fleet(
        [Member(SMALL["model"], options=Options(speed=50.0)), Member(SMALL["model"], "dflash", 7)]
    ) as fleet:
        yield [one.url for one in fleet]


async def post(url):
    """One request over a connection of its own."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        session.post(f"{url}/v1/chat/completions", json=SMALL) as answer,
    ):
        await answer.read()
        return answer.status


async def requests_by_worker(url):
    async with aiohttp.ClientSession(url) as session, session.get("/metrics") as answer:
        text = await answer.text()
    counts = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "specroute_requests_total":
                counts[sample.labels["worker"]] = counts.get(sample.labels["worker"], 0) + sample.value
    return counts


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def until(condition):
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - processes send no events
            await asyncio.sleep(0.02)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def test_work_is_shared_and_metrics_are_those_of_all(tmp_path, servers):
    async with workers(tmp_path, servers) as (process, url):
        assert await asyncio.gather(*(post(url) for _ in range(60))) == [200] * 60
        counts = {}
        async with asyncio.timeout(SECONDS):
            while sum(counts.values()) < 60:
                counts = await requests_by_worker(url)
        assert set(counts) == {"0", "1"}
        assert all(counts.values())
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_a_worker_that_dies_is_replaced(tmp_path, servers):
    async with workers(tmp_path, servers) as (process, url):
        before = children(process.pid)
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: len(set(children(process.pid)) - set(before)) == 1)
        statuses = []
        async with asyncio.timeout(SECONDS):
            while len(await requests_by_worker(url)) < 2:
                statuses.append(await post(url))
        assert set(statuses) <= {200}
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_streams_end_before_the_workers_do(tmp_path, servers):
    async with workers(tmp_path, servers) as (process, url):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            streams = await live(session, url)
            process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*streams)
        assert all(answer.endswith(b"data: [DONE]\n\n") for answer in answers)
        assert await process.wait() == 0


@pytest.mark.parametrize("times", [1, 2])
async def test_a_terminals_signal_lets_answers_end_and_a_second_one_does_not(tmp_path, times):
    """It reaches all processes that belong to the terminal."""
    many = SMALL | {"max_tokens": 300 if times == 1 else 30_000, "stream": True}
    async with (
        run_fleet([Member(SMALL["model"])]) as servers,
        workers(tmp_path, [servers[0].url], fleet=ONE, alone=True) as (process, url),
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/chat/completions", json=many) as answer,
    ):
        await answer.content.readany()
        left = children(process.pid)
        for time in range(times):
            os.killpg(process.pid, signal.SIGINT)
            if not time:
                await until(lambda: sum(alive(pid) for pid in left) == 1)
        ended = (await answer.read()).endswith(b"data: [DONE]\n\n")
        assert (await process.wait(), ended) == (0, times == 1)


async def test_workers_whose_supervisor_was_killed_end(tmp_path, servers):
    async with workers(tmp_path, servers) as (process, _):
        left = children(process.pid)
        assert len(left) == 2
        process.kill()
        await process.wait()
        await until(lambda: not any(alive(pid) for pid in left))


async def test_a_port_that_is_taken_is_told_and_nobody_shares_it_unasked(tmp_path, servers):
    (tmp_path / "other").mkdir()
    async with workers(tmp_path, servers) as (_, url):
        port = url.rsplit(":", 1)[1]
        async with workers(tmp_path / "other", servers, port=port) as (second, said):
            assert await second.wait() == 2
            assert f"cannot listen on 127.0.0.1:{port}" in said


async def test_the_status_page_is_always_that_of_one_worker(tmp_path, servers):
    async with workers(tmp_path, servers, count=3) as (_, url):
        for _ in range(12):
            assert await post(url) == 200
        seen = set()
        for _ in range(12):
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
                session.get(f"{url}/-/board") as answer,
            ):
                board = await answer.json()
                seen.add(tuple(decision["request_id"] for decision in board["decisions"]))
                assert board["workers"] == 3
        assert len(seen) == 1
        async with aiohttp.ClientSession(url) as session, session.get("/ui/decisions") as stream:
            assert stream.status == 200
            assert (await stream.content.readline()).startswith(b"retry:")


async def test_a_server_gets_what_it_may_from_all_workers_together(tmp_path):
    """It is given one request at a time, whichever worker has it."""
    async with run_fleet([Member(SMALL["model"])]) as servers:
        urls = [one.url for one in servers]
        async with workers(tmp_path, urls, count=3, fleet=ONE, policy=IMPATIENT) as (process, url):
            long = SMALL | {"max_tokens": 30_000, "stream": True}
            async with aiohttp.ClientSession() as session:
                answer = await session.post(f"{url}/v1/chat/completions", json=long)
                assert answer.status == 200
                await answer.content.readany()
                assert {await post(url) for _ in range(30)} == {429}
                answer.close()
                async with asyncio.timeout(SECONDS):
                    while await post(url) != 200:
                        pass
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def test_who_waits_in_one_worker_is_not_kept_from_room_by_those_who_come_to_another(tmp_path):
    """As many clients as there is room ask one after the other of one worker, which never has room left."""
    patient = f"{POLICY}queue: {{wait: {SECONDS / 2}s}}\n"
    async with (
        run_fleet([Member(SMALL["model"])]) as servers,
        workers(tmp_path, [servers[0].url], fleet=ONE, policy=patient) as (_, url),
    ):
        answers = [0] * 8

        async def ask(number):
            async with aiohttp.ClientSession() as session:
                while min(answers) < 3:
                    async with session.post(f"{url}/v1/chat/completions", json=SMALL) as answer:
                        assert answer.status == 200
                        await answer.read()
                        answers[number] += 1

        await asyncio.gather(*(ask(number) for number in range(len(answers))))
        assert max(answers) < 9


async def test_what_a_dead_worker_had_open_takes_no_room(tmp_path):
    async with run_fleet([Member(SMALL["model"])]) as servers:
        urls = [one.url for one in servers]
        async with workers(tmp_path, urls, fleet=ONE, policy=IMPATIENT) as (process, url):
            long = SMALL | {"max_tokens": 30_000, "stream": True}
            async with aiohttp.ClientSession() as session:
                answer = await session.post(f"{url}/v1/chat/completions", json=long)
                await answer.content.readany()
                before = children(process.pid)
                for pid in before:
                    os.kill(pid, signal.SIGKILL)
                await until(lambda: len(set(children(process.pid)) - set(before)) == 2)
                answer.close()
            async with asyncio.timeout(SECONDS):
                while True:
                    with suppress(aiohttp.ClientError):
                        if await post(url) == 200:
                            break


async def roles_by_worker(session):
    async with session.get("/metrics") as answer:
        text = await answer.text()
    roles = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "specroute_plan_role" and sample.value:
                of = sample.labels["class"], sample.labels["backend"]
                roles.setdefault(sample.labels["worker"], set()).add(of)
    return roles


async def test_workers_keep_the_same_servers_for_a_class(tmp_path, servers):
    """All requests come over one connection, so that one worker alone is asked for anything."""
    automatic = (
        f"{POLICY}learning: {{mode: auto}}\nclasses: [{{name: chat, match: {{stream: true}}, tpot: 1s}}]\n"
    )
    async with (
        workers(tmp_path, servers, policy=automatic) as (process, url),
        aiohttp.ClientSession(url) as one,
    ):
        roles = {}
        async with asyncio.timeout(SECONDS):
            while len(roles) < 2:
                for stream in (True, False):
                    async with one.post("/v1/chat/completions", json=SMALL | {"stream": stream}) as answer:
                        await answer.read()
                roles = await roles_by_worker(one)
        assert roles["0"] == roles["1"]
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
