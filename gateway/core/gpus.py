"""GPU memory and activity as AMD's device-metrics-exporter shows them, for the GPUs of one backend."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(
    rb"^\w*?(gpu_used_vram|gpu_total_vram|gpu_gfx_activity|gpu_package_power|gpu_power_usage)"
    rb'\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(\S+)',
    re.MULTILINE | re.IGNORECASE,
)
"""The exporter may be told to put a prefix before its names; its list of them is in upper case."""

_ID: Final = re.compile(rb'(?:^|,)\s*gpu_id="(\d+)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GpuSource:
    """Where to read of a backend's GPUs.

    Attributes:
        exporter: Address of the exporter, without path.
        ids: Numbers of the GPUs as the exporter counts them.
    """

    exporter: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """What a backend's GPUs did when they were last looked at; None where it is not shown, which is not zero.

    In partitions the exporter shows activity and power of the first one only.

    Attributes:
        memory: Share of their memory that is taken, 0 to 1.
        activity: Share of time in which they computed, their mean, 0 to 1.
        power: Watts of all together.
        at: Monotonic seconds.
    """

    memory: float | None
    activity: float | None
    power: float | None
    at: float


def parse_gpus(page: bytes, ids: tuple[int, ...], at: float) -> GpuLoad:
    """Read a page in Prometheus' text format.

    Args:
        page: The page.
        ids: The GPUs that count.
        at: Monotonic seconds at which it was read.
    """
    shown = _shown(page, ids)
    used, total = _of_all(shown, ids, "gpu_used_vram"), _of_all(shown, ids, "gpu_total_vram")
    activity = _of_all(shown, ids, "gpu_gfx_activity")
    power = _of_all(shown, ids, "gpu_package_power") or _of_all(shown, ids, "gpu_power_usage")
    return GpuLoad(
        memory=sum(used) / sum(total) if used and total and sum(total) > 0 else None,
        activity=sum(activity) / len(activity) / 100 if activity else None,
        power=sum(power) if power else None,
        at=at,
    )


def parse_used(page: bytes, ids: tuple[int, ...]) -> float | None:
    """MiB of the GPUs' memory that are taken, all together; None where the page does not show it for each.

    Args:
        page: As :func:`parse_gpus` takes it.
        ids: The GPUs that count.
    """
    used = _of_all(_shown(page, ids), ids, "gpu_used_vram")
    return sum(used) if used else None


def _shown(page: bytes, ids: tuple[int, ...]) -> dict[str, dict[int, float]]:
    """What a page shows of some GPUs, by name and number."""
    shown: dict[str, dict[int, float]] = {}
    for name, labels, written in _SAMPLE.findall(page):
        found, value = _ID.search(labels), _number(written)
        if found is not None and int(found[1]) in ids and math.isfinite(value):
            shown.setdefault(name.decode().lower(), {})[int(found[1])] = value
    return shown


def _of_all(shown: dict[str, dict[int, float]], ids: tuple[int, ...], name: str) -> list[float] | None:
    """One value for each GPU; None where one is missing."""
    values = list(shown.get(name, {}).values())
    return values if len(values) == len(ids) else None


def _number(written: bytes) -> float:
    try:
        return float(written)
    except ValueError:
        return math.nan
