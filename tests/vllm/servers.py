"""Real vLLM servers as processes: started together, ready when they say so, stopped with all their children."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from tests.vllm import cpu_fix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).parents[2]
SERVED_MODEL: Final = "tiny"
CONTEXT: Final = 2048
READY_WITHIN: Final = 300.0
"""Seconds. Importing vLLM is most of it; four servers on two free cores are ready in about 60."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a server is to be.

    Attributes:
        name: Also its backend name in the fleet.
        method: As the fleet file calls it.
        draft_tokens: N.
        speculative: vLLM's ``--speculative-config``; None for the baseline.
    """

    name: str
    method: str = "none"
    draft_tokens: int = 0
    speculative: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """One that is running."""

    launch: Launch
    url: str
    log: Path
    process: subprocess.Popen[bytes]


def launches(checkpoints: Path) -> tuple[Launch, ...]:
    """One server per way of drafting, all with the same target."""
    drafters = {
        "ngram": ("ngram", 4, {"prompt_lookup_min": 2, "prompt_lookup_max": 4}),
        "draft-model": ("draft_model", 3, {"model": str(checkpoints / "draft")}),
        "eagle3": ("eagle3", 3, {"model": str(checkpoints / "eagle3")}),
    }
    return (
        Launch("baseline"),
        *(
            Launch(name, name, n, {"method": method, "num_speculative_tokens": n, **more})
            for name, (method, n, more) in drafters.items()
        ),
    )


def command(python: Path, launch: Launch, target: Path, port: int, otlp_endpoint: str) -> list[str]:
    """How a server is started: the smallest form that two cores carry four of."""
    words = [
        *(str(python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(target), "--served-model-name", SERVED_MODEL),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "bfloat16", "--enforce-eager", "--distributed-executor-backend", "uni"),
        *("--max-model-len", str(CONTEXT), "--max-num-seqs", "16", "--kv-cache-memory-bytes", str(64 << 20)),
        *("--otlp-traces-endpoint", otlp_endpoint),
    ]
    if launch.speculative is not None:
        words += ["--speculative-config", json.dumps(launch.speculative)]
        # A server without a draft refuses to start with this flag.
        words += ["--per-request-spec-decode-metrics", "summary"]
    return words


def environment(scratch: Path, temporary: str) -> dict[str, str]:
    """What the servers need of their environment, with the plugin on their path."""
    plugin = scratch / "plugin"
    cpu_fix.announce(plugin)
    return os.environ | {
        "PYTHONPATH": f"{plugin}{os.pathsep}{ROOT}",
        "TMPDIR": temporary,
        "VLLM_CACHE_ROOT": str(scratch / "cache"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # By default every server pins itself to core 0.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        # Without it vLLM turns "uni" back into one more process.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        # The first request with logprobs would compile for 17 s, more than that saves in all tests.
        "TORCHDYNAMO_DISABLE": "1",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }


@contextlib.contextmanager
def running(
    python: Path, checkpoints: Path, otlp_endpoint: str, scratch: Path
) -> Iterator[dict[str, Server]]:
    """Start all servers at once, wait until each answers, and leave no process behind.

    Args:
        python: Interpreter that has vLLM.
        checkpoints: Folder that :mod:`tests.vllm.checkpoints` filled.
        otlp_endpoint: Where spans go, complete with path.
        scratch: Folder for logs and caches.
    """
    servers: dict[str, Server] = {}
    # vLLM leaves its sockets behind, and a socket's path must be short: a folder of its own.
    with tempfile.TemporaryDirectory(prefix="vllm-") as temporary:
        env = environment(scratch, temporary)
        try:
            for launch, port in zip(launches(checkpoints), _free_ports(), strict=False):
                words = command(python, launch, checkpoints / "target", port, otlp_endpoint)
                log = scratch / f"{launch.name}.log"
                process = _start(words, env, log)
                servers[launch.name] = Server(launch, f"http://127.0.0.1:{port}", log, process)
            _wait_until_ready(list(servers.values()))
            yield servers
        finally:
            _stop(list(servers.values()))


def _start(words: Sequence[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            words,
            cwd=log.parent,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _free_ports() -> Iterator[int]:
    """Ports that nobody listens on, below those that the kernel gives to outgoing connections."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        with socket.socket() as probe:
            free = probe.connect_ex(("127.0.0.1", port)) != 0
        if free:
            yield port


def _wait_until_ready(servers: Sequence[Server]) -> None:
    deadline = time.monotonic() + READY_WITHIN
    with httpx.Client(timeout=5) as client:
        for server in servers:
            while not _ready(client, server):
                if server.process.poll() is not None or time.monotonic() > deadline:
                    log = server.log.read_text(encoding="utf-8", errors="replace")
                    raise RuntimeError(f"vLLM server {server.launch.name} did not start:\n{log[-4000:]}")
                time.sleep(0.25)


def _ready(client: httpx.Client, server: Server) -> bool:
    try:
        if client.get(f"{server.url}/health").status_code != 200:
            return False
        models = client.get(f"{server.url}/v1/models").json()
    except httpx.TransportError:
        return False
    return [model["id"] for model in models["data"]] == [SERVED_MODEL]


def _stop(servers: Sequence[Server]) -> None:
    for server in servers:
        server.process.terminate()
    for server in servers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(timeout=20)
        # Whatever of its session is still there, whether it went by itself or not.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
