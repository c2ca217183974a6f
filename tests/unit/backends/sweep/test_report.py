from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from backends.sweep.charts import Chart, Point, Series, legend, number, ticks
from backends.sweep.choose import choose
from backends.sweep.fleetplan import plan_fleet
from backends.sweep.model import BASELINE, Candidate
from backends.sweep.panels import sections
from backends.sweep.report import Report
from backends.sweep.words import duration, late_positions, listed, summary
from gateway.policy.evidence import Effort, Evidence, Machine, Range
from tests.unit.backends.sweep.test_choose import (
    ALIKE,
    BASE,
    CONTRAST,
    DFLASH,
    MTP,
    cell,
    crossing,
    evidence,
    table,
)

HOSTILE = "<script>alert('x')</script>|&"


def report(found: Evidence) -> Report:
    choice = choose(found)
    plans = [plan for band in choice.bands if (plan := plan_fleet(found, choice, 8, band.level)) is not None]
    return Report(found, choice, plans, summary(found, choice, plans))


def said(found: Evidence) -> str:
    of = report(found)
    return "\n".join(summary(of.evidence, of.choice, of.plans))


class Page(HTMLParser):
    """Collects the elements of a page and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value for name, value in attributes if name in ("src", "href")]


def rich() -> Evidence:
    cells = [
        one.model_copy(
            update={
                "by_position": ()
                if one.is_baseline
                else tuple(0.5**place for place in range(1, one.draft_tokens + 1)),
                "steps": 0 if one.is_baseline else 900,
                "cost": None if one.is_baseline else 1.4,
                "tpot": Range(value=one.concurrency / one.tokens_per_second.value),
                "ttft_p50": 0.05,
                "ttft_p99": 0.09,
            }
        )
        for level in BASE
        for one in table(CONTRAST, level=level)
    ]
    machine = Machine(
        hardware="AMD Instinct MI300X", accelerators=8, platform="rocm", platform_version="7.2", vllm="0.32.0"
    )
    return evidence(*cells).model_copy(
        update={"machine": machine, "effort": Effort(requests=900, rounds=20, grid_rounds=50, seconds=7200)}
    )


def test_the_page_stands_by_itself_and_has_a_chart_of_everything() -> None:
    page = Page(report(rich()).html())
    assert page.references == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.tags.count("figure") == 6 + 2 + 2 + 3 + 2
    assert page.tags.count("section") == 7


def test_every_chart_is_well_formed() -> None:
    drawn = [chart.svg() for section in sections(rich()) for chart in section.charts]
    assert drawn
    for svg in drawn:
        root = ET.fromstring(svg)  # noqa: S314 - our own text
        numbers = [
            one.get(name) for one in root.iter() for name in ("x", "y", "cx", "cy", "x1", "y1", "x2", "y2")
        ]
        assert all(-1 <= float(value) <= 341 for value in numbers if value is not None)


def test_names_from_files_cannot_become_markup() -> None:
    found = evidence(cell(BASELINE, HOSTILE, 1.0), cell(MTP, HOSTILE, 2.0)).model_copy(
        update={"target": HOSTILE}
    )
    text = report(found).html()
    assert "<script" not in text
    assert "script" not in Page(text).tags
    rows = [line for line in report(found).markdown().splitlines() if line.startswith("| mtp-3")]
    assert rows
    assert rows[0].count("|") == 17


def test_words_say_what_to_run_where_one_configuration_is_the_answer() -> None:
    text = said(evidence(*table(ALIKE)))
    assert text.startswith("Run mtp-3 on every server. One configuration for everything is the answer here")
    assert "Every winner is settled: nothing measured may be faster by more than the precision" in text
    assert "Not sure" not in text


def test_words_say_where_a_mixture_pays() -> None:
    text = said(evidence(*table(CONTRAST)))
    assert "if all servers are to be alike. A mixture, routed by workload, could give up to" in text
    assert "4 of dflash-7 and 4 of mtp-3, which could give 74.4% over 8 of dflash-7." in text


def test_words_say_what_a_baseline_costs_and_what_no_plan_counts() -> None:
    cells = table(ALIKE)
    long = [cell(BASELINE, "code", 1.0, prompt="8k"), cell(MTP, "code", 1.1, prompt="8k")]
    sampled = [cell(BASELINE, "code", 1.0, sampling="sampled")]
    text = said(evidence(*cells, *long, *sampled))
    assert "One of them is better kept without a draft" in text
    assert (
        "at 5% of the output; the figures here are without it." in text
    )  # 1.8 times the baseline, 8 servers
    assert "3 measurements, of code 8k and code sampled, are not in the plan" in text
    assert "not in it" not in said(evidence(*cells))


def test_words_say_that_no_draft_is_worth_it() -> None:
    text = said(evidence(*table({MTP: {"code": 0.8, "chat": 0.9}})))
    assert text.startswith("Run no speculation: no draft is faster beyond noise")


def test_words_say_that_without_intervals_nothing_is_known_to_be_faster() -> None:
    cells = [
        one.model_copy(update={"speedup": Range(value=one.speedup.value)})
        if one.speedup is not None and not one.is_baseline
        else one
        for one in table(ALIKE)
    ]
    text = said(evidence(*cells))
    assert (
        "4 measurements have no interval: their requests were too few, or the file does not list them" in text
    )
    assert "have no interval" not in said(evidence(*table(ALIKE)))


def test_words_say_where_the_fleet_is_of_another_configuration_than_the_best_for_all_loads() -> None:
    low = table({MTP: {"code": 2.0, "chat": 2.0}, DFLASH: {"code": 1.9, "chat": 1.9}}, level=8)
    high = table({MTP: {"code": 1.2, "chat": 1.2}, DFLASH: {"code": 1.25, "chat": 1.25}}, level=32)
    text = said(evidence(*low, *high))
    assert text.startswith("Run mtp-3 on every server, or dflash-7 where there are 32 in flight on each.")


def test_what_is_faster_at_a_load_within_noise_is_said_not_to_be_another_answer() -> None:
    low = table({MTP: {"code": 2.0, "chat": 2.0}, DFLASH: {"code": 1.9, "chat": 1.9}}, level=8)
    near = table({MTP: {"code": 1.2, "chat": 1.2}, DFLASH: {"code": 1.21, "chat": 1.21}}, level=32)
    far = table({MTP: {"code": 1.2, "chat": 1.2}, DFLASH: {"code": 1.25, "chat": 1.25}}, level=32)
    assert "(dflash-7 at 32, where mtp-3 is as fast within noise)." in said(evidence(*low, *near))
    assert "(dflash-7 at 32)." in said(evidence(*low, *far))


def test_every_winner_that_is_not_settled_is_named() -> None:
    names = [f"kind_{number}" for number in range(6)]
    cells = [
        cell(who, one, ratio, width=1.2)
        for one in names
        for who, ratio in ((BASELINE, 1.0), (MTP, 1.6), (DFLASH, 1.5))
    ]
    text = said(evidence(*cells))
    open_ones = [f"{name} at 8: mtp-3, perhaps dflash-7" for name in names]
    assert f"6 of 6 winners are not settled to 3% ({'; '.join(open_ones)})" in text


def test_words_say_that_a_baseline_that_fails_is_no_good_measure() -> None:
    base = cell(BASELINE, "code", 1.0, requests=16, failures=16)
    text = said(evidence(base, cell(MTP, "code", 2.0)))
    assert (
        "16 of 32 requests of the baseline failed (code at 8), so speed-ups over it are not to be relied on"
        in text
    )
    few = cell(BASELINE, "code", 1.0, requests=1000, failures=1)
    assert "of the baseline failed" not in said(evidence(few, cell(MTP, "code", 2.0)))


def test_words_name_the_engines_own_schedule() -> None:
    assert "a schedule of N = 15 up to 5 and 3 up to 512 sequences in the batch" in said(crossing())


def test_words_say_what_is_left_out_and_what_it_took() -> None:
    bad = cell(DFLASH, "code", 3.0, compared=9, different=9, surely_different=0.7)
    found = evidence(cell(BASELINE, "code", 1.0), cell(MTP, "code", 2.0), bad)
    text = said(found.model_copy(update={"failures": {"dspark-7": "no GPU\nfree"}, "effort": rich().effort}))
    assert "Left out: dflash-7: 9 of 9 greedy answers differ" in text
    assert "dspark-7 could not be measured: no GPU." in text
    assert "about 50 rounds: 60% was saved, or 3.0 hours." in text


def test_simulated_figures_are_called_so() -> None:
    found = evidence(*table(ALIKE)).model_copy(update={"machine": Machine(hardware="MI300X", simulated=True)})
    assert "the figures are a simulator's and say nothing of your servers" in said(found)
    assert "none: simulated MI300X" in report(found).markdown()


def test_late_positions_are_those_that_bring_next_to_nothing() -> None:
    survival = (0.8, 0.5, 0.01, 0.01)
    found = evidence(cell(Candidate("dflash", 4), "code", 2.0, by_position=survival))
    position, share = late_positions(found)["dflash-4"]
    assert position == 3
    assert share == pytest.approx(0.02 / 2.32)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 5.0, (0, 1, 2, 3, 4, 5)),
        (0.0, 0.9, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.0, 2300.0, (0, 500, 1000, 1500, 2000, 2500)),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: tuple[float, ...]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_a_single_value_still_has_an_axis() -> None:
    chart = Chart("one", "x", "y", [Series("a", [Point(8, 0.0)], 0)], log_x=True)
    assert ET.fromstring(chart.svg()) is not None  # noqa: S314 - our own text
    assert Chart("none", "x", "y", []).svg() == ""


def test_small_things_read_well() -> None:
    assert (number(25_000), number(0.5)) == ("25k", "0.5")
    assert [duration(one) for one in (1, 30, 600, 7200)] == [
        "1 second",
        "30 seconds",
        "10 minutes",
        "2.0 hours",
    ]
    assert [listed(one) for one in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert listed(["a", "b"], "or") == "a or b"
    assert "a &amp; b" in legend([("a & b", 0)])
