"""Answers in the forms that versions of amd-smi give them; written after its documents, as no AMD GPU is at hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backends import amd_smi
from backends.machine import Gpu

if TYPE_CHECKING:
    from pathlib import Path

ASIC = [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942"}}]
QUANTITIES = [
    {
        "gpu": 0,
        "mem_usage": {
            "total_vram": {"value": 196592, "unit": "MB"},
            "used_vram": {"value": 283, "unit": "MB"},
        },
    }
]
TEXTS = [{"gpu": 0, "mem_usage": {"total_vram": "196592 MB", "used_vram": "283 MB"}}]
NUMBERS = [{"gpu": 0, "vram": {"total": 196592, "used": 283}}]
BYTES = [
    {
        "gpu": 0,
        "mem_usage": {
            "total_vram": {"value": "206141652992", "unit": "B"},
            "used_vram": {"value": "296747008", "unit": "B"},
        },
    }
]
GIB = [{"gpu": 0, "mem_usage": {"total_vram": "191.984375 GiB", "used_vram": "0.2763671875 GiB"}}]


def tool(memory: object, asic: object = ASIC, drivers: object = ()):
    answers = {"metric": memory, "--asic": asic, "--driver": drivers}

    def run(words: tuple[str, ...]) -> str | None:
        told = next(answers[word] for word in words if word in answers)
        return told if told is None or isinstance(told, str) else json.dumps(told)

    return run


@pytest.mark.parametrize("memory", [QUANTITIES, TEXTS, NUMBERS, BYTES, GIB, {"gpu_data": QUANTITIES}])
def test_memory_is_read_in_every_form(memory: object) -> None:
    assert amd_smi.gpus(tool(memory)) == (Gpu(0, "AMD Instinct MI300X gfx942", 196592.0, 283.0),)


def test_gpus_come_in_their_order() -> None:
    second = [{**QUANTITIES[0], "gpu": 1}, *QUANTITIES]
    assert [one.index for one in amd_smi.gpus(tool(second))] == [0, 1]


@pytest.mark.parametrize(
    "memory",
    [
        None, "", "ERROR: no GPU", "{}", "[1]", "7", "[" * 100_000,
        [{"gpu": 0, "mem_usage": "N/A"}],
        [{"gpu": "all", "mem_usage": QUANTITIES[0]["mem_usage"]}],
        [{"gpu": 0, "mem_usage": {"total_vram": "N/A", "used_vram": {"value": "N/A", "unit": "MB"}}}],
        [{"gpu": 0, "mem_usage": {"total_vram": "1.2.3 MB", "used_vram": True}}],
    ],
)  # fmt: skip
def test_what_it_does_not_tell_is_not_there(memory: object) -> None:
    assert amd_smi.gpus(tool(memory)) == ()


def test_a_gpu_without_a_name_is_one_all_the_same() -> None:
    for asic in (None, [{"gpu": 0, "asic": "N/A"}], [{"gpu": 0, "asic": {"market_name": "N/A"}}]):
        assert amd_smi.gpus(tool(QUANTITIES, asic))[0].name == "AMD GPU"


def test_the_driver_is_told() -> None:
    drivers = [{"gpu": 0, "driver": {"name": "amdgpu", "version": "6.14.14"}}]
    assert amd_smi.driver(tool(QUANTITIES, drivers=drivers)) == "6.14.14"
    assert amd_smi.driver(tool(QUANTITIES, drivers=[{"gpu": 0, "driver": "N/A"}])) == ""


def test_a_tool_that_is_not_there_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert amd_smi.gpus() == ()
    assert amd_smi.driver() == ""


def test_the_tool_of_this_machine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "amd-smi"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(QUANTITIES)}\nEND\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert amd_smi.gpus()[0].used == 283.0
    script.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert amd_smi.gpus() == ()
