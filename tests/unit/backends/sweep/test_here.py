from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from backends.machine import Gpu
from backends.sweep import here
from backends.sweep.servers import Place
from gateway.core.gpus import GpuSource

if TYPE_CHECKING:
    from pathlib import Path

CARD = Gpu(0, "AMD Instinct MI300X gfx942", 196_000.0, 10.0)


def test_amd_accelerators_are_told_with_driver_and_rocm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = tmp_path / "version"
    version.write_text("7.2.1-43\n", encoding="utf-8")
    monkeypatch.setattr(here, "ROCM_VERSION", version)
    found = here.here(
        "0.32.0",
        gpus=lambda: ("rocm", (CARD, CARD)),
        run=lambda words: '{"system": {"Driver version": "6.14.14"}}',
    )
    assert (found.hardware, found.accelerators) == ("AMD Instinct MI300X gfx942", 2)
    assert (found.platform, found.platform_version, found.driver, found.vllm) == (
        "rocm",
        "7.2.1-43",
        "6.14.14",
        "0.32.0",
    )


def test_what_no_tool_tells_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "ROCM_VERSION", tmp_path / "none")
    for answer in (None, "nothing", "[]"):
        found = here.here(gpus=lambda: ("rocm", (CARD,)), run=lambda words, answer=answer: answer)
        assert (found.driver, found.platform_version) == ("", "")


def test_nvidia_accelerators_are_told_with_driver_and_cuda() -> None:
    def run(words: tuple[str, ...]) -> str:
        return "570.1\n570.1\n" if len(words) > 1 else "| NVIDIA-SMI 570.1   CUDA Version: 12.8 |"

    found = here.here(gpus=lambda: ("cuda", (Gpu(0, "NVIDIA H200", 1.0, 0.0),)), run=run)
    assert (found.hardware, found.driver, found.platform_version) == ("NVIDIA H200", "570.1", "12.8")


@pytest.mark.parametrize("gpus", [None, ("cuda", ())])
def test_without_accelerators_it_is_the_processor(gpus) -> None:
    found = here.here("0.32.0", gpus=lambda: gpus)
    assert (found.platform, found.accelerators) == ("cpu", 0)
    assert found.hardware


def test_memory_is_that_of_all_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.machine.gpus", lambda: ("rocm", (CARD, CARD)))
    assert here.memory() == 20.0
    monkeypatch.setattr("backends.machine.gpus", lambda: None)
    assert here.memory() is None
    monkeypatch.setattr("backends.machine.gpus", lambda: ("cuda", (Gpu(0, "NVIDIA GB10", 0.0, 0.0),)))
    assert here.memory() is None  # it is there, and tells nothing of its memory


def test_amd_smi_is_asked_where_there_is_no_other_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.machine.gpus", lambda: None)
    monkeypatch.setattr("backends.amd_smi.gpus", lambda: (CARD,))
    assert here.memory() == 10.0
    assert here.here().hardware == CARD.name


async def test_an_exporter_tells_the_memory_of_servers_elsewhere() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text='gpu_used_vram{gpu_id="0"} 90000\ngpu_used_vram{gpu_id="1"} 30000\n')

    served = web.Application()
    served.router.add_get("/metrics", page)
    async with TestServer(served) as server:
        exporter = str(server.make_url("")).rstrip("/")
        assert await here.exported(GpuSource(exporter, (0, 1))) == 120_000.0
        assert await here.exported(GpuSource(exporter, (2,))) is None
        assert await here.exported(GpuSource(f"{exporter}/elsewhere", (0,))) is None
    assert await here.exported(GpuSource("http://127.0.0.1:1", (0,))) is None


async def test_a_server_that_does_not_tell_its_version_has_none() -> None:
    assert await here.version_of("http://127.0.0.1:1") == ""


@pytest.mark.parametrize(
    ("fingerprint", "simulated"), [("vllm-0.32.0-simulated-0a1b", True), ("vllm-0.32.0-tp1-0a1b", False), (None, False)]
)  # fmt: skip
async def test_answers_of_a_simulator_are_told_from_others(fingerprint: str | None, simulated: bool) -> None:
    async def chat(request: web.Request) -> web.Response:
        if request.headers.get("authorization") != "Bearer secret":
            return web.json_response({"error": "no key"}, status=401)
        assert (await request.json())["model"] == "served"
        return web.json_response({"system_fingerprint": fingerprint})

    served = web.Application()
    served.router.add_post("/v1/chat/completions", chat)
    async with TestServer(served) as server:
        url = str(server.make_url("")).rstrip("/")
        assert await here.simulated(Place(url, "served", "secret")) is simulated
        assert await here.simulated(Place(url, "served")) is False
    assert await here.simulated(Place("http://127.0.0.1:1", "served")) is False
