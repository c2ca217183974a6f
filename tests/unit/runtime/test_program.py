from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.plan import OPEN, Kind, Limits, Wanted, work
from gateway.core.roles import PART
from gateway.runtime.program import Program
from gateway.runtime.table import HEADROOM
from tests.factories import SERVER_MODEL as MODEL

SLOW = replace(MODEL, fingerprint="two", other_steps_per_token=0.8)
FOUR = [Kind(("a", "b", "c", "d"), MODEL)]
CHAT = Wanted("chat", Limits(tpot=0.018), {"chat": 4.0})
BULK = Wanted("bulk", Limits(), {"code": 1.0}, in_flight=400.0)


def test_without_limits_all_servers_do_all_and_more_of_them_do_more() -> None:
    few = Program(FOUR, [BULK]).solve()
    more = Program([Kind(("a", "b", "c", "d", "e"), MODEL)], [BULK]).solve()
    assert few.counts == {(0, OPEN): 4}
    assert few.kept == 1.0
    assert more.tokens_per_second > few.tokens_per_second
    gained = more.tokens_per_second - few.tokens_per_second
    assert gained <= few.prices[0] * 1.001, "the price is that of one more server, at most"


def test_at_light_load_the_crowd_is_what_limits() -> None:
    light = Program(FOUR, [replace(BULK, in_flight=4.0)]).solve()
    # One request in each: 300 tokens in 120 steps, and what there is before the first of them.
    each = 300 / (120 * 0.02 + 300 * 1e-5 + 1.5 * 0.02)
    assert light.tokens_per_second == pytest.approx(4 * each, rel=0.02)


def test_each_workload_goes_where_it_is_comparatively_fast() -> None:
    kinds = [
        Kind(("a",), replace(MODEL, steps_per_token={})),
        Kind(("b",), replace(SLOW, fingerprint="two", other_steps_per_token=0.35)),
    ]
    found = Program(kinds, [replace(BULK, rates={"code": 1.0, "chat": 1.0})]).solve()
    assert found.tokens_per_second > 0.0
    assert sum(found.flow.values()) * 300.0 == pytest.approx(found.tokens_per_second)


def test_a_class_with_limits_gets_as_many_servers_as_it_needs() -> None:
    counts = [
        Program(FOUR, [replace(CHAT, rates={"chat": rate}), BULK]).solve().counts[0, "chat"]
        for rate in (1.0, 20.0, 30.0)
    ]
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[-1] > 1


def test_what_is_wanted_within_limits_is_served_with_headroom() -> None:
    found = Program(FOUR, [CHAT, BULK]).solve()
    assert found.kept == pytest.approx(1.0)
    served = sum(amount for (_, service, _), amount in found.flow.items() if service == "chat")
    assert served == pytest.approx(HEADROOM * 4.0)
    assert 0 < found.most[0, "chat"] < found.most[0, OPEN]


def test_more_than_fits_falls_short_and_says_so() -> None:
    found = Program(FOUR, [replace(CHAT, rates={"chat": 1000.0}), BULK]).solve()
    assert 0.0 < found.kept < 0.9
    assert found.counts[0, "chat"] == 4


def test_that_no_request_is_open_at_this_moment_is_no_crowd() -> None:
    now, one = (Program(FOUR, [replace(BULK, in_flight=n)]).solve() for n in (0.0, 1.0))
    assert now == one
    assert now.tokens_per_second < Program(FOUR, [BULK]).solve().tokens_per_second / 10.0


def test_limits_that_nobody_can_keep_are_widened_until_somebody_can() -> None:
    kinds = [*FOUR, Kind(("e",), SLOW)]
    found = Program(kinds, [replace(CHAT, rates={"chat": 0.01}, limits=Limits(tpot=1e-4)), BULK]).solve()
    assert found.kept == pytest.approx(1.0)
    assert (found.counts[0, "chat"], found.counts[1, "chat"]) == (1, 0)


def test_a_looser_class_may_use_the_servers_of_a_stricter_one() -> None:
    loose = Wanted("loose", Limits(tpot=0.05), {"chat": 1.0})
    found = Program([Kind(("a",), MODEL)], [CHAT, loose]).solve()
    assert found.kept == pytest.approx(1.0)
    assert found.counts[0, "chat"] == 1


def test_a_class_that_asks_for_little_has_a_server_all_the_same() -> None:
    tight = Limits(tpot=_token_alone() * 1.2)
    rare = replace(CHAT, limits=tight, rates={"chat": 1e-3})
    found = Program(FOUR, [rare, BULK]).solve()
    assert found.counts == {(0, "chat"): 1, (0, OPEN): 3}
    assert found.kept == pytest.approx(1.0)


def test_no_server_is_kept_for_a_class_whose_limits_it_cannot_keep() -> None:
    limits = Limits(tpot=_token_alone() * 1.2)
    kinds = [Kind(("a", "b"), MODEL), Kind(("c", "d"), SLOW)]
    chat = replace(CHAT, limits=limits, rates={"chat": 1000.0})
    program = Program(kinds, [chat, replace(BULK, in_flight=0.0)])
    assert not program.most[1, "chat"]
    for found in (program.solve(), program.solve(keeping={(1, "chat"): 2})):
        assert found.counts[1, OPEN] == 2


def test_a_class_is_without_a_server_where_all_are_kept_for_looser_ones() -> None:
    tools = Wanted("tools", Limits(tpot=0.012), {"code": 1.0})
    program = Program(FOUR, [CHAT, tools, BULK])
    assert program.without({(0, "chat"): 4}) == {"tools"}
    assert not program.without({(0, "tools"): 1, (0, OPEN): 3})
    kept = program.solve(keeping={(0, "chat"): 4})
    assert kept.counts == {(0, "chat"): 4, (0, "tools"): 0, (0, OPEN): 0}, "who keeps theirs leave no room"


def _token_alone() -> float:
    """Seconds a token of a server with one request."""
    return float(work(MODEL, ["chat"]).token[0, 0])


def test_one_class_with_limits_alone_has_all_servers_and_is_fast() -> None:
    program = Program(FOUR, [CHAT])
    found = program.solve()
    assert program.roles == ("chat",)
    assert found.counts == {(0, "chat"): 4}
    assert found.seconds < 5.0
    assert found.tokens_per_second == pytest.approx(HEADROOM * 4.0 * 300.0, rel=0.01)


def test_given_roles_are_worth_what_they_are() -> None:
    program = Program(FOUR, [CHAT, BULK])
    best = program.solve()
    worse = program.solve({(0, "chat"): 3, (0, OPEN): 1})
    assert worse.tokens_per_second < best.tokens_per_second
    assert best.tokens_per_second == pytest.approx(
        300.0 * best.flow[0, "bulk", "code"]
    )  # a limited class aside
    assert worse.counts == {(0, "chat"): 3, (0, OPEN): 1}


def test_bulk_gives_no_more_than_the_servers_that_are_kept_for_it_do() -> None:
    alone = Program([Kind(("a",), MODEL)], [BULK]).solve()
    beside = Program(FOUR, [replace(CHAT, rates={"chat": 0.01}), BULK])
    assert beside.solve({(0, "chat"): 3, (0, OPEN): 1}).tokens_per_second == pytest.approx(
        alone.tokens_per_second
    )


def test_where_none_is_kept_for_it_bulk_gets_part_of_the_room_of_others() -> None:
    chat = replace(CHAT, limits=Limits(tpot=0.013), rates={"chat": 0.01})
    program = Program([Kind(("a",), MODEL)], [chat, BULK])
    found = program.solve()
    assert found.counts == {(0, "chat"): 1, (0, OPEN): 0}
    room = int(PART * found.most[0, "chat"])
    part = Program([Kind(("a",), MODEL, room=room)], [BULK]).solve()
    assert found.tokens_per_second == pytest.approx(part.tokens_per_second, rel=0.02)


def test_loose_limits_that_all_servers_keep_are_no_reason_to_keep_bulk_from_them() -> None:
    chat = replace(CHAT, limits=Limits(tpot=0.06), rates={"chat": 0.3})
    found = Program([Kind(("a", "b"), MODEL)], [chat, replace(BULK, in_flight=60.0)]).solve()
    assert found.counts == {(0, "chat"): 2, (0, OPEN): 0}
    tight = replace(chat, limits=Limits(tpot=0.012))
    found = Program([Kind(("a", "b"), MODEL)], [tight, replace(BULK, in_flight=60.0)]).solve()
    assert found.counts == {(0, "chat"): 1, (0, OPEN): 1}


@pytest.mark.parametrize(("kinds", "wanted"), [([], [BULK]), (FOUR, []), (FOUR, [replace(BULK, rates={})])])
def test_nothing_cannot_be_planned(kinds: list[Kind], wanted: list[Wanted]) -> None:
    with pytest.raises(ValueError, match="nothing to plan"):
        Program(kinds, wanted)


def test_counts_must_be_those_of_the_servers() -> None:
    with pytest.raises(ValueError, match="no solution"):
        Program(FOUR, [BULK]).solve({(0, OPEN): 9})
