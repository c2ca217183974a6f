from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from gateway.core.gpus import GpuSource
from gateway.runtime.gpus import GpuWatch
from tests.factories import backend

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 'gpu_used_vram{gpu_id="3"} 50\ngpu_total_vram{gpu_id="3"} 200\ngpu_gfx_activity{gpu_id="3"} 60\n'
BACKEND = backend("a", gpus=GpuSource("http://node:5000", (3,)))


async def looked(watch: GpuWatch, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    await watch.look(BACKEND, httpx.MockTransport(answer), 30.0)


async def test_the_exporter_is_asked_and_the_last_answer_kept() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(200, text=PAGE)

    watch = GpuWatch()
    await looked(watch, answer)
    assert asked == ["http://node:5000/metrics"]
    seen = watch.loads["a"]
    assert (seen.memory, seen.activity) == (0.25, 0.6)

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    await looked(watch, refuse)
    await looked(watch, lambda _: httpx.Response(503))
    assert watch.loads == {"a": seen}


async def test_a_backend_that_names_no_exporter_is_left_alone() -> None:
    watch = GpuWatch()
    await watch.look(backend("a"), httpx.MockTransport(lambda _: httpx.Response(200)), 30.0)
    assert watch.loads == {}
