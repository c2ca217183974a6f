"""Nobody reads stderr and its pipe is full: requests go on, memory stays small, what is lost is counted."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.front import fleet_file
from tests.e2e.test_serve import free_ports
from tests.e2e.test_workers import SECONDS, SMALL, children, post, requests_by_worker, until

GROWTH = 64 * 2**20
ROUTES = "version: 1\nroutes:\n  - {name: all, prefer: [any], score: {load: 1.0}}\n"
LINES = 1100
"""Mistakes of a policy, each a line of the log: more than are held."""

DROPPED = "specroute_log_dropped_total"


def full_pipe():
    """Both ends of a pipe that takes no further byte."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):
        while True:
            os.write(write, bytes(2**12))
    os.set_blocking(write, True)
    return read, write


@asynccontextmanager
async def unread(folder, urls, **settings):
    """A gateway whose stderr is full from the start: its process, its address, and the pipe's other end."""
    backends = [{"name": str(at), "url": url, "model": SMALL["model"]} for at, url in enumerate(urls)]
    (folder / "fleet.yaml").write_text(fleet_file(backends))
    (folder / "policy.yaml").write_text(ROUTES)
    (port,) = free_ports(1)
    read, write = full_pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", "serve", "--fleet", folder / "fleet.yaml",
        "--policy", folder / "policy.yaml", "--port", str(port), stderr=write,
        env=os.environ | {f"SPECROUTE_{name}".upper(): value for name, value in settings.items()},
    )  # fmt: skip
    os.close(write)
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(SECONDS):
            while not await answers(url):  # noqa: ASYNC110 - processes send no events
                await asyncio.sleep(0.05)
        yield process, url, read
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(read)


async def answers(url):
    with suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession(url) as session, session.get("/readyz") as answer:
            return answer.status == 200
    return False


async def numbers(url):
    async with aiohttp.ClientSession(url) as session, session.get("/metrics") as answer:
        text = await answer.text()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
async def servers():
    async with run_fleet([Member(SMALL["model"], options=Options(speed=50.0))]) as fleet:
        yield [one.url for one in fleet]


async def test_requests_go_on_and_lost_lines_are_counted(tmp_path, servers):
    mistakes = "".join(f"  - {{name: r{at}, prefer: [nobody{at}]}}\n" for at in range(LINES))
    async with unread(tmp_path, servers, access_log="true") as (process, url, _):
        assert await post(url) == 200
        before = await numbers(url)
        (tmp_path / "policy.yaml").write_text(ROUTES + mistakes)
        async with asyncio.timeout(SECONDS):
            while not (now := await numbers(url))[DROPPED]:
                assert await post(url) == 200
        assert now["process_resident_memory_bytes"] - before["process_resident_memory_bytes"] < GROWTH
        assert await post(url) == 200
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0


async def test_several_workers_start_and_are_replaced(tmp_path, servers):
    async with unread(tmp_path, servers, workers="2") as (process, url, _):
        async with asyncio.timeout(SECONDS):
            while len(await requests_by_worker(url)) < 2:  # one that has yet to start may not die
                assert await post(url) == 200
        before = children(process.pid)
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: len(set(children(process.pid)) - set(before)) == 1)
        assert await post(url) == 200
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0


async def test_what_was_logged_is_there_once_somebody_reads(tmp_path, servers):
    async with unread(tmp_path, servers) as (process, url, read):
        process.send_signal(signal.SIGTERM)
        said = b""
        while part := await asyncio.to_thread(os.read, read, 2**16):
            said += part
        assert await process.wait() == 0
        assert f"serving on {url}".encode() in said
