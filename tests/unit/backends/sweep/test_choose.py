from __future__ import annotations

import pytest

from backends.sweep.choose import NothingMeasuredError, choose, load_bands
from backends.sweep.fleetplan import plan_fleet
from backends.sweep.model import BASELINE, Candidate
from backends.sweep.words import summary
from backends.sweep.write import changed_by_requests, fleet, policy
from gateway.core.fleet import Snapshot
from gateway.policy.evidence import Evidence, Measurement, Range
from gateway.policy.load import Loaded, load, load_policy

TARGET = "some/model"
WIDTH = 1.02
BASE = {1: 50.0, 8: 380.0, 32: 1200.0}
MTP, DFLASH = Candidate("mtp", 3), Candidate("dflash", 7)


def cell(
    who: Candidate, workload: str, ratio: float, *, level: int = 8, width: float = WIDTH, **more
) -> Measurement:
    rate = BASE[level] * ratio
    return Measurement(
        **{
            "method": who.method,
            "draft_tokens": who.draft_tokens,
            "workload": workload,
            "concurrency": level,
            "requests": 64,
            "tokens_per_second": Range(value=rate, low=rate / width, high=rate * width),
            "speedup": Range(value=ratio, low=ratio / width, high=ratio * width),
            "output_tokens": 200.0,
            **more,
        }
    )


def evidence(*cells: Measurement) -> Evidence:
    return Evidence(version=1, source="test", target=TARGET, measured="2026-01-01", measurements=cells)


def table(speedups: dict[Candidate, dict[str, float]], *, level: int = 8) -> list[Measurement]:
    workloads = next(iter(speedups.values()))
    base = [cell(BASELINE, name, 1.0, level=level, width=1.0) for name in workloads]
    return base + [
        cell(who, name, value, level=level) for who, by in speedups.items() for name, value in by.items()
    ]


CONTRAST = {MTP: {"code": 3.0, "chat": 1.2}, DFLASH: {"code": 1.2, "chat": 3.0}}
ALIKE = {MTP: {"code": 2.0, "chat": 1.6}, DFLASH: {"code": 1.5, "chat": 1.58}}


def test_the_fastest_wins_and_those_that_may_be_as_fast_are_named() -> None:
    found = choose(evidence(*table(ALIKE)))
    code, chat = found.winner("code", 8), found.winner("chat", 8)
    assert code is not None
    assert chat is not None
    assert (code.candidate, code.tied, code.uncertain) == (MTP, (), False)
    assert (chat.candidate, chat.tied) == (MTP, (DFLASH,))
    assert found.everywhere == MTP
    assert not found.mixing_pays
    assert found.workloads == ("code", "chat")
    assert found.winner("math", 8) is None


def test_the_baseline_wins_where_nothing_is_faster_beyond_noise() -> None:
    found = choose(evidence(cell(BASELINE, "code", 1.0, width=1.0), cell(MTP, "code", 1.03, width=1.05)))
    code = found.winner("code", 8)
    assert code is not None
    assert code.candidate == BASELINE
    assert code.tied == (MTP,)
    assert code.uncertain


def test_mixing_pays_where_each_workload_has_another_winner_by_far() -> None:
    found = choose(evidence(*table(CONTRAST)))
    assert found.mixing_pays
    (single,) = found.singles
    assert single.loss > 0.3


def test_a_mix_weighs_the_workloads() -> None:
    assert choose(evidence(*table(CONTRAST)), {"code": 9.0, "chat": 1.0}).everywhere == MTP
    assert choose(evidence(*table(CONTRAST)), {"code": 1.0, "chat": 9.0}).everywhere == DFLASH


def test_a_draft_that_changes_the_text_is_not_chosen_and_said() -> None:
    fast = cell(MTP, "code", 3.0, compared=20, different=15, surely_different=0.5)
    found = choose(evidence(cell(BASELINE, "code", 1.0), fast, cell(DFLASH, "code", 1.5)))
    code = found.winner("code", 8)
    assert code is not None
    assert code.candidate == DFLASH
    (left_out,) = found.excluded
    assert left_out.candidate == MTP
    assert "15 of 20 greedy answers differ" in left_out.why


def test_a_server_that_fails_is_not_chosen_and_said() -> None:
    found = choose(
        evidence(cell(BASELINE, "code", 1.0), cell(MTP, "code", 3.0, failures=4), cell(DFLASH, "code", 1.5))
    )
    assert found.everywhere == DFLASH
    assert "4 of 68 requests failed" in found.excluded[0].why


@pytest.mark.parametrize(
    "cells", [(), (cell(BASELINE, "code", 1.0),), (cell(MTP, "code", 1.0, speedup=None),)]
)
def test_nothing_to_choose_from_is_said(cells: tuple[Measurement, ...]) -> None:
    with pytest.raises(NothingMeasuredError, match="measure the baseline and a configuration alike"):
        choose(evidence(*cells))


def test_only_what_was_measured_of_the_baseline_too_decides() -> None:
    with pytest.raises(NothingMeasuredError):
        choose(evidence(cell(BASELINE, "code", 1.0), cell(MTP, "code", 2.0, sampling="sampled")))


def test_sampled_answers_decide_where_nothing_else_was_measured() -> None:
    cells = [cell(BASELINE, "code", 1.0, sampling="sampled"), cell(MTP, "code", 2.0, sampling="sampled")]
    found = choose(evidence(*cells))
    assert found.everywhere == MTP
    code = found.winner("code", 8)
    assert code is not None
    assert (code.candidate, code.sampling) == (MTP, "sampled")
    assert plan(evidence(*cells)).chosen.servers == {MTP: 8}


LONG = [
    cell(BASELINE, "code", 1.0, prompt="8k", output_tokens=400.0),
    cell(MTP, "code", 1.1, prompt="8k", output_tokens=400.0),
    cell(DFLASH, "code", 2.5, prompt="8k", output_tokens=400.0),
]


def test_long_prompts_weigh_as_much_as_short_ones_of_a_workload_if_nothing_else_is_said() -> None:
    cells = [*table({MTP: {"code": 2.0}, DFLASH: {"code": 1.8}}), *LONG]
    found = choose(evidence(*cells))
    assert found.everywhere == DFLASH
    assert [one.label for one in found.works] == ["code", "code 8k"]
    assert plan(evidence(*cells)).homogeneous.servers == {DFLASH: 8}
    mostly_short = {"code": 50.0, "code 8k": 1.0}
    assert choose(evidence(*cells), mostly_short).everywhere == MTP
    planned = plan_fleet(evidence(*cells), choose(evidence(*cells), mostly_short), 8, 8, mostly_short)
    assert planned is not None
    assert planned.homogeneous.servers == {MTP: 8}
    assert planned.shares.keys() == {"code"}


def test_without_a_draft_for_all_kinds_of_requests_short_and_greedy_ones_decide() -> None:
    cells = [*table({MTP: {"code": 2.0}}), cell(BASELINE, "code", 1.0, prompt="8k"), LONG[2]]
    found = choose(evidence(*cells))
    assert found.everywhere == MTP
    assert [one.label for one in found.works] == ["code"]
    planned = plan(evidence(*cells))
    assert planned.chosen.servers == {MTP: 8}
    said = " ".join(summary(evidence(*cells), found, [planned]))
    assert "2 measurements, of code 8k, are not in the plan" in said


def test_bands_part_at_geometric_means() -> None:
    assert list(map(str, load_bands([32, 1, 8]))) == ["1–2", "3–16", "17 and more"]
    assert list(map(str, load_bands([8]))) == ["1 and more"]


def crossing() -> Evidence:
    short, long = Candidate("dflash", 3), Candidate("dflash", 15)
    return evidence(
        *table({long: {"code": 3.0}, short: {"code": 2.0}}, level=1),
        *table({long: {"code": 0.8}, short: {"code": 1.5}}, level=32),
    )


def test_a_draft_whose_best_length_falls_with_the_load_gets_a_schedule() -> None:
    found = choose(crossing())
    assert found.schedule == ((1, 5, 15), (6, 512, 3))
    flat = choose(evidence(*table({MTP: {"code": 2.0}}, level=1), *table({MTP: {"code": 1.5}}, level=32)))
    assert flat.schedule == ()


def plan(found: Evidence, servers: int = 8, load: int = 8):
    planned = plan_fleet(found, choose(found), servers, load)
    assert planned is not None
    return planned


def test_one_configuration_is_planned_where_a_mixture_gives_little() -> None:
    found = plan(evidence(*table(ALIKE)))
    assert found.is_homogeneous
    assert found.chosen.servers == {MTP: 8}
    assert found.gain < 0.03
    # Eight servers give eight times what one gives.
    each = 2 / (1 / 2.0 + 1 / 1.6) * BASE[8]
    assert found.chosen.tokens_per_second == pytest.approx(8 * each, rel=0.02)


def test_a_mixture_is_planned_where_workloads_have_drafts_of_their_own() -> None:
    found = plan(evidence(*table(CONTRAST)))
    assert found.chosen.servers == {MTP: 4, DFLASH: 4}
    assert found.gain > 0.3
    assert found.shares["code"][MTP] == pytest.approx(1.0, abs=0.01)


def test_a_specialist_that_was_not_measured_with_everything_can_be_in_a_mixture() -> None:
    ngram = Candidate("ngram", 8)
    cells = [*table(ALIKE), cell(ngram, "code", 6.0)]
    found = plan(evidence(*cells))
    assert ngram in found.chosen.servers
    assert found.shares["chat"][ngram] == 0.0


def test_no_fleet_is_planned_that_leaves_a_workload_without_a_server() -> None:
    cells = [cell(BASELINE, "code", 1.0), cell(MTP, "code", 2.0), cell(BASELINE, "chat", 1.0, level=1)]
    found = evidence(*cells)
    planned = plan_fleet(found, choose(found), 4, 8)
    assert planned is not None
    assert BASELINE in planned.chosen.servers
    assert planned.shares["chat"] == {BASELINE: 1.0, MTP: 0.0}


def specs(who: Candidate):
    from backends.spec import LaunchSpec

    return LaunchSpec(
        who.label,
        TARGET,
        "name",
        method=who.method,
        draft_tokens=who.draft_tokens,
        draft="some/draft" if who.method != "none" else None,
    )


def test_the_policy_of_a_mixture_loads_with_its_fleet_and_routes_by_workload() -> None:
    found = evidence(*table(CONTRAST))
    planned = plan(found)
    texts = fleet(choose(found), planned, specs), policy(choose(found), planned, ["name"], TARGET)
    loaded = load(*texts)
    assert isinstance(loaded, Loaded)
    assert loaded.warnings == ()
    fleet_of, policy_of = loaded.value.fleet, loaded.value.policy
    assert [one.method for one in fleet_of.backends].count("none") == 1
    assert len(fleet_of.backends) == 8
    assert isinstance(fleet_of.idle(), Snapshot)
    by_name = {route.name: route for route in policy_of.routes}
    (named,) = set(by_name) - {"default"}
    assert {selector.method for route in (by_name[named],) for selector in route.prefer[:1]} != {
        by_name["default"].prefer[0].method
    }


def test_the_policy_of_one_configuration_has_one_route() -> None:
    found = evidence(*table(ALIKE))
    text = policy(choose(found), plan(found), (), TARGET)
    loaded = load_policy(text)
    assert isinstance(loaded, Loaded)
    (route,) = loaded.value.routes
    assert (route.prefer[0].method, route.prefer[0].draft_tokens) == ("mtp", 3)
    assert "evidence: evidence.json" in text


def test_without_a_fleet_plan_the_choice_decides() -> None:
    text = policy(choose(evidence(*table(CONTRAST))), None, (), TARGET)
    loaded = load_policy(text)
    assert isinstance(loaded, Loaded)
    assert len(loaded.value.routes) == 2
    assert len(load_policy(policy(choose(evidence(*table(ALIKE))), None, (), TARGET)).value.routes) == 1


def test_a_schedule_is_written_into_the_fleet() -> None:
    found = crossing()
    text = fleet(choose(found), plan(found, load=32), specs)
    assert "num_speculative_tokens_per_batch_size" in text
    loaded = load(text, policy(choose(found), None, (), TARGET))
    assert isinstance(loaded, Loaded)


def test_long_prompts_with_another_winner_are_said() -> None:
    cells = [*table(ALIKE), cell(BASELINE, "code", 1.0, prompt="8k"), cell(DFLASH, "code", 2.0, prompt="8k")]
    found = choose(evidence(*cells))
    assert changed_by_requests(found) == ["code 8k at 8: dflash-7 instead of mtp-3"]


def flipping() -> Evidence:
    """Chat whose winner changes with the load, code whose does not, tools for which no draft pays under load."""
    low = {
        MTP: {"code": 2.0, "chat": 1.4, "tool_use": 1.5},
        DFLASH: {"code": 1.4, "chat": 2.0, "tool_use": 1.2},
    }
    high = {
        MTP: {"code": 1.6, "chat": 1.5, "tool_use": 0.9},
        DFLASH: {"code": 1.1, "chat": 0.9, "tool_use": 0.7},
    }
    return evidence(*table(low, level=1), *table(high, level=32))


def preferred(text: str, name: str) -> list[tuple[str, int | None]]:
    loaded = load_policy(text)
    assert isinstance(loaded, Loaded), loaded
    (found,) = (one for one in loaded.value.routes if one.name == name)
    return [(one.method, one.max_in_flight) for one in found.prefer if one.method is not None]


def test_the_policy_follows_the_load() -> None:
    found = choose(flipping())
    assert found.everywhere == MTP
    text = policy(found, None, (), TARGET)
    assert preferred(text, "default") == [("mtp", 32)]
    assert preferred(text, "chat") == [("dflash", 5), ("mtp", 32), ("dflash", 32)]
    assert preferred(text, "tool-use") == [("mtp", 5), ("none", 32), ("mtp", 32)]
    assert "name: code" not in text


def test_one_configuration_for_everything_may_change_with_the_load_too() -> None:
    found = choose(
        evidence(
            *table({MTP: {"code": 2.0}, DFLASH: {"code": 3.0}}, level=1),
            *table({MTP: {"code": 1.5}, DFLASH: {"code": 0.8}}, level=32),
        )
    )
    assert found.by_band == (DFLASH, MTP)
    assert preferred(policy(found, None, (), TARGET), "default") == [
        ("dflash", 5),
        ("mtp", 32),
        ("dflash", 32),
    ]


def test_labels_that_only_a_rule_can_give_get_no_route_but_are_said() -> None:
    cells = [
        one.model_copy(update={"workload": one.workload.replace("chat", "legal")}) for one in table(CONTRAST)
    ]
    text = policy(choose(evidence(*cells)), None, (), TARGET)
    assert isinstance(load_policy(text), Loaded)
    assert "would suit legal; a route wants a rule of classify" in text


def test_what_may_be_as_fast_is_no_reason_to_change_with_the_load() -> None:
    found = choose(
        evidence(
            *table({MTP: {"code": 2.0, "chat": 2.0}, DFLASH: {"code": 1.99, "chat": 2.01}}, level=1),
            *table({MTP: {"code": 1.5, "chat": 1.49}, DFLASH: {"code": 1.49, "chat": 1.5}}, level=32),
        )
    )
    text = policy(found, None, (), TARGET)
    assert text.count("name:") == 1
    assert len(preferred(text, "default")) == 1


def test_what_is_best_under_low_and_high_load_comes_twice() -> None:
    found = choose(
        evidence(
            *table({MTP: {"code": 2.0, "chat": 2.0}, DFLASH: {"code": 1.5, "chat": 1.5}}, level=1),
            *table({MTP: {"code": 2.0, "chat": 1.5}, DFLASH: {"code": 1.5, "chat": 2.0}}, level=8),
            *table({MTP: {"code": 2.0, "chat": 2.0}, DFLASH: {"code": 1.5, "chat": 1.5}}, level=32),
        )
    )
    text = policy(found, None, (), TARGET)
    assert preferred(text, "chat") == [("mtp", 2), ("dflash", 16), ("mtp", 32), ("dflash", 32)]
