"""SIGTERM: live streams are finished, nothing new is taken; past the deadline they end with an error event."""

import asyncio
import json
import os
import random
import signal
import sys

import aiohttp
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options
from tests.e2e.front import WAYS

STREAMS = 200
FLEET = """\
version: 1
backends:
  - {{name: plain, url: "{0}", model: google/gemma-4-31B-it, max_in_flight: 500}}
  - {{name: dflash7, url: "{1}", model: google/gemma-4-31B-it, method: dflash, draft_tokens: 7, max_in_flight: 500}}
"""
POLICY = """\
version: 1
routes:
  - {name: all, prefer: [any], score: {load: 1.0}}
"""
REQUEST = {
    "model": "google/gemma-4-31B-it",
    "stream": True,
    "ignore_eos": True,
    "max_tokens": 400,
    "messages": [{"role": "user", "content": "Tell me of the sea."}],
}


async def gateway(folder, urls, **settings):
    (folder / "fleet.yaml").write_text(FLEET.format(*urls))
    (folder / "policy.yaml").write_text(POLICY)
    arguments = (
        "-m",
        "gateway.cli",
        "serve",
        "--fleet",
        folder / "fleet.yaml",
        "--policy",
        folder / "policy.yaml",
    )
    environment = os.environ | {f"SPECROUTE_{name}": value for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, "--port", "0", stderr=asyncio.subprocess.PIPE, env=environment
    )
    log = []
    async for line in process.stderr:
        log.append(line.decode())
        if "serving on" in log[-1]:
            return process, log[-1].split("serving on ")[1].split()[0]
    raise AssertionError("".join(log))


async def stream(session, url, started):
    """The bytes of one streamed answer."""
    async with session.post(f"{url}/v1/chat/completions", json=REQUEST) as response:
        assert response.status == 200
        body = bytearray()
        async for piece in response.content.iter_any():
            if not body:
                started.release()
            body += piece
        return bytes(body)


async def live(session, url):
    """Streams that have all begun."""
    started = asyncio.Semaphore(0)
    streams = [asyncio.create_task(stream(session, url, started)) for _ in range(STREAMS)]
    for _ in range(STREAMS):
        await started.acquire()
    return streams


@pytest.mark.parametrize("drain", ["60", "0"], ids=["in-time", "too-late"])
async def test_sigterm_under_live_streams(tmp_path, drain):
    options = Options(speed=10.0)
    members = [
        Member("google/gemma-4-31B-it", options=options),
        Member("google/gemma-4-31B-it", "dflash", 7, options=options),
    ]
    async with run_fleet(members) as fleet:
        process, url = await gateway(tmp_path, [one.url for one in fleet], DRAIN_SECONDS=drain)
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                streams = await live(session, url)
                process.send_signal(signal.SIGTERM)
                answers = await asyncio.gather(*streams)
                rest = (await process.stderr.read()).decode()
                assert await process.wait() == 0
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.get(f"{url}/healthz")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        complete = [answer.endswith(b"data: [DONE]\n\n") for answer in answers]
        told = [b"shutting_down" in answer for answer in answers]
        assert all(one != other for one, other in zip(complete, told, strict=True))
        assert any(told) is (drain == "0")
        assert "Traceback" not in rest
        assert all(one.simulator.running == 0 for one in fleet)


async def leave(url, after, *, hard):
    """Ask, and be gone after so many seconds."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps(REQUEST).encode()
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )
    await asyncio.sleep(after)
    if hard:
        writer.transport.abort()
    else:
        writer.close()


@WAYS
async def test_sigterm_after_clients_left_while_connections_were_made(tmp_path, way):
    rng = random.Random(5)  # noqa: S311 - not for secrets
    members = [Member("google/gemma-4-31B-it"), Member("google/gemma-4-31B-it", "dflash", 7)]
    async with run_fleet(members) as fleet:
        settings = {"DRAIN_SECONDS": "20"} | {name.upper(): str(value) for name, value in way.items()}
        process, url = await gateway(tmp_path, [one.url for one in fleet], **settings)
        try:
            stays = [rng.choice((0.0, 0.001, 0.01, 0.03, 0.1, 0.3)) for _ in range(300)]
            await asyncio.gather(
                *(leave(url, stay, hard=not number % 3) for number, stay in enumerate(stays))
            )
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20.0):
                rest = (await process.stderr.read()).decode()
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert "Traceback" not in rest
        assert "given up" not in rest
