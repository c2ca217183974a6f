from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gateway.core.outcome import Trace
from gateway.telemetry import names, openmetrics
from gateway.telemetry.histograms import _taken
from gateway.telemetry.setup import Telemetry, setup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.core.outcome import Record

SCRAPER = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"


@pytest.fixture
def telemetry(receiver: Any) -> Iterator[Telemetry]:
    found = setup(traces_to=f"{receiver.endpoint}/v1/traces", metrics_to=f"{receiver.endpoint}/v1/metrics")
    yield found
    found.close()


def exemplars(
    telemetry: Telemetry, name: str = "specroute_ttft_seconds_bucket"
) -> dict[str, tuple[str, float]]:
    """Trace and measurement by upper bound."""
    text = telemetry.page(SCRAPER)[0].decode()
    return {
        sample.labels["le"]: (sample.exemplar.labels["trace_id"], sample.exemplar.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and sample.exemplar
    }


def test_the_format_is_the_one_that_is_asked_for(telemetry: Telemetry, record: Record) -> None:
    telemetry.on_record(record)
    page, kind = telemetry.page(SCRAPER)
    assert kind == openmetrics.CONTENT_TYPE
    assert page.endswith(b"# EOF\n")
    page, kind = telemetry.page("text/plain")
    assert kind == telemetry.content_type
    assert b"# EOF" not in page
    assert b"trace_id" not in page


def test_a_bucket_leads_to_the_last_request_in_it(telemetry: Telemetry, record: Record) -> None:
    slow = replace(record.outcome, ttft=7.0)
    telemetry.on_record(record)
    telemetry.on_record(replace(record, trace=Trace("e" * 32, "f" * 16)))
    telemetry.on_record(replace(record, outcome=slow))
    assert exemplars(telemetry) == {"0.5": ("e" * 32, 0.5), "10.0": ("a" * 32, 7.0)}


def test_an_export_takes_no_exemplar_from_the_page(telemetry: Telemetry, record: Record) -> None:
    telemetry.on_record(record)
    ((_, series),) = telemetry._histograms._measured(names.TTFT)
    assert [exemplar.trace_id for exemplar in _taken(series)] == [int("a" * 32, 16)]
    assert _taken(series) == []
    assert exemplars(telemetry) == {"0.5": ("a" * 32, 0.5)}
    telemetry.on_record(record)
    assert len(_taken(series)) == 1


def test_what_is_not_traced_is_no_exemplar(telemetry: Telemetry, record: Record) -> None:
    telemetry.on_record(replace(record, trace=replace(record.trace, sampled=False)))
    assert exemplars(telemetry) == {}
    untraced = setup()
    untraced.on_record(record)
    assert exemplars(untraced) == {}


def test_both_formats_have_the_same_numbers(telemetry: Telemetry, record: Record) -> None:
    telemetry.on_record(record)
    text, _ = telemetry.page("")
    names = {line.split("{")[0].split(" ")[0] for line in text.decode().splitlines() if line[:1] != "#"}
    shown = {
        sample.name
        for family in text_string_to_metric_families(telemetry.page(SCRAPER)[0].decode())
        for sample in family.samples
    }
    assert names == shown
