from __future__ import annotations

import pytest

from gateway.core.gpus import GpuLoad, parse_gpus, parse_used

PAGE = b"""\
# HELP gpu_used_vram Used VRAM
gpu_used_vram{gpu_id="0",hostname="a, b",card_series="AMD Instinct MI300X"} 90000
gpu_used_vram{gpu_id="1",hostname="a, b"} 30000
gpu_used_vram{gpu_id="2"} 196592
gpu_total_vram{gpu_id="0"} 200000
gpu_total_vram{gpu_id="1"} 200000
gpu_total_vram{gpu_id="2"} 200000
gpu_gfx_activity{gpu_id="0"} 80
gpu_gfx_activity{gpu_id="1"} 40
gpu_package_power{gpu_id="0"} 700
gpu_package_power{gpu_id="1"} 500.5
"""


def test_the_gpus_of_a_backend_are_taken_together() -> None:
    assert parse_gpus(PAGE, (0, 1), 7.0) == GpuLoad(0.3, 0.6, 1200.5, 7.0)
    assert parse_gpus(PAGE, (0,), 7.0).memory == 0.45


def test_memory_in_use_is_that_of_all_gpus() -> None:
    assert parse_used(PAGE, (0, 1)) == 120_000.0
    assert parse_used(PAGE, (0, 7)) is None


def test_what_is_shown_of_some_only_is_not_known_of_all() -> None:
    # Of a partition the exporter shows neither activity nor power.
    assert parse_gpus(PAGE, (0, 2), 7.0) == GpuLoad((90_000 + 196_592) / 400_000, None, None, 7.0)


def test_names_may_have_a_prefix_and_be_in_capitals() -> None:
    page = PAGE.replace(b"gpu_used", b"amd_GPU_USED").replace(b"_vram", b"_VRAM")
    page = page.replace(b"gpu_package_power", b"GPU_POWER_USAGE").replace(b"gpu_id", b"GPU_ID")
    assert parse_gpus(page, (0, 1), 7.0) == GpuLoad(0.3, 0.6, 1200.5, 7.0)


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b'gpu_used_vram{gpu_id="0"} NaN\n',
        b'gpu_used_vram{gpu_id="0"} x\n',
        b'gpu_used_vram{card="0"} 1\n',
    ],
)
def test_what_is_not_shown_is_not_zero(page: bytes) -> None:
    assert parse_gpus(page, (0,), 7.0) == GpuLoad(None, None, None, 7.0)


def test_no_memory_at_all_has_no_share() -> None:
    page = b'gpu_used_vram{gpu_id="0"} 0\ngpu_total_vram{gpu_id="0"} 0\n'
    assert parse_gpus(page, (0,), 7.0).memory is None
