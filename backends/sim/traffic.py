"""Counts HTTP exchanges and describes the process, with the collectors that a real server uses."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    generate_latest,
)

if TYPE_CHECKING:
    from backends.sim.asgi import Request

_NOT_COUNTED: Final = ("/metrics", "/health", "/load", "/ping", "/version", "/server_info")
_SIZES: Final = "Only value of header is respected. Otherwise ignored. No percentile calculated. "
_MANY: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip
_FEW: Final = (0.1, 0.5, 1)
_OUTCOMES: Final = {True: "tool_call", False: "no_tool_call"}
_MODES: Final = {True: "streaming", False: "non_streaming"}
_KINDS: Final = ("chat_completions", "responses", "other")


class Traffic:
    """Metrics of one server that are not its engine's.

    Args:
        model: Value of the label ``model_name``.
        tool_parser: Whether the server was started with a tool call parser.
    """

    def __init__(self, model: str, *, tool_parser: bool) -> None:
        self._registry = registry = CollectorRegistry()
        self._model = model
        self._requests = Counter(
            "http_requests_total",
            "Total number of requests by method, status and handler.",
            ("method", "status", "handler"), registry=registry,
        )  # fmt: skip
        self._asked = Summary(
            "http_request_size_bytes",
            f"Content length of incoming requests by handler. {_SIZES}",
            ("handler",), registry=registry,
        )  # fmt: skip
        self._answered = Summary(
            "http_response_size_bytes",
            f"Content length of outgoing responses by handler. {_SIZES}",
            ("handler",), registry=registry,
        )  # fmt: skip
        self._latency = Histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets but no API specific labels. Made for more accurate percentile "
            "calculations. ",
            buckets=_MANY, registry=registry,
        )  # fmt: skip
        self._latency_by_handler = Histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler. Made to be only used if aggregation by handler is "
            "important. ",
            ("method", "handler"), buckets=_FEW, registry=registry,
        )  # fmt: skip
        if tool_parser:
            self._parsed = Counter(
                "vllm:tool_call_parser_invocations_total",
                "Total number of ToolParser invocations. Non-streaming increments once per choice; streaming "
                "increments once per delta.",
                ("model_name", "mode", "outcome", "request_type"), registry=registry,
            )  # fmt: skip
            for mode, outcome, kind in itertools.product(_MODES.values(), _OUTCOMES.values(), _KINDS):
                self._parsed.labels(model, mode, outcome, kind)

    def count(self, request: Request, handler: str, seconds: float) -> None:
        """Count an exchange that is over.

        Args:
            request: The exchange; one that was never answered counts as an error.
            handler: Route that answered, ``none`` where there is none.
            seconds: How long it took.
        """
        if any(path in request.path for path in _NOT_COUNTED):
            return
        self._requests.labels(request.method, f"{request.status // 100}xx", handler).inc()
        self._asked.labels(handler).observe(int(request.header("content-length") or 0))
        self._answered.labels(handler).observe(request.length)
        self._latency.observe(seconds)
        self._latency_by_handler.labels(request.method, handler).observe(seconds)

    def parsed(self, number: int, *, called: bool, streaming: bool) -> None:
        """Count answers, or deltas of a stream, that the tool call parser looked at."""
        self._parsed.labels(self._model, _MODES[streaming], _OUTCOMES[called], _KINDS[0]).inc(number)

    def page(self) -> str:
        """What Prometheus scrapes, after the engine's metrics."""
        return generate_latest(self._registry).decode()


def process_page() -> str:
    """What Prometheus scrapes about the process, before the engine's metrics."""
    return generate_latest(_process()).decode()


@functools.cache
def _process() -> CollectorRegistry:
    registry = CollectorRegistry()
    GCCollector(registry)
    PlatformCollector(registry)
    ProcessCollector(registry=registry)
    return registry
