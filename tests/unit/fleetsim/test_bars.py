"""The bench's own arithmetic: what a peer is, and what a bar says of the cells it is the worst of."""

import pytest
from rich.console import Console

from backends.fleetsim.traffic import MIXES
from tests.bench.routing import bars, fleets, report
from tests.bench.routing.jobs import limits_of
from tests.bench.routing.peers import best_pool, static_table


def test_a_static_table_goes_by_each_targets_own_calibration_point():
    kimi = fleets.fleet("one of each", "K25")
    assert static_table(kimi, MIXES["equal"]).table["chat"] == [3]  # at 32 requests it would be [2]
    gemma = fleets.fleet("one of each", "G26")
    assert static_table(gemma, MIXES["equal"]).table["chat"] == [1]  # at 16 it would be [3]
    assert best_pool(fleets.fleet("mixed N", "K25"), MIXES["equal"]).table["chat"] == [1]  # at 32, [0]


def test_limits_are_a_step_at_the_calibration_point():
    assert limits_of("K25").tpot == fleets.engine("K25", "none", 0).seconds[16]
    assert limits_of("V4").tpot == fleets.engine("V4", "none", 0).seconds[32]


def closed(tokens, share):
    return {"tokens": tokens, "share": share}


FIGURES = {
    "A sick 8": {"learned": [closed(99.0, 0.99)], "least requests": [closed(90.0, 0.90)]},
    "B sick 8": {"learned": [closed(98.0, 0.98)], "least requests": [closed(96.0, 0.96)]},
}


def test_a_bar_names_its_worst_cell_and_what_the_optimum_would_have_there():
    (sick, *_) = [one for one in bars.judge_hardware(FIGURES) if "one sick" in one.what]
    assert (sick.cell, sick.value, sick.least, sick.met) == ("A sick 8", 99.0 / 90.0, 1.05, True)
    assert sick.ceiling == pytest.approx(1 / 0.90)


def test_where_the_optimum_is_below_the_bar_nearly_all_of_it_is_asked_for():
    (_, sick) = [one for one in bars.judge_hardware(FIGURES) if "one sick" in one.what]
    assert (sick.cell, sick.least, sick.met) == ("B sick 8", 0.99, False)
    assert sick.value == pytest.approx(98.0 / 96.0 * 0.96)
    assert sick.ceiling == pytest.approx(1 / 0.96)


def test_a_figure_that_is_no_ratio_has_no_ceiling():
    (share,) = [one for one in bars.judge_hardware(FIGURES) if "share" in one.what]
    assert (share.cell, share.ceiling) == ("B sick 8", None)


def test_of_what_is_to_be_low_the_highest_cell_is_named():
    figures = {cell: {"learned": [{"off": off}]} for cell, off in (("low", 0.01), ("high", 0.04))}
    (off, *_) = bars.most("off", bars.over(figures, "learned", "off"), 0.03)
    assert (off.cell, off.met) == ("high", False)


@pytest.mark.parametrize(
    ("value", "at_most", "met"),
    [(1.0296, False, True), (1.0294, False, False), (1.0304, True, True), (1.0306, True, False)],
)
def test_a_figure_is_held_against_its_bar_as_it_is_shown(value, at_most, met):
    assert bars.Criterion("share", value, 1.03, at_most=at_most).met is met


def test_the_table_shows_the_cell_and_its_ceiling():
    (_, sick) = [one for one in bars.judge_hardware(FIGURES) if "one sick" in one.what]
    row = {**vars(sick), "met": sick.met, "reached": False}
    found = report.table([{"bar": 9, "title": "", "complete": "", "criteria": [row]}])
    with (console := Console(width=150)).capture() as printed:
        console.print(found)
    assert "B sick 8" in printed.get()
    assert "1.042" in printed.get()
