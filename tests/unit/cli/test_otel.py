"""Standard variables of OpenTelemetry: what each does, what wins, and what is said of those not followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli.otel import with_standard
from gateway.settings import Settings

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
BOTH = ("http://c:4318/v1/traces", "http://c:4318/v1/metrics")


def asked(env: dict[str, str], **given: Any) -> tuple[Settings, list[str]]:
    return with_standard(Settings(fleet=Path("f"), policy=Path("p"), **given), env)


def receivers(settings: Settings) -> tuple[str | None, str | None]:
    return settings.receiver("traces"), settings.receiver("metrics")


def test_nothing_set_changes_nothing() -> None:
    plain = Settings(fleet=Path("f"), policy=Path("p"))
    assert asked({}) == (plain, [])
    # Empty is as good as not set, says the specification.
    names = ("SERVICE_NAME", "SDK_DISABLED", "TRACES_SAMPLER", "TRACES_EXPORTER", "EXPORTER_OTLP_ENDPOINT")
    numbers = ("BSP_MAX_QUEUE_SIZE", "EXPORTER_OTLP_COMPRESSION", "PROPAGATORS", "RESOURCE_ATTRIBUTES")
    assert asked({f"OTEL_{name}": "" for name in names + numbers}) == (plain, [])


@pytest.mark.parametrize(
    ("env", "found"),
    [
        (BASE, BOTH),
        (BASE | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, BOTH),
        (BASE | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1/in"}, ("http://t:1/in", BOTH[1])),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m:1/in"}, (None, "http://m:1/in")),
        (BASE | {"OTEL_TRACES_EXPORTER": "none"}, (None, BOTH[1])),
        (BASE | {"OTEL_METRICS_EXPORTER": "none"}, (BOTH[0], None)),
        (BASE | {"OTEL_METRICS_EXPORTER": "prometheus"}, (BOTH[0], None)),
        (BASE | {"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, BOTH),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ("http://localhost:4318/v1/traces", None)),
        (BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, BOTH),
        (BASE | {"OTEL_SDK_DISABLED": "True"}, (None, None)),
        (BASE | {"OTEL_SDK_DISABLED": "false"}, BOTH),
        (BASE | {"OTEL_TRACES_SAMPLER": "always_off"}, (None, BOTH[1])),
    ],
)
def test_where_spans_and_metrics_go(env: dict[str, str], found: tuple[str | None, str | None]) -> None:
    settings, warnings = asked({**env})
    assert receivers(settings) == found
    assert warnings == []


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio"),
    [
        ("always_on", "", 1.0),
        ("always_off", "", 0.0),
        ("parentbased_always_on", "", 1.0),
        ("parentbased_always_off", "", 0.0),
        ("traceidratio", "0.25", 0.25),
        ("parentbased_traceidratio", "0.5", 0.5),
        ("traceidratio", "", 1.0),
    ],
)
def test_samplers_are_shares_of_the_traces_begun_here(sampler: str, argument: str, ratio: float) -> None:
    settings, warnings = asked({"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument})
    assert settings.trace_ratio == ratio
    assert warnings == []


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"OTEL_SERVICE_NAME": "edge"}, "edge"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "team=a,service.name=my%20edge"}, "my edge"),
        ({"OTEL_SERVICE_NAME": "edge", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other"}, "edge"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "team=a"}, "specroute"),
    ],
)
def test_the_service_has_the_name_it_was_given(env: dict[str, str], name: str) -> None:
    assert asked(env)[0].service_name == name


def test_what_is_set_here_wins() -> None:
    env = BASE | {
        "OTEL_SERVICE_NAME": "edge",
        "OTEL_TRACES_SAMPLER": "always_off",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
    }
    own = {"service_name": "own", "trace_ratio": 0.2, "otlp_endpoint": "http://own:1"}
    settings, warnings = asked(env, **own)
    assert (settings.service_name, settings.trace_ratio) == ("own", 0.2)
    assert receivers(settings) == ("http://own:1/v1/traces", "http://own:1/v1/metrics")
    assert warnings == []


def test_one_signal_of_our_own_leaves_the_other_to_the_usual_variables() -> None:
    settings, _ = asked({**BASE}, otlp_traces_endpoint="http://own:1/in")
    assert receivers(settings) == ("http://own:1/in", BOTH[1])


def test_disabled_wins_over_everything_and_says_so() -> None:
    env = {"OTEL_SDK_DISABLED": "true"}
    settings, warnings = asked(env, otlp_endpoint="http://own:1")
    assert receivers(settings) == (None, None)
    assert warnings == ["OTEL_SDK_DISABLED is true: nothing is sent to SPECROUTE_OTLP_…"]
    assert env == {}, "the SDK would make nothing of all metrics, those of /metrics too"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many", "is left out: 'many' is no number above 0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "is left out: '0' is no number above 0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", " ", "is left out: ' ' is no number above 0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1", "is left out: '-1' is no number above 0"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "inf", "is left out: 'inf' is no number above 0"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "br", "is left out: 'br' is none of gzip, none"),
        (
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "all",
            "is left out: 'all' is none of trace_based, always_on, always_off",
        ),
    ],
)
def test_what_nobody_can_use_is_taken_out_and_told(name: str, value: str, said: str) -> None:
    env = {name: value}
    assert asked(env)[1] == [f"{name} {said}"]
    assert env == {}


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (
            BASE | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
            "no traces are sent: OTLP goes over HTTP here",
        ),
        (BASE | {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"}, "metrics are sent as http/protobuf"),
        (BASE | {"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: 'zipkin' is not there"),
        (
            BASE | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "c:4318"},
            "TRACES_ENDPOINT is left out: it is no HTTP",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
            "OTEL_TRACES_SAMPLER is left out: 'jaeger_remote' is none",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5"},
            "OTEL_TRACES_SAMPLER_ARG is left out: '5' is no share",
        ),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "x"},
            "OTEL_TRACES_SAMPLER_ARG is left out: 'x' is no share",
        ),
        ({"OTEL_PROPAGATORS": "b3"}, "OTEL_PROPAGATORS: traces are continued by W3C's traceparent alone"),
        ({"OTEL_SDK_DISABLED": "yes"}, "OTEL_SDK_DISABLED is left out: 'yes' is neither true nor false"),
    ],
)
def test_what_is_not_followed_is_told_once(env: dict[str, str], said: str) -> None:
    (warning,) = asked({**env})[1]
    assert said in warning


def test_where_the_protocol_is_grpc_nothing_is_posted() -> None:
    settings, warnings = asked(BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert receivers(settings) == (None, None)
    assert len(warnings) == 2


def test_an_address_that_may_hold_a_password_is_not_repeated() -> None:
    _, warnings = asked({"OTEL_EXPORTER_OTLP_ENDPOINT": "user:secret@collector"})
    assert len(warnings) == 2
    assert "secret" not in "".join(warnings)
