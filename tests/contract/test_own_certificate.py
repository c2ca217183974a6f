"""A server whose certificate no public authority signed is watched and used alike."""

import asyncio
import ssl
from pathlib import Path

import aiohttp

from gateway.app import Gateway
from gateway.cli.running import serving as running
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.raw_server import serving

CERTIFICATE = Path(__file__).parents[1] / "fixtures/tls/localhost.pem"
FLEET = """\
version: 1
backends:
  - {{name: a, url: "{0}", model: m, api_key_env: KEY}}
"""
POLICY = """\
version: 1
routes:
  - {name: all, prefer: [a]}
"""
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def test_all_that_asks_a_server_believes_its_certificate(tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    wanted = {b"/metrics", b"/health", b"/v1/chat/completions"}
    came = asyncio.Event()

    async def script(_, writer):
        writer.write(ANSWER)
        if wanted <= {head.split(b" ")[1] for head, _ in server.requests}:
            came.set()
        return True

    async with serving(script, tls=tls) as (server, url):
        (tmp_path / "fleet.yaml").write_text(FLEET.format(url))
        (tmp_path / "policy.yaml").write_text(POLICY)
        settings = Settings(
            fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml", port=0,
            probe_interval=0.05, scrape_interval=0.05,
        )  # fmt: skip
        loaded = load_files(settings.fleet, settings.policy, {"KEY": "hidden"})
        async with (
            running(Gateway(settings, loaded), settings) as gateway,
            aiohttp.ClientSession(gateway) as session,
            session.post("/v1/chat/completions", json={"model": "m", "messages": []}) as answer,
        ):
            assert answer.status == 200
            async with asyncio.timeout(20):
                await came.wait()
    assert all(b"authorization: bearer hidden\r\n" in head.lower() for head, _ in server.requests)
