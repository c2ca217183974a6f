"""SIGTERM: live streams are finished, nothing new is taken; past the deadline they end with an error event."""

import asyncio
import os
import signal
import sys

import aiohttp
import pytest

from backends.sim.fleet import Member, run_fleet
from backends.sim.server import Options

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
    request = {
        "model": "google/gemma-4-31B-it",
        "stream": True,
        "ignore_eos": True,
        "max_tokens": 400,
        "messages": [{"role": "user", "content": "Tell me of the sea."}],
    }
    async with session.post(f"{url}/v1/chat/completions", json=request) as response:
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
