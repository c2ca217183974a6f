"""The usual variables of OpenTelemetry, as values of settings that have none of their own.

Source: the specification's *Environment Variable Specification* and *OTLP Exporter Configuration*, 1.5x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from gateway.settings import NOWHERE, http_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from gateway.settings import Settings

_SIGNALS: Final = ("traces", "metrics")

_DEFAULT: Final = "http://localhost:4318"
"""Where an exporter that is asked for by its name alone sends to."""

_RATIOS: Final = {
    "always_on": 1.0,
    "always_off": 0.0,
    "parentbased_always_on": 1.0,
    "parentbased_always_off": 0.0,
    "traceidratio": None,
    "parentbased_traceidratio": None,
}
"""By sampler the share of traces begun here that is exported; None where its argument says it."""

_NUMBERS: Final = (
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
)
_WORDS: Final = {
    "OTEL_EXPORTER_OTLP_COMPRESSION": ("gzip", "none"),
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": ("gzip", "none"),
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": ("gzip", "none"),
    "OTEL_METRICS_EXEMPLAR_FILTER": ("trace_based", "always_on", "always_off"),
}


def with_standard(settings: Settings, env: MutableMapping[str, str]) -> tuple[Settings, list[str]]:
    """Settings, with what the usual variables say where nothing of ours does.

    Args:
        settings: As they were given; what was set there wins, but for ``OTEL_SDK_DISABLED``.
        env: The environment. What nobody can use is taken out of it, as the SDK ends the program with some
            of that, and so is ``OTEL_SDK_DISABLED``, with which it would empty ``/metrics``.

    Returns:
        The settings, and a line for each variable that is not followed.
    """
    warnings = [*_unusable(env)]
    given, found = settings.model_fields_set, dict[str, Any]()
    if "service_name" not in given and (name := _service(env)):
        found["service_name"] = name
    if "trace_ratio" not in given:
        found |= _sampler(env, warnings)
    if "otlp_endpoint" not in given:
        for signal in _SIGNALS:
            if f"otlp_{signal}_endpoint" not in given | found.keys():
                found[f"otlp_{signal}_endpoint"] = _receiver(env, signal, warnings)
    propagators = _list(env, "OTEL_PROPAGATORS")
    if propagators and "tracecontext" not in propagators:
        warnings.append("OTEL_PROPAGATORS: traces are continued by W3C's traceparent alone (tracecontext)")
    if _disabled(env, warnings):
        found |= {f"otlp_{signal}_endpoint": NOWHERE for signal in _SIGNALS}
        if any(name.startswith("otlp_") for name in given):
            warnings.append("OTEL_SDK_DISABLED is true: nothing is sent to SPECROUTE_OTLP_…")
    return settings.model_copy(update=found), warnings


def _unusable(env: MutableMapping[str, str]) -> Iterator[str]:
    """Take out of the environment what cannot be used, and say of each what would be right."""
    for name in _NUMBERS:
        if name in env and not _positive(env[name]):
            yield f"{name} is left out: {env.pop(name)!r} is no number above 0"
    for name, words in _WORDS.items():
        if name in env and env[name].strip() and env[name].strip() not in words:
            yield f"{name} is left out: {env.pop(name)!r} is none of {', '.join(words)}"


def _positive(text: str) -> bool:
    try:
        return not text or 0.0 < float(text) < math.inf
    except ValueError:
        return False


def _service(env: Mapping[str, str]) -> str:
    """What the service is called, "" where nothing says it."""
    pairs = [part.partition("=") for part in _list(env, "OTEL_RESOURCE_ATTRIBUTES")]
    among = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    return env.get("OTEL_SERVICE_NAME", "").strip() or among.get("service.name", "")


def _sampler(env: Mapping[str, str], warnings: list[str]) -> dict[str, Any]:
    """The share of traces begun here; a caller's choice is kept whatever the sampler."""
    sampler = env.get("OTEL_TRACES_SAMPLER", "").strip()
    if not sampler:
        return {}
    if sampler not in _RATIOS:
        warnings.append(f"OTEL_TRACES_SAMPLER is left out: {sampler!r} is none of {', '.join(_RATIOS)}")
        return {}
    ratio = _RATIOS[sampler]
    found: dict[str, Any] = {"trace_ratio": _share(env, warnings) if ratio is None else ratio}
    if sampler == "always_off":  # not even those that failed or were slow
        found["otlp_traces_endpoint"] = NOWHERE
    return found


def _share(env: Mapping[str, str], warnings: list[str]) -> float:
    """The sampler's argument; all where it has none that can be used."""
    argument = env.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1"
    try:
        if 0.0 <= (told := float(argument)) <= 1.0:
            return told
    except ValueError:
        pass
    warnings.append(f"OTEL_TRACES_SAMPLER_ARG is left out: {argument!r} is no share from 0 to 1")
    return 1.0


def _receiver(env: Mapping[str, str], signal: str, warnings: list[str]) -> str | None:
    """The whole address that spans or metrics go to."""
    exporters = _list(env, exporter := f"OTEL_{signal.upper()}_EXPORTER")
    strange = [one for one in exporters if one not in {"otlp", "none", "prometheus"}]
    warnings += [f"{exporter}: {one!r} is not there; choose otlp or none" for one in strange]
    if exporters and "otlp" not in exporters:
        return NOWHERE
    own, both = f"OTEL_EXPORTER_OTLP_{signal.upper()}_", "OTEL_EXPORTER_OTLP_"
    whole, base = env.get(f"{own}ENDPOINT", "").strip(), env.get(f"{both}ENDPOINT", "").strip()
    if not whole and not base and not exporters:
        return None
    try:
        address = http_address(whole or base or _DEFAULT)
    except ValueError as error:
        warnings.append(f"{own if whole else both}ENDPOINT is left out: {error}")
        return NOWHERE
    protocol = (env.get(f"{own}PROTOCOL") or env.get(f"{both}PROTOCOL") or "").strip()
    if protocol == "grpc":
        warnings.append(
            f"no {signal} are sent: OTLP goes over HTTP here, not gRPC; let OTEL_EXPORTER_OTLP_PROTOCOL be "
            "http/protobuf and name the receiver's HTTP port, mostly 4318"
        )
        return NOWHERE
    if protocol and protocol != "http/protobuf":
        warnings.append(f"OTEL_EXPORTER_OTLP_PROTOCOL: {signal} are sent as http/protobuf, not {protocol!r}")
    return address if whole else f"{address.rstrip('/')}/v1/{signal}"


def _disabled(env: MutableMapping[str, str], warnings: list[str]) -> bool:
    word = env.pop("OTEL_SDK_DISABLED", "").strip().lower()
    if word not in {"", "true", "false"}:
        warnings.append(f"OTEL_SDK_DISABLED is left out: {word!r} is neither true nor false")
    return word == "true"


def _list(env: Mapping[str, str], name: str) -> list[str]:
    return [word for part in env.get(name, "").split(",") if (word := part.strip())]
