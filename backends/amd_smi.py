"""GPUs as ``amd-smi --json`` lists them, which newer ROCm has in place of ``rocm-smi``.

Its answers are a list of GPUs, or an object with that list as ``gpu_data``; a quantity is a number, a text
with its unit, or an object of value and unit; what is not known is "N/A".
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final

from backends.machine import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Run = Callable[[tuple[str, ...]], str | None]
    """Runs a tool and gives its output, None where it is not there or fails."""

TOOL: Final = "amd-smi"
_TIMEOUT: Final = 20.0
_MIB: Final[Mapping[str, float]] = {"B": 2.0**-20, "KB": 2.0**-10, "MB": 1.0, "GB": 2.0**10, "TB": 2.0**20}
"""Its megabytes are of 1,024 kilobytes."""

_QUANTITY: Final = re.compile(r"\s*([\d.]+)\s*([KMGT]?)i?(B?)\s*", re.IGNORECASE)


def gpus(run: Run | None = None) -> tuple[Gpu, ...]:
    """The GPUs with their memory; none where the tool is not there or tells none."""
    run = run or output
    names = {
        one["gpu"]: _name(one) for one in listed(run((TOOL, "static", "--asic", "--json"))) if "gpu" in one
    }
    found = []
    for one in listed(run((TOOL, "metric", "--mem-usage", "--json"))):
        usage = one.get("mem_usage") or one.get("vram")
        number = one.get("gpu")
        if not isinstance(usage, dict) or not isinstance(number, int):
            continue
        total, used = (_mib(usage.get(f"{kind}_vram", usage.get(kind))) for kind in ("total", "used"))
        if total is not None and used is not None:
            found.append(Gpu(number, names.get(number, "AMD GPU"), total, used))
    return tuple(sorted(found, key=lambda gpu: gpu.index))


def driver(run: Run | None = None) -> str:
    """Version of the driver; "" if it does not tell."""
    for one in listed((run or output)((TOOL, "static", "--driver", "--json"))):
        told = one.get("driver")
        if isinstance(told, dict) and (version := told.get("version") or told.get("driver_version")):
            return str(version)
    return ""


def listed(shown: str | None) -> list[dict[str, Any]]:
    """What it says of each GPU; nothing where it says nothing that can be read."""
    try:
        told = json.loads(shown or "[]")
    except (ValueError, RecursionError):
        return []
    if isinstance(told, dict):
        told = told.get("gpu_data", [])
    return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []


def _name(one: Mapping[str, Any]) -> str:
    asic = one.get("asic")
    asic = asic if isinstance(asic, dict) else {}
    said = (asic.get("market_name"), asic.get("target_graphics_version"))
    words = [str(word) for word in said if word and word != "N/A"]
    return " ".join(words) if words else "AMD GPU"


def _mib(told: object) -> float | None:
    """A quantity in MiB; None where it is none."""
    if isinstance(told, dict):
        told = f"{told.get('value')} {told.get('unit', 'MB')}"
    if isinstance(told, int | float) and not isinstance(told, bool):
        told = f"{told} MB"
    fits = _QUANTITY.fullmatch(told) if isinstance(told, str) else None
    if fits is None:
        return None
    try:
        value = float(fits[1])
    except ValueError:
        return None
    unit = f"{fits[2]}B".upper() if fits[2] or fits[3] else "MB"
    return value * _MIB[unit] if math.isfinite(value) else None


def output(words: tuple[str, ...]) -> str | None:
    """What a tool prints; None where it is not there, or fails."""
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=True)  # noqa: S603 - the vendor's tool
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout
