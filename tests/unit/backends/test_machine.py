from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from backends import machine
from backends.machine import Gpu

if TYPE_CHECKING:
    from pathlib import Path

ROCM = """{"card1": {"Card Series": "AMD Instinct MI300X", "GFX Version": "gfx942", "VRAM Total Memory (B)": "206141652992",
"VRAM Total Used Memory (B)": "300000000"}, "card0": {"Card series": "AMD Instinct MI300X", "GFX Version": "gfx942",
"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "150000000000"}, "system": {}}"""


def test_rocm_tells_the_gpus_and_what_is_taken_of_them() -> None:
    first, second = machine.parse_rocm(ROCM)
    assert (first.index, first.name, first.free) == (0, "AMD Instinct MI300X gfx942", False)
    assert (second.index, round(second.memory), second.free) == (1, 196_592, True)


def test_nvidia_tells_the_gpus_and_what_is_taken_of_them() -> None:
    assert machine.parse_nvidia("0, NVIDIA H200, 143771, 4\n1, NVIDIA H200, 143771, 90000\n") == (
        Gpu(0, "NVIDIA H200", 143_771, 4),
        Gpu(1, "NVIDIA H200", 143_771, 90_000),
    )


@pytest.mark.parametrize(
    ("tool", "shown", "platform"),
    [("rocm-smi", ROCM, "rocm"), ("nvidia-smi", "0, NVIDIA H200, 143771, 4", "cuda")],
)
def test_the_tool_that_is_there_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, shown: str, platform: str
) -> None:
    script = tmp_path / tool
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{shown}\nEND\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = machine.gpus()
    assert found is not None
    assert found[0] == platform
    script.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert machine.gpus() is None


def test_without_a_tool_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpus() is None


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not machine.port_is_free("127.0.0.1", port)
    assert machine.port_is_free("127.0.0.1", port)
