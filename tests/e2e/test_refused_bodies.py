"""A request whose body cannot be read to its end is the client's mistake: it is told, and so is everybody else."""

import asyncio

import pytest

from gateway.wire.protocol import LimitedProtocol
from tests.e2e.front import WAYS, gateway

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"


class Impatient(LimitedProtocol):
    body_seconds = 0.05


@WAYS
@pytest.mark.parametrize(
    ("sent", "status", "error"),
    [
        (b"5\r\n{}   \r\nno-size\r\n", 400, "invalid_request"),
        (b"5\r\n{}   no-end\r\n", 400, "invalid_request"),
        (b"5\r\n{", 408, "request_timeout"),
        (b"0\r\nx: " + b"y" * 70_000 + b"\r\nz: 1\r\n\r\n", 431, "request_too_large"),
    ],
    ids=["size", "border", "silence", "trailer"],
)
async def test_it_is_told_as_the_client_s_error(tmp_path, monkeypatch, way, sent, status, error):
    monkeypatch.setattr("gateway.cli.running.LimitedProtocol", Impatient)
    records = asyncio.Queue()
    backends = [{"name": "a", "url": "http://127.0.0.1:1", "model": "m"}]
    async with asyncio.timeout(30), gateway(tmp_path, backends, on_record=[records.put_nowait], **way) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HEAD)
        await writer.drain()
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        outcome = (await records.get()).outcome
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1") == 1
    assert (outcome.status, outcome.http_status, outcome.error) == ("client_error", status, error)
