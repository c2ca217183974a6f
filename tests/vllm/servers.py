"""Real vLLM servers, started from our launch specs by our supervisor, the smallest form that two cores carry."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anyio.from_thread import start_blocking_portal

from backends import render
from backends.commands import Command, Event
from backends.preflight.schedule import KEY as SCHEDULE
from backends.spec import FIRST_PORT, LaunchSpec
from backends.supervise import Patience, Supervisor
from tests.vllm import cpu_fix

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
SERVED_MODEL: Final = "tiny"
CONTEXT: Final = 2048
PATIENCE: Final = Patience(ready=420.0, stop=20.0)
"""Importing vLLM is most of the way to readiness; nine servers on two free cores take about two minutes."""


@dataclass(frozen=True, slots=True)
class Server:
    """One that is running."""

    spec: LaunchSpec
    url: str
    log: Path


def specs(checkpoints: Path, otlp_endpoint: str, *, suffix: bool) -> tuple[LaunchSpec, ...]:
    """A server for each method that the CPU build serves, all with the same vocabulary and answers.

    Args:
        checkpoints: Folder that :mod:`tests.vllm.checkpoints` filled.
        otlp_endpoint: Where spans go, complete with path.
        suffix: Whether suffix decoding's package is there.
    """
    usual: dict[str, Any] = {
        "dtype": "bfloat16",
        "enforce-eager": True,
        "distributed-executor-backend": "uni",
        "max-num-seqs": 16,
        "kv-cache-memory-bytes": 64 << 20,
        "otlp-traces-endpoint": otlp_endpoint,
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
    }
    base = LaunchSpec(
        "baseline", str(checkpoints / "target"), SERVED_MODEL, max_model_len=CONTEXT, args=usual
    )

    def drafting(method: str, draft_tokens: int, *, draft: bool = True, **more: Any) -> LaunchSpec:
        own = str(checkpoints / method.removesuffix("-model")) if draft else None
        return replace(base, name=method, method=method, draft_tokens=draft_tokens, draft=own, **more)

    # Its own tokenizer class would read the words of this vocabulary another way.
    mimo = {"target": str(checkpoints / "mimo"), "args": usual | {"tokenizer": base.target}}
    gemma4 = {"target": str(checkpoints / "gemma4"), "args": usual | {"tokenizer": base.target}}
    return (
        base,
        drafting("ngram", 4, draft=False),
        drafting("draft-model", 3),
        drafting("eagle", 3),
        drafting("eagle3", 3),
        drafting("medusa", 3),
        drafting("mtp", 2, draft=False, **mimo),
        drafting("gemma4-mtp", 3, **gemma4),
        drafting("dflash", 3),
        *([drafting("suffix", 8, draft=False)] if suffix else ()),
    )


def by_batch(spec: LaunchSpec) -> LaunchSpec:
    """The same server with all its drafts for a request alone, and one token each for more."""
    schedule = [[1, 1, spec.draft_tokens], [2, 16, 1]]
    return replace(spec, name=f"{spec.name}-by-batch", speculative={SCHEDULE: schedule})


def has_suffix(python: Path) -> bool:
    """Whether an interpreter has what suffix decoding needs, compiled."""
    found = subprocess.run([python, "-c", "import arctic_inference.suffix_decoding._C"], check=False)  # noqa: S603 - our own interpreter
    return found.returncode == 0


def environment(scratch: Path, temporary: str) -> dict[str, str]:
    """What the servers need of their environment, with the plugin on their path."""
    plugin = scratch / "plugin"
    if not plugin.exists():
        cpu_fix.announce(plugin)
    return os.environ | {
        "PYTHONPATH": f"{plugin}{os.pathsep}{ROOT}",
        # Suffix decoding's package brings one that patches vLLM for other ends.
        "VLLM_PLUGINS": cpu_fix.NAME,
        "TMPDIR": temporary,
        "VLLM_CACHE_ROOT": str(scratch / "cache"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # By default every server pins itself to core 0.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        # Prompt lookup's threads wait for each other for tens of milliseconds where cores are busy.
        "NUMBA_NUM_THREADS": "1",
        # Without it vLLM turns "uni" back into one more process.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # The first request with logprobs would compile for 17 s, more than that saves in all tests.
        "TORCHDYNAMO_DISABLE": "1",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }


@contextlib.contextmanager
def running(python: Path, wanted: Sequence[LaunchSpec], scratch: Path) -> Iterator[dict[str, Server]]:
    """Start servers all at once, wait until each is ready, and leave no process behind.

    Args:
        python: Interpreter that has vLLM.
        wanted: The servers; one without a port of its own gets a free one.
        scratch: Folder for logs and caches.
    """
    free = free_ports()
    placed = [spec if spec.port != FIRST_PORT else replace(spec, port=next(free)) for spec in wanted]
    # vLLM leaves its sockets behind, and a socket's path must be short: a folder of its own.
    with tempfile.TemporaryDirectory(prefix="vllm-") as temporary, start_blocking_portal() as portal:
        env = environment(scratch, temporary)
        commands = [
            Command(
                spec.name,
                tuple(render.argv(spec, str(python))),
                env | render.environment(spec, "cpu"),
                spec.url,
                spec.served_model,
                scratch / f"{spec.name}.log",
            )
            for spec in placed
        ]
        with portal.wrap_async_context_manager(_supervised(commands)):
            yield {
                spec.name: Server(spec, spec.url, command.log)
                for spec, command in zip(placed, commands, strict=True)
            }


@contextlib.asynccontextmanager
async def _supervised(commands: Sequence[Command]) -> AsyncIterator[None]:
    failures: list[str] = []

    def tell(name: str, event: Event, detail: str) -> None:
        if event in (Event.FAILED, Event.ENDED):
            failures.append(f"vLLM server {name} {event.value}: {detail}")

    async with Supervisor(commands, tell=tell, at_once=len(commands), patience=PATIENCE) as supervisor:
        ready = await supervisor.ready()
        if len(ready) < len(commands):
            raise RuntimeError("\n".join(failures))
        yield
    assert failures == []


def free_port() -> int:
    """A port that nobody listens on."""
    return next(free_ports())


def free_ports() -> Iterator[int]:
    """Ports that nobody listens on, below those that the kernel gives to outgoing connections."""
    for port in range(20_000 + (os.getpid() * 7 + int(time.time())) % 10_000, 32_768):
        with socket.socket() as probe:
            free = probe.connect_ex(("127.0.0.1", port)) != 0
        if free:
            yield port
