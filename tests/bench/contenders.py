"""The gateways compared, and how each is started in front of the mock's two backends."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.bench.answers import MODEL
from tests.bench.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_NGINX: Final = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.err warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nb; proxy_temp_path {folder}/np;
  fastcgi_temp_path {folder}/nf; uwsgi_temp_path {folder}/nu; scgi_temp_path {folder}/ns;
  client_max_body_size 64m; client_body_buffer_size 1m;
  keepalive_requests 100000000; keepalive_timeout 600s;
  upstream be {{
    {servers}
    keepalive 1024; keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://be; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 600s;
    }}
  }}
}}
"""

_FLEET: Final = """
version: 1
backends:
  - name: none
    url: http://127.0.0.1:{ports[0]}
    model: bench/target
    served_model: {model}
    max_in_flight: 4096
  - name: mtp3
    url: http://127.0.0.1:{ports[1]}
    model: bench/target
    served_model: {model}
    max_in_flight: 4096
    method: mtp
    draft_tokens: 3
"""

# The shape of the sample policy: a route for each kind of work, so that the last one is reached past all others.
_POLICY: Final = """
version: 1
models: {{{model}: bench/target}}
defaults:
  score: {{preference: 1.0, load: 16.0}}
  baseline_share: 5%
  max_attempts: 3
timeouts: {{connect: 2s, first_byte: 120s, idle: 60s, total: 30m}}
classify: {{default: chat, threshold: 0.5, trust_hints: true}}
allow_pin: true
stale_after: 15s
routes:
  - {{name: math, match: {{workload: math}}, prefer: [{{method: mtp}}, any]}}
  - {{name: code, match: {{workload: code}}, prefer: [{{method: mtp}}, any]}}
  - {{name: tool-use, match: {{workload: tool_use}}, prefer: [any]}}
  - {{name: multilingual, match: {{workload: multilingual}}, prefer: [any]}}
  - {{name: grounded, match: {{workload: grounded}}, prefer: [{{method: mtp}}, any]}}
  - {{name: default, prefer: [{{method: mtp}}, any]}}
"""

_LITELLM: Final = """
model_list:
  - model_name: {model}
    litellm_params: {{model: hosted_vllm/{model}, api_base: "http://127.0.0.1:{ports[0]}/v1", api_key: none}}
  - model_name: {model}
    litellm_params: {{model: hosted_vllm/{model}, api_base: "http://127.0.0.1:{ports[1]}/v1", api_key: none}}
litellm_settings: {{telemetry: false, set_verbose: false, num_retries: 0}}
general_settings: {{disable_spend_logs: true}}
"""
_LITELLM_KEY: Final = "sk-bench-only-0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a gateway stands.

    Attributes:
        folder: For its files.
        port: To listen on.
        backends: Ports of the mock.
        search: Folders of programs, besides those of ``PATH``.
    """

    folder: Path
    port: int
    backends: Sequence[int]
    search: Sequence[Path] = ()

    def program(self, name: str) -> str | None:
        """Path of a program, None if it is not installed."""
        folders = (*map(str, self.search), None, "/usr/sbin")
        return next((found for folder in folders if (found := shutil.which(name, path=folder))), None)

    def write(self, name: str, template: str) -> str:
        """Fill in a file of configuration and return its path."""
        path = self.folder / name
        servers = " ".join(f"server 127.0.0.1:{port};" for port in self.backends)
        path.write_text(
            template.format(
                folder=self.folder, port=self.port, ports=self.backends, servers=servers, model=MODEL
            )
        )
        return str(path)


@dataclass(frozen=True, slots=True)
class Contender:
    """One gateway.

    Attributes:
        command: How it is started at a place; None where it is not installed.
        env: Added to the environment.
        headers: Added to each request.
    """

    name: str
    command: Callable[[Place], list[str] | None]
    env: dict[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


_COMMAND: Final = (sys.executable, "-m", "gateway.cli")


def specroute(place: Place, *more: str, command: Sequence[str] = _COMMAND) -> list[str]:
    """The gateway of this repository as its users start it, in front of a fleet of two."""
    fleet, policy = place.write("fleet.yaml", _FLEET), place.write("policy.yaml", _POLICY)
    return [
        *command, "serve", "--fleet", fleet, "--policy", policy,
        "--port", str(place.port), "--log-level", "warning", *more,
    ]  # fmt: skip


def _specroute_otlp(place: Place) -> list[str]:
    return specroute(place, "--otlp-endpoint", f"http://127.0.0.1:{place.backends[0]}")


def _nginx(place: Place) -> list[str] | None:
    program = place.program("nginx")
    if program is None:
        return None
    return [
        program,
        "-e",
        str(place.folder / "nginx.err"),
        "-c",
        place.write("nginx.conf", _NGINX),
    ]


def _router(name: str, *more: str, subcommand: Sequence[str] = (), level: str = "warn") -> Contender:
    """A router of the family that began as sglang-router: they share their options."""

    def command(place: Place) -> list[str] | None:
        program = place.program(name)
        urls = [f"http://127.0.0.1:{port}" for port in place.backends]
        if program is None:
            return None
        return [
            program, *subcommand, "--host", "127.0.0.1", "--port", str(place.port), "--worker-urls", *urls,
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()), "--log-level", level, *more,
        ]  # fmt: skip

    return Contender(f"{name}-rr" if more else name, command)


def _litellm(place: Place) -> list[str] | None:
    program = place.program("litellm")
    config = place.write("litellm.yaml", _LITELLM)
    if program is None:
        return None
    return [
        program, "--config", config, "--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1",
    ]  # fmt: skip


_ROUND_ROBIN: Final = ("--policy", "round_robin")

CONTENDERS: Final = {
    contender.name: contender
    for contender in (
        Contender("nginx", _nginx),
        Contender("specroute", specroute),
        Contender("specroute+otlp", _specroute_otlp),
        _router("vllm-router", level="warning"),
        _router("vllm-router", *_ROUND_ROBIN, level="warning"),
        _router("smg", subcommand=("launch",)),
        _router("smg", *_ROUND_ROBIN, subcommand=("launch",)),
        Contender(
            "litellm",
            _litellm,
            env={
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_MODE": "PRODUCTION",
                "LITELLM_LOG": "ERROR",
                "LITELLM_TELEMETRY": "False",
                "LITELLM_MASTER_KEY": _LITELLM_KEY,
            },
            headers=(f"Authorization: Bearer {_LITELLM_KEY}",),
        ),
    )
}
"""All gateways but ``direct``, which is the load at the mock itself."""
