from __future__ import annotations

from typing import Any

import pytest

from gateway.ui import heat, parts

BACKENDS: list[dict[str, Any]] = [
    {
        "name": name, "method": method, "draft_tokens": tokens, "target": "t", "available": True, "unavailable": None,
        "reason": "", "in_flight": 8, "limit": 16, "running": 3, "waiting": 0, "kv_usage": 0.25,
        "load_age_seconds": 0.5,
    }
    for name, method, tokens in (("plain", "none", 0), ("fast", "mtp", 4), ("idle", "dflash", 7))
]  # fmt: skip


def cell(backend: str, **given: Any) -> dict[str, Any]:
    base = {
        "workload": "math", "backend": backend, "method": "mtp", "requests": 12, "failed": 0, "speed": 100.0,
        "first_token": 0.25, "speedup": 1.5,
        "speedup_low": 1.2, "speedup_high": 1.9, "acceptance_rate": 0.5, "mean_accepted_length": 3.0,
    }  # fmt: skip
    return base | given


CELLS = [cell("plain", method="none", speed=50.0, speedup=1.0, acceptance_rate=None), cell("fast")]


def test_the_heat_map_has_a_column_for_each_backend() -> None:
    found = heat.heat_map(CELLS, BACKENDS, "speed")
    assert found.count('scope="col"') == 3
    assert '<td class="up0">50<small>12 requests</small></td>' in found
    assert '<td class="up9">100<small>12 requests</small></td>' in found
    assert "no requests" in found


@pytest.mark.parametrize(
    ("speedup", "level"), [(1.0, "up0"), (1.5, "up4"), (4.0, "up9"), (0.5, "down4"), (None, "")]
)
def test_gains_are_above_or_below_one(speedup: float | None, level: str) -> None:
    found = heat.heat_map([cell("fast", speedup=speedup)], BACKENDS, "gain")
    assert f'<td class="{level}">' in found
    assert ("too few" in found) == (speedup is None)
    assert "12 request" not in found  # those of the window are not those that the gain rests on


def test_one_request_is_one() -> None:
    assert "<small>1 request</small>" in heat.heat_map([cell("fast", requests=1)], BACKENDS, "speed")


def test_acceptance_says_how_long_steps_are_and_that_a_baseline_has_none() -> None:
    found = heat.heat_map(CELLS, BACKENDS, "acceptance")
    assert "50\u202f%<small>12 requests, 3.00 tokens a step" in found
    assert "baseline" in found


def test_the_slowest_first_token_is_the_reddest_and_failures_are_told() -> None:
    slow = cell("fast", first_token=1.25, failed=3)
    found = heat.heat_map([cell("plain"), slow], BACKENDS, "first_token")
    assert '<td class="down0">250\u202fms<small>12 requests</small></td>' in found
    assert '<td class="down9">1\u202f250\u202fms<small>12 requests, 3 failed</small></td>' in found


def test_one_speed_alone_is_neither_fast_nor_slow() -> None:
    assert 'class="up4"' in heat.heat_map([cell("fast")], BACKENDS, "speed")
    assert 'class="up0"' in heat.heat_map(
        [cell("fast", acceptance_rate=0.0), cell("idle")], BACKENDS, "acceptance"
    )


def test_one_of_several_workers_says_so() -> None:
    assert parts.share(1) == ""
    assert "One of 4 worker processes" in parts.share(4)


def test_no_traffic_is_said() -> None:
    assert "No request has ended" in heat.heat_map([], BACKENDS, "speed")
    assert "No answer has told" in parts.positions([])


def test_positions_are_a_table_with_as_many_columns_as_the_longest_draft() -> None:
    rows = [
        {"backend": "a", "method": "mtp", "draft_tokens": 1, "shares": [0.9]},
        {"backend": "b", "method": "dflash", "draft_tokens": 3, "shares": [0.8, 0.5, 0.25]},
    ]
    found = parts.positions(rows)
    assert found.count('scope="col"') == 4
    assert found.count("<td>") + found.count("<td></td>") >= 6
    assert "25\u202f%" in found


def test_a_backend_that_is_out_says_why() -> None:
    out = BACKENDS[0] | {
        "available": False, "unavailable": "breaker_open", "reason": "it failed <too> often", "limit": 0,
        "running": None, "waiting": None, "kv_usage": None, "load_age_seconds": None,
    }  # fmt: skip
    found = parts.fleet([out, BACKENDS[1]])
    assert '<span class="tag bad">breaker open</span>' in found
    assert "it failed &lt;too&gt; often" in found
    assert "never" in found
    assert "0.5 s ago" in found


def test_a_policy_that_was_kept_shows_the_mistake() -> None:
    status = {"revision": "r", "fleet_revision": "f", "routes": ["a", "b"], "problems": [], "warnings": []}
    assert "in force" in parts.policy(status)
    found = parts.policy(status | {"problems": [{"text": "policy.yaml:3:1: <what>"}]})
    assert "last good policy" in found
    assert "policy.yaml:3:1: &lt;what&gt;" in found


def test_advice_is_said_in_words_and_roles_are_listed() -> None:
    silent = {"mode": "static", "roles": {}, "statements": {}}
    assert "does not decide" in parts.advice(silent)
    assert "<ul>" not in parts.advice(silent)
    found = parts.advice(
        {
            "mode": "auto",
            "roles": {"org/T": {"bulk": ["a", "b"]}},
            "statements": {"org/T": ["consolidate on <b>"]},
        }
    )
    assert "<strong>bulk</strong> a, b" in found
    assert "consolidate on &lt;b&gt;" in found


def test_numbers_that_are_not_known_are_dashes() -> None:
    keys = (
        "requests_per_second", "failed_share", "open", "waiting", "stream_speed", "output_tokens_per_second",
        "first_token", "client_first_token", "acceptance_rate", "gain_over_baseline", "gain_over_best",
    )  # fmt: skip
    found = parts.totals(dict.fromkeys(keys))
    assert found.count("<strong>–</strong>") == 7
    assert "12\u202f345" in parts.totals(dict.fromkeys(keys) | {"output_tokens_per_second": 12345.4})


def test_a_large_fleet_shows_the_busiest_and_first_those_that_are_out() -> None:
    many = [BACKENDS[1] | {"name": f"b{number}", "available": number != 150} for number in range(200)]
    cells = [cell(f"b{number}", requests=number + 1) for number in range(200)]
    found = heat.heat_map(cells, many, "speed")
    assert found.count('scope="col"') == 16
    assert "16 of 200 backends, the busiest." in found
    table = parts.fleet(many)
    assert table.index("b150") < table.index(">b0<")
    assert "100 of 200 backends, those that are out first." in table
