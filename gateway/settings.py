"""Process settings: addresses, files, limits. Never policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

NOWHERE: Final = "none"
"""In place of an address: what would go there is not sent."""


def http_address(address: str) -> str:
    """An address that can be posted to.

    Raises:
        ValueError: It is none. Nothing of it is repeated, as it may hold a password.
    """
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, or a port that is no number
        usable = False
    if not usable:
        raise ValueError("it is no HTTP address: write http://localhost:4318 or the like")
    return address


def _http_or_nowhere(address: str) -> str:
    return address if address == NOWHERE else http_address(address)


class Settings(BaseSettings):
    """Settings of one gateway process; each can be set as ``SPECROUTE_NAME`` in the environment."""

    model_config = SettingsConfigDict(env_prefix="SPECROUTE_", frozen=True, extra="ignore")

    fleet: Path = Field(description="fleet.yaml: which backends exist")
    policy: Path = Field(description="policy.yaml: how requests are routed")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    workers: int = Field(
        default=1, ge=1, le=256, description="processes that share the port, each with a state of its own"
    )
    scrape_interval: float = Field(
        default=1.0, gt=0, description="seconds between two scrapes of a backend's /metrics"
    )
    scrape_timeout: float = Field(default=2.0, gt=0, description="seconds after which a scrape has failed")
    counter_window: float = Field(
        default=10.0, gt=0, description="seconds of the windows that acceptance is read from counters over"
    )
    counter_lag: float = Field(
        default=60.0,
        ge=0,
        description="seconds after which such a window is compared with its requests; it waits for their end",
    )
    probe_interval: float = Field(
        default=1.0, gt=0, description="seconds between two probes of a backend's /health and /v1/models"
    )
    probe_timeout: float = Field(
        default=2.0, gt=0, description="seconds after which a call of a probe has failed"
    )
    upstream: Literal["lean", "httpx"] = Field(
        default="lean", description="client for the backends: our own, or httpx over aiohttp"
    )
    pipe: bool = Field(
        default=True, description="pass chunks from connection to connection, past the web server's queues"
    )
    body_limit: int = Field(default=32 * 2**20, gt=0, description="largest request body, in bytes")
    max_requests: int = Field(
        default=10_000, gt=0, description="requests that may be open at once; beyond it they get 503"
    )
    drain_seconds: int = Field(
        default=30, ge=0, description="how long answers that are open may take to end when told to stop"
    )
    record_queue: int = Field(
        default=10_000, gt=0, description="finished requests that may wait for telemetry"
    )
    decision_log: Path | None = Field(
        default=None, description="JSONL file with a line for each finished request"
    )
    decision_log_bytes: int = Field(
        default=2**26, gt=0, description="size at which the decision log begins a new file"
    )
    decision_log_files: int = Field(
        default=16, ge=0, description="full files of the decision log that are kept"
    )
    seed: int = Field(default=0, ge=0, lt=2**64, description="seed of the routing draws")
    otlp_endpoint: Annotated[str, AfterValidator(http_address)] | None = Field(
        default=None, description="OTLP/HTTP collector, such as http://localhost:4318"
    )
    otlp_traces_endpoint: Annotated[str, AfterValidator(_http_or_nowhere)] | None = Field(
        default=None,
        description="whole address for spans alone, such as http://localhost:4318/v1/traces, or none",
    )
    otlp_metrics_endpoint: Annotated[str, AfterValidator(_http_or_nowhere)] | None = Field(
        default=None, description="the same for metrics, which /metrics has all the same"
    )
    trace_ratio: float = Field(
        default=0.1, ge=0, le=1, description="share of traces begun here that is exported"
    )
    trace_slow: float = Field(
        default=10.0,
        gt=0,
        description="seconds from the request to the first token of a stream, or to the end of another "
        "answer, from which on its trace is exported whatever the share, and for each hundred tokens of a "
        "stream's rest; so are those of requests that failed or explored",
    )
    service_name: str = Field(default="specroute", description="service.name of traces and metrics")
    semconv: Literal["0.1.0", "1.41"] = Field(
        default="0.1.0", description="GenAI semantic conventions to emit"
    )
    access_log: bool = Field(
        default=False, description="write a JSON line for each finished request to stderr"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="form of log lines on stderr")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least log level"
    )

    def receiver(self, signal: Literal["traces", "metrics"]) -> str | None:
        """The whole address that spans or metrics are posted to; None where they are not."""
        own = self.otlp_traces_endpoint if signal == "traces" else self.otlp_metrics_endpoint
        if own is not None:
            return None if own == NOWHERE else own
        return None if self.otlp_endpoint is None else f"{self.otlp_endpoint.rstrip('/')}/v1/{signal}"
