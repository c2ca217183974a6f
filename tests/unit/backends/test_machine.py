from __future__ import annotations

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


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("", "it answered nothing"),
        ("\n\n", "it answered nothing"),
        ("GPU introuvable\n", "it answered 'GPU introuvable'"),
        ("[]", "it answered '[]'"),
        ("{}", "it answered '{}'"),
        (
            '{"system": {"Driver version": "6.14"}}',
            """it answered '{"system": {"Driver version": "6.14"}}'""",
        ),
        ('{"card0": "N/A"}', """it answered '{"card0": "N/A"}'"""),
        ('{"card²": {}}', """it answered '{"card²": {}}'"""),
        ("[" * 100_000, "it answered '" + "[" * 60 + "…'"),
    ],
)
def test_an_answer_of_rocm_smi_that_says_nothing_is_told(shown: str, message: str) -> None:
    with pytest.raises(machine.UnreadableToolError) as raised:
        machine.parse_rocm(shown)
    assert str(raised.value) == message


@pytest.mark.parametrize("memory", ['"N/A"', "null", '"nan"', '"unbekannt"', "[]", "{}", '"1e999"'])
def test_a_partition_whose_memory_is_not_told_counts_as_free(memory: str) -> None:
    cards = f'{{"card8": {{"Card SKU": "M3", "VRAM Total Memory (B)": {memory}, "VRAM Total Used Memory (B)": {memory}}}}}'
    assert machine.parse_rocm(cards) == (Gpu(8, "AMD GPU", 0, 0),)
    assert machine.parse_rocm(cards)[0].free


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("", "it answered nothing"),
        ("No devices were found\n", "it answered 'No devices were found'"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the driver, a, b",
            'it answered "NVIDIA-SMI has failed because it couldn\'t communicate with t…"',
        ),
        ("[N/A], NVIDIA GB10, [N/A], [N/A]", "it answered '[N/A], NVIDIA GB10, [N/A], [N/A]'"),
    ],
)
def test_an_answer_of_nvidia_smi_that_says_nothing_is_told(shown: str, message: str) -> None:
    with pytest.raises(machine.UnreadableToolError) as raised:
        machine.parse_nvidia(shown)
    assert str(raised.value) == message


def test_nvidia_may_not_tell_the_memory() -> None:
    (gpu,) = machine.parse_nvidia("0, NVIDIA GB10, [N/A], [Not Supported]\n")
    assert (gpu, gpu.free) == (Gpu(0, "NVIDIA GB10", 0, 0), True)


@pytest.mark.parametrize(
    ("shown", "trouble"),
    [
        ("exit 1", "rocm-smi does not tell which GPUs there are: it failed or took too long"),
        ("echo", "rocm-smi does not tell which GPUs there are: it answered nothing"),
    ],
)
def test_a_tool_that_does_not_tell_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, trouble: str
) -> None:
    script = tmp_path / "rocm-smi"
    script.write_text(f"#!/bin/sh\n{shown}\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    told = machine.look()
    assert (told.platform, told.gpus, told.trouble) == ("rocm", None, trouble)
    assert machine.gpus() is None


@pytest.mark.parametrize(
    ("allowed", "left"),
    [({}, (0, 1, 2)), ({"HIP_VISIBLE_DEVICES": "2,0"}, (0, 2)), ({"HIP_VISIBLE_DEVICES": ""}, (0, 1, 2)),
     ({"HIP_VISIBLE_DEVICES": "GPU-1a"}, (0, 1, 2)), ({"CUDA_VISIBLE_DEVICES": "1"}, (0, 1, 2)), ({"HIP_VISIBLE_DEVICES": "9"}, ())],
)  # fmt: skip
def test_gpus_that_somebody_else_was_given_are_not_ours(
    allowed: dict[str, str], left: tuple[int, ...]
) -> None:
    three = tuple(Gpu(index, "MI300X", 196_592, 0) for index in range(3))
    assert tuple(gpu.index for gpu in machine.visible(three, "rocm", allowed)) == left
