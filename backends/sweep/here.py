"""What the servers of a sweep run on: accelerators, driver, ROCm or CUDA, vLLM."""

from __future__ import annotations

import json
import platform as python_platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp

from backends import amd_smi, machine
from gateway.core.gpus import parse_used
from gateway.policy.evidence import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from backends.machine import Gpu
    from backends.methods import Platform
    from backends.sweep.servers import Place
    from gateway.core.gpus import GpuSource

ROCM_VERSION: Final = Path("/opt/rocm/.info/version")
_CPUINFO: Final = Path("/proc/cpuinfo")
_SIMULATED: Final = "-simulated-"
_PATIENCE: Final = aiohttp.ClientTimeout(total=10.0)


def gpus() -> tuple[Platform, tuple[Gpu, ...]] | None:
    """The accelerators that a vendor's tool lists; None where none does."""
    found = machine.gpus()
    if found is None and (cards := amd_smi.gpus()):
        return "rocm", cards
    return found


def here(
    vllm: str = "",
    *,
    gpus: Callable[[], tuple[Platform, tuple[Gpu, ...]] | None] = gpus,
    run: Callable[[tuple[str, ...]], str | None] | None = None,
) -> Machine:
    """This machine, as far as its tools tell.

    Args:
        vllm: Version of the engine that is measured; "" if it does not say.
        gpus: Lists the accelerators.
        run: Runs a tool and gives its output, None where it is not there or fails.
    """
    found, output = gpus(), run or amd_smi.output
    if found is None or not found[1]:
        return Machine(hardware=_processor(), platform="cpu", vllm=vllm)
    platform, cards = found
    names = sorted({one.name for one in cards})
    driver, version = (_rocm if platform == "rocm" else _cuda)(output)
    return Machine(
        hardware=" and ".join(names),
        accelerators=len(cards),
        platform=platform,
        platform_version=version,
        driver=driver,
        vllm=vllm,
    )


def memory() -> float | None:
    """MiB in use on all accelerators; None where no tool tells."""
    found = gpus()
    cards = [one for one in found[1] if one.memory] if found else []
    return sum(one.used for one in cards) if cards else None


async def exported(source: GpuSource) -> float | None:
    """MiB in use on the accelerators of a server elsewhere; None where its exporter does not tell."""
    url = f"{source.exporter}/metrics"
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as client,
            client.get(url) as page,
        ):
            return parse_used(await page.read(), source.ids) if page.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


async def version_of(url: str) -> str:
    """The version of vLLM behind a URL; "" if it does not say."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as client,
            client.get(f"{url}/version") as response,
        ):
            told = await response.json()
            return str(told.get("version", "")) if isinstance(told, dict) else ""
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return ""


async def simulated(place: Place) -> bool:
    """Whether a server marks its answers as a simulator's; False where it gives none."""
    asked = {"model": place.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    url = f"{place.url}/v1/chat/completions"
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE, trust_env=False) as client,
            client.post(url, json=asked, headers=place.headers) as response,
        ):
            told = await response.json()
            return isinstance(told, dict) and _SIMULATED in str(told.get("system_fingerprint"))
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False


def _rocm(run: Callable[[tuple[str, ...]], str | None]) -> tuple[str, str]:
    """Versions of driver and ROCm."""
    driver = ""
    shown = run(("rocm-smi", "--showdriverversion", "--json"))
    if shown is not None:
        try:
            driver = str(json.loads(shown).get("system", {}).get("Driver version", ""))
        except (ValueError, AttributeError):
            driver = ""
    driver = driver or amd_smi.driver(run)
    try:
        version = ROCM_VERSION.read_text(encoding="utf-8").strip()
    except OSError:
        version = ""
    return driver, version


def _cuda(run: Callable[[tuple[str, ...]], str | None]) -> tuple[str, str]:
    """Versions of driver and CUDA."""
    driver = run(("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")) or ""
    head = run(("nvidia-smi",)) or ""
    version = re.search(r"CUDA Version:\s*([\d.]+)", head)
    return driver.partition("\n")[0].strip(), version[1] if version else ""


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", _CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else python_platform.machine()
