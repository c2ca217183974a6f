"""Posts to an OTLP receiver over HTTP, with headers and certificates of the usual variables."""

from __future__ import annotations

import gzip
import logging
import os
import threading
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http import metric_exporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.util.re import parse_env_headers

from gateway.telemetry.otlp_session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.metrics.export import MetricsData

_log = logging.getLogger(__name__)

# It quotes a header that it cannot read, and that may be a key; see _headers.
logging.getLogger("opentelemetry.util.re").addFilter(lambda _: False)

# It tells of each try of each export; see _State.
logging.getLogger(metric_exporter.__name__).addFilter(lambda _: False)

_SECONDS: Final = 10.0
_WAITS: Final = (1.0, 2.0, 4.0)
"""Seconds before each further try."""

_BUSY: Final = frozenset({429, 502, 503, 504})
"""Answers after which the specification wants another try."""


class _State:
    """Whether a receiver takes what it is sent; the log has a line when that changes, and no other.

    Args:
        what: What is sent, for the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    def tell(self, trouble: str) -> None:
        """Say what a posting came to, nothing if it was taken."""
        if trouble and not self._failures:
            _log.warning("%s are not taken: %s", self._what, trouble)
        elif not trouble and self._failures:
            _log.warning("%s are taken again, after %d failures", self._what, self._failures)
        self._failures = self._failures + 1 if trouble else 0


class MetricSender(metric_exporter.OTLPMetricExporter):
    """Sends metrics as the SDK does, and tells of a receiver that does not take them once.

    Args:
        url: The whole address.

    Attributes:
        dropped: Data points that were not taken.
    """

    def __init__(self, url: str) -> None:
        self._to = Session(url)
        self._state = _State("metrics")
        self._closed = False
        self.dropped = 0
        super().__init__(url, timeout=_limit(os.environ, "METRICS"), session=self._to)

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float | None = 10_000,
        **kwargs: Any,  # noqa: ANN401 - as the library has it
    ) -> MetricExportResult:
        """Send, and again where that may help; blocks."""
        result = super().export(metrics_data, timeout_millis, **kwargs)
        if self._closed:
            return result
        sent = result is MetricExportResult.SUCCESS
        # To the library a redirect is a success, and it was not followed.
        trouble = self._to.trouble or ("" if sent else "they could not be encoded or are too many")
        self._state.tell(trouble)
        if trouble:
            self.dropped += self._to.rejected or _points(metrics_data)
        return result

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:  # noqa: ANN401
        """Try no more."""
        self._closed = True
        super().shutdown(timeout_millis, **kwargs)


def _points(data: MetricsData) -> int:
    return sum(
        len(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


class Sender:
    """One address that spans are posted to.

    Args:
        url: The whole address.
        env: Where ``OTEL_EXPORTER_OTLP_TRACES_*`` and ``OTEL_EXPORTER_OTLP_*`` are looked up: ``HEADERS``,
            ``TIMEOUT``, ``COMPRESSION``, ``CERTIFICATE``, ``CLIENT_KEY`` and ``CLIENT_CERTIFICATE``.

    Raises:
        ValueError: A variable has a value that it cannot have.
    """

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        setting = partial(_setting, env, "TRACES")

        self._url = url
        self._timeout = _limit(env, "TRACES")
        self._compressed = setting("COMPRESSION") == "gzip"
        self._session = Session(url)
        self._session.headers.update({"content-type": "application/x-protobuf", "user-agent": "specroute"})
        if self._compressed:
            self._session.headers["content-encoding"] = "gzip"
        self._session.headers.update(_headers(setting("HEADERS")))
        self._bundle = setting("CERTIFICATE")
        certificate, key = setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY")
        if certificate:
            self._session.cert = (certificate, key) if key else certificate
        self._stopped = threading.Event()
        self._state = _State("spans")

    def send(self, body: bytes) -> bool:
        """Post once, and again where that may help; blocks. Returns whether the receiver took it.

        It may have taken it but for some spans, see :attr:`rejected`.
        """
        data = gzip.compress(body) if self._compressed else body
        for wait in (*_WAITS, None):
            trouble, again = self._post(data)
            if not trouble or not again or wait is None or self._stopped.wait(wait):
                break
        self._state.tell(trouble)
        return not trouble or bool(self.rejected)

    @property
    def rejected(self) -> int:
        """Spans of the last posting that the receiver did not take though it took the others."""
        return self._session.rejected

    def close(self) -> None:
        """Try no more."""
        self._stopped.set()
        self._session.close()

    @cached_property
    def _request(self) -> requests.PreparedRequest:
        """Prepared once, and proxies looked up once: for each posting that would be half of what it costs."""
        session = self._session
        prepared = session.prepare_request(requests.Request("POST", self._url))
        usual = session.merge_environment_settings(self._url, {}, None, None, None)
        session.trust_env = False
        session.proxies.update(usual["proxies"])
        session.verify = self._bundle or usual["verify"]
        return prepared

    def _post(self, data: bytes) -> tuple[str, bool]:
        """What went wrong, or nothing, and whether another try may help."""
        try:
            self._request.prepare_body(data, None)
            answer = self._session.send(self._request, timeout=self._timeout)
        except requests.RequestException as error:
            lost = isinstance(error, requests.ConnectionError) and not isinstance(error, requests.Timeout)
            return self._session.told(error), lost
        return self._session.trouble, answer.status_code in _BUSY


def _setting(env: Mapping[str, str], signal: str, name: str) -> str:
    """One of the usual variables: that of ``TRACES`` or ``METRICS`` before the one of both."""
    return env.get(f"OTEL_EXPORTER_OTLP_{signal}_{name}") or env.get(f"OTEL_EXPORTER_OTLP_{name}") or ""


def _limit(env: Mapping[str, str], signal: str) -> float:
    """Seconds that a posting may take."""
    return float(_setting(env, signal, "TIMEOUT") or _SECONDS)


def _headers(written: str) -> Mapping[str, str]:
    """Headers as the variable has them; what is no header is told of by its place alone."""
    for place, part in enumerate(written.split(","), 1):
        if part.strip() and "=" not in part:
            _log.warning(
                "OTEL_EXPORTER_OTLP_HEADERS: part %d is no header; write each as name=value, commas between",
                place,
            )
    return parse_env_headers(written, liberal=True)
