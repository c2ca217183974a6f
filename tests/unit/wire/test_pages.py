import asyncio
from pathlib import Path

import httpx
import pytest

from gateway.runtime.visits import get
from gateway.wire.lean.pool import LeanUpstream
from gateway.wire.pages import Pages
from gateway.wire.portable import HttpxUpstream
from tests.raw_server import saying, serving


@pytest.fixture(params=[LeanUpstream, HttpxUpstream])
async def pages(request):
    made = Pages(request.param())
    yield made
    await made.aclose()


async def test_a_page_comes_whole_and_the_connection_is_kept(pages):
    script = saying(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello")
    async with serving(script) as (server, url):
        for _ in range(2):
            page = await get(pages, f"{url}/a?b=c", 9.0, "key")
            assert (page.status_code, page.content) == (200, b"hello")
            assert page.headers["content-type"] == "text/plain"
        assert server.connections == 1
    assert len(server.requests) == 2
    for head, _ in server.requests:
        assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
        assert b"authorization: bearer key\r\n" in head.lower()
        assert head.lower().count(b"host:") == 1


async def test_who_cannot_be_reached_is_told_from_who_breaks_off(pages):
    async with serving(saying(b"")) as (_, url):
        pass
    with pytest.raises(httpx.ConnectError):
        await get(pages, url + "/", 9.0)

    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel")

    async with serving(script) as (_, url):
        with pytest.raises(httpx.ReadError):
            await get(pages, url + "/", 9.0)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_page_that_is_late_leaves_no_connection_behind(pages):
    over = asyncio.Event()

    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await over.wait()
        return False

    async with serving(script) as (server, url):
        before = descriptors()
        await asyncio.gather(*(get(pages, url + "/health", 9.0) for _ in range(4)))
        assert server.connections == 4
        over.set()
        while descriptors() > before + 4:  # noqa: ASYNC110 - nothing tells when a socket is closed
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await get(pages, url + "/health", 0.0)
        await pages.aclose()
        while descriptors() > before:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
