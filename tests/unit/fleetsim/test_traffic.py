import numpy as np
import pytest

from backends.fleetsim.draws import Draws
from backends.fleetsim.traffic import (
    CHAT70,
    EQUAL,
    Mix,
    Source,
    Steps,
    Stream,
    Traced,
    constant,
    ramp,
    replayed,
    steady,
)
from backends.sim.profiles import lengths

DRAWS = Draws(0)


def stream(**given):
    return Stream(Source(constant(given.pop("mix", CHAT70)), **({"clients": steady(1)} | given)), 0, 7, DRAWS)


def test_a_mix_gives_its_shares_and_lengths():
    drawn = stream()
    found = [drawn.next(number, 0.0) for number in range(20_000)]
    for workload, share in CHAT70.items():
        of = [one for one in found if one.workload == workload]
        assert len(of) / len(found) == pytest.approx(share, abs=0.015)
        assert np.mean([one.output_tokens for one in of]) == pytest.approx(lengths(workload).output, rel=0.1)
    assert len({one.place for one in found}) > 5_000


def test_the_same_seed_gives_the_same_requests_and_another_others():
    facts = [
        [
            (one.workload, one.prompt_tokens, one.output_tokens, one.place)
            for one in map(drawn.next, range(50), [0.0] * 50)
        ]
        for drawn in (stream(), stream(), Stream(Source(constant(CHAT70), clients=steady(1)), 0, 8, DRAWS))
    ]
    assert facts[0] == facts[1] != facts[2]


def test_a_mix_of_phases_comes_round_again():
    mix = Mix(((10.0, {"math": 1.0}), (5.0, {"code": 1.0})))
    assert [mix.pick(0.5, now) for now in (0.0, 9.9, 10.0, 14.9, 15.0)] == [
        "math",
        "math",
        "code",
        "code",
        "math",
    ]
    assert mix.at(12.0) == {"code": 1.0}


def test_numbers_change_in_steps_and_ramps_come_back():
    assert [Steps(((0.0, 1.0), (5.0, 2.0)))(now) for now in (0.0, 4.9, 5.0, 99.0)] == [1.0, 1.0, 2.0, 2.0]
    rising = ramp(8, 96, rise=60.0, steps=22)
    assert rising(0.0) == rising(120.0) == 8.0
    assert rising(60.0) == rising.most == 96.0
    assert len(rising.changes(240.0)) == 87
    assert steady(3.0).changes(100.0) == []


def test_arrivals_keep_the_rate_while_it_changes():
    source = Source(constant(EQUAL), rate=Steps(((0.0, 2.0), (500.0, 8.0))))
    drawn, now, times = Stream(source, 0, 1, DRAWS), 0.0, []
    while now < 1000.0:
        now += drawn.gap(now)
        times.append(now)
    early = sum(time < 500.0 for time in times)
    assert early == pytest.approx(1000, rel=0.1)
    assert len(times) - early == pytest.approx(4000, rel=0.05)


def test_no_rate_means_no_arrival():
    assert Stream(Source(constant(EQUAL), rate=steady(0.0)), 0, 1, DRAWS).gap(0.0) == float("inf")


def test_wrong_labels_are_other_workloads_and_said_to_be_unsure():
    drawn = stream(label_errors=0.2)
    found = [drawn.next(number, 0.0) for number in range(5_000)]
    wrong = [one for one in found if one.label != one.workload]
    assert len(wrong) / len(found) == pytest.approx(0.2, abs=0.02)
    assert {one.confidence for one in found} == {0.8}


def test_some_requests_carry_what_drafts_refuse():
    drawn = stream(refused_share={"chat": 0.3})
    found = [drawn.next(number, 0.0) for number in range(5_000)]
    assert {one.workload for one in found if one.needs} == {"chat"}
    share = np.mean([bool(one.needs) for one in found if one.workload == "chat"])
    assert share == pytest.approx(0.3, abs=0.03)


def test_turns_of_a_conversation_repeat_what_was_said():
    drawn = stream(turns=4.0)
    last, later = {}, 0
    for number in range(2_000):
        one = drawn.next(number, 0.0)
        if one.shared_tokens:
            later += 1
            assert one.shared_tokens == last[one.prefix]
            assert one.prompt_tokens > one.shared_tokens
        last[one.prefix] = one.prompt_tokens + one.output_tokens
    assert later / 2_000 == pytest.approx(0.75, abs=0.1)


def test_a_source_is_a_loop_or_a_rate():
    with pytest.raises(ValueError, match="either clients or a rate"):
        Source(constant(EQUAL), clients=steady(1), rate=steady(1), name="both")


def test_a_trace_is_sent_as_it_was():
    trace = [Traced(1.0, "math", 10, 20), Traced(2.0, "code", 30, 40)]
    request = replayed(trace, 1, DRAWS)(1)
    assert (request.arrived, request.workload, request.prompt_tokens, request.output_tokens) == (
        2.0,
        "code",
        30,
        40,
    )
