from __future__ import annotations

import re

import pytest

from gateway.core.features import ENDPOINTS
from gateway.telemetry import names

ALL = (*names.METRICS, *names.GENAI["0.1.0"].metrics, *names.GENAI["1.41"].metrics)
ATTRIBUTES = [value for value in vars(names).values() if isinstance(value, names.Attribute)]


def test_every_metric_of_the_module_is_in_the_table() -> None:
    assert {value for value in vars(names).values() if isinstance(value, names.Metric)} - {
        names._TOKENS_OLD
    } == set(names.METRICS)


def test_every_attribute_of_the_module_is_on_a_span_or_a_label() -> None:
    on_events = {names.FAILOVER_FROM, names.FAILOVER_TO, names.QUEUED_SECONDS}
    assert set(ATTRIBUTES) == {*names.SERVER_SPAN, *names.ATTEMPT_SPAN, *on_events, names.GEN_AI_TOKEN_TYPE}


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_an_entry_is_whole(metric: names.Metric) -> None:
    assert metric.kind in {names.COUNTER, names.GAUGE, names.HISTOGRAM}
    assert metric.help.endswith(".")
    assert (metric.kind == names.HISTOGRAM) == bool(metric.buckets)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    known = {*names.LABELS, *(attribute.name for attribute in ATTRIBUTES)}
    assert set(metric.labels) <= known


def test_every_label_that_is_explained_is_used() -> None:
    assert set(names.LABELS) == {label for metric in names.METRICS for label in metric.labels}


def test_names_are_unique_and_never_those_of_the_engine() -> None:
    for metrics in names.METRICS, names.GENAI["0.1.0"].metrics, names.GENAI["1.41"].metrics:
        assert len({metric.prometheus for metric in metrics}) == len(metrics)
    assert len({attribute.name for attribute in ATTRIBUTES}) == len(ATTRIBUTES)
    assert all(re.fullmatch(r"(specroute|gen_ai)\.[a-z_.]+", metric.name) for metric in ALL)


def test_our_own_facts_stay_out_of_the_conventions_namespace() -> None:
    assert all(metric.name.startswith("specroute.") for metric in names.METRICS)


def test_tpot_buckets_reach_from_a_fraction_of_a_millisecond_to_seconds() -> None:
    assert names.TPOT.buckets[0] < 0.001
    assert names.TPOT.buckets[-1] > 1.0


def test_the_versions_of_the_conventions_differ_where_they_were_renamed() -> None:
    old, new = ({metric.name for metric in names.GENAI[version].metrics} for version in ("1.41", "0.1.0"))
    assert old & new == {
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
    }
    assert "gen_ai.client.token.usage" in old
    assert "gen_ai.client.inference.duration" in new


def test_operations_are_of_known_endpoints() -> None:
    assert set(names.OPERATIONS) <= set(ENDPOINTS)
