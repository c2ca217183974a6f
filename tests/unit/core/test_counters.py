from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.core.counters import Counters, Window, between, parse_counters, restarted

FIXTURES = Path(__file__).parents[2] / "fixtures" / "vllm" / "metrics"
TWO_ENGINES = b"""\
vllm:spec_decode_num_drafts_total{engine="0",model_name="t"} 10
vllm:spec_decode_num_drafts_total{engine="1",model_name="t"} 30
vllm:spec_decode_num_drafts_created{engine="0",model_name="t"} 100
vllm:spec_decode_num_drafts_created{engine="1",model_name="t"} 103.5
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="t"} 20
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="t"} 60
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="t"} 9
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="t"} 1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="t",position="0"} 6
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="t",position="1"} 3
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="t",position="0"} 1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="t",position="1"} 0
vllm:generation_tokens_total{engine="0",model_name="t"} 20
vllm:generation_tokens_total{engine="1",model_name="t"} 31
"""
PROCESS_STARTED = 1.79598781443e09
COUNTED = Counters(5.0, 40.0, 80.0, 10.0, (7.0, 3.0), 51.0, 103.5)


def page(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def test_counters_are_summed_over_engines() -> None:
    assert parse_counters(TWO_ENGINES, 5.0) == COUNTED


def test_a_real_page_is_read() -> None:
    found = parse_counters(page("draft_model.prom"), 1.0)
    assert (found.drafts, found.drafted, found.accepted) == (410, 1230, 790)
    assert found.by_position == (320, 247, 223)
    assert found.generated == 1200
    assert found.started == pytest.approx(1_795_989_839.0494, abs=1)
    assert found.speculates
    assert (found.steps, found.iterations, found.computed) == (410, 414, 12)
    assert found.step_seconds == pytest.approx(2.4416, abs=1e-4)


def test_what_a_baseline_does_not_count_is_not_zero() -> None:
    found = parse_counters(page("none.prom"), 1.0)
    assert (found.drafts, found.accepted, found.by_position) == (None, None, ())
    assert not found.speculates
    assert found.generated is not None


def test_a_page_without_the_counters_own_start_tells_that_of_the_process() -> None:
    lines = page("none.prom").splitlines(keepends=True)
    born = b"".join(line for line in lines if b"_created" not in line)
    assert parse_counters(born, 1.0).started == pytest.approx(PROCESS_STARTED)
    assert parse_counters(page("none.prom"), 1.0).started > PROCESS_STARTED
    odd = b"process_start_time_seconds nan\n"
    assert parse_counters(odd, 1.0).started is None


def test_a_server_with_two_front_ends_does_not_say_when_it_started() -> None:
    found = parse_counters(page("two-api-servers.prom"), 1.0)
    assert found.speculates
    assert found.started is None


def test_names_without_total_are_the_same() -> None:
    old = TWO_ENGINES.replace(b"_total{", b"{")
    assert parse_counters(old, 5.0) == COUNTED


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"many"])
def test_what_is_no_number_is_not_there(value: bytes) -> None:
    assert parse_counters(b"vllm:generation_tokens_total " + value + b"\n", 1.0) == Counters(1.0)


def test_a_window_is_what_was_added() -> None:
    later = Counters(15.0, 44.0, 88.0, 16.0, (11.0, 5.0), 61.0, 103.5)
    window = between(COUNTED, later)
    assert window == Window(5.0, 15.0, 4.0, 8.0, 6.0, (4.0, 2.0), 10.0)
    assert window.mean_accepted_length == 2.5


def test_a_baseline_has_no_window_of_drafts() -> None:
    assert between(Counters(1.0, generated=1.0), Counters(2.0, generated=5.0)) is None


def test_without_a_draft_there_is_no_length() -> None:
    window = between(COUNTED, replace(COUNTED, at=6.0))
    assert window is not None
    assert window.mean_accepted_length is None


@pytest.mark.parametrize(
    "after",
    [
        replace(COUNTED, started=200.0),  # started anew, and by now past the old totals
        replace(COUNTED, started=None, accepted=1.0),
        replace(COUNTED, by_position=(7.0, 3.0, 0.0)),  # another N
        replace(COUNTED, drafts=None),
        replace(COUNTED, drafted=None),
        replace(COUNTED, accepted=None),
        replace(COUNTED, generated=None),
        replace(COUNTED, generated=50.0),
    ],
)
def test_a_restart_or_a_gap_is_no_window(after: Counters) -> None:
    assert between(COUNTED, after) is None


@pytest.mark.parametrize(
    ("after", "anew"),
    [
        (replace(COUNTED, drafts=99.0), False),
        (replace(COUNTED, generated=None), False),  # missing is not zero
        (replace(COUNTED, started=None), False),
        (replace(COUNTED, started=104.0), True),
        (replace(COUNTED, generated=1.0), True),
        (replace(COUNTED, by_position=(7.0,)), True),
        (Counters(6.0, generated=60.0), True),
        # Pages that are empty, or cut short, or without what counts drafts.
        (Counters(6.0), False),
        (Counters(6.0, started=104.0), False),
        (Counters(6.0, drafts=44.0, drafted=88.0, accepted=16.0, by_position=(11.0,), started=104.0), False),
        (replace(COUNTED, drafts=None), False),
        (replace(COUNTED, by_position=()), False),
        (Counters(6.0, generated=60.0, by_position=(9.0, 4.0)), False),
    ],
)
def test_a_restart_is_told_from_a_gap(after: Counters, anew: bool) -> None:
    assert restarted(COUNTED, after) is anew


def test_a_decrease_is_a_restart_where_nothing_tells_when_it_started() -> None:
    silent = replace(COUNTED, started=None)
    assert between(silent, replace(silent, accepted=9.0)) is None
    assert between(silent, silent) is not None


@pytest.mark.parametrize(
    ("counters", "whole"),
    [
        (COUNTED, True),
        (Counters(1.0, generated=0.0), True),
        (Counters(1.0), False),
        (replace(COUNTED, generated=None), False),
        (replace(COUNTED, drafts=None), False),
        (replace(COUNTED, drafted=None), False),
        (replace(COUNTED, accepted=None), False),
        (replace(COUNTED, by_position=()), False),
        (Counters(1.0, generated=0.0, by_position=(1.0,)), False),
    ],
)
def test_a_page_is_whole_with_all_that_is_counted_from_the_start_on(counters: Counters, whole: bool) -> None:
    assert counters.whole is whole


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.prom")))
def test_the_pages_of_real_servers_are_whole(name: str) -> None:
    assert parse_counters(page(name), 1.0).whole
