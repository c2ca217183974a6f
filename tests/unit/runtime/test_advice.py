from dataclasses import replace

import pytest

from gateway.core.plan import Kind, Limits, Wanted
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.runtime.advice import WORTH, advise, compose


def model(name, *, code, chat, step=0.02, spread=0.0, measured=1e6):
    """A server that takes so many steps a token, with steps that grow a little with the batch."""
    return ServerModel(
        fingerprint=name,
        steps_per_token={Cell("code", 0, SAMPLED): code, Cell("chat", 0, SAMPLED): chat},
        step_seconds=tuple(step * (1.0 + n / 50.0) for n in range(257)),
        output_tokens={"code": 300.0, "chat": 300.0},
        spread={"code": spread, "chat": spread},
        measured=measured,
    )


def wanted(code=1.0, chat=1.0, in_flight=32.0):
    return [Wanted("all", Limits(), {"code": code, "chat": chat}, in_flight)]


PLAIN = model("plain", code=1.0, chat=1.0)
DRAFT = model("draft", code=0.4, chat=0.5)
CODER = model("coder", code=0.25, chat=0.9)
TALKER = model("talker", code=0.9, chat=0.25)


def kinds(*models):
    return [Kind((f"{one.fingerprint}-{at}",), one) for at, one in enumerate(models)]


def test_servers_that_are_alike_need_no_routing():
    found = advise([Kind(("a", "b"), DRAFT)], wanted())
    assert found.routing == pytest.approx(0.0, abs=2e-3)
    assert found.consolidate is None
    assert "does not pay here" in str(found)
    (alone,) = found.options
    assert (alone.servers, alone.error) == ({"draft": 2}, 0.0)
    assert alone.gain == pytest.approx(0.0, abs=1e-6)


def test_a_fleet_of_one_good_and_one_bad_is_better_of_one_kind():
    found = advise(kinds(PLAIN, DRAFT), wanted())
    best = found.consolidate
    assert best is not None
    assert best.servers == {"draft": 2}
    assert 0.1 < best.gain < 1.0
    assert found.routing < 0.05
    assert "consolidate on 2 x draft: +" in str(found)
    assert [one.servers for one in found.options] == [{"draft": 2}, {"plain": 2}]


def test_that_no_request_is_open_at_this_moment_is_light_load():
    # Its steps grow so fast that it is worth having for many requests only if they never come at once.
    crowded = replace(DRAFT, step_seconds=tuple(0.02 * (1.0 + n) for n in range(257)))
    now, one, many = (advise(kinds(PLAIN, crowded), wanted(in_flight=n)) for n in (0.0, 1.0, 1e6))
    assert now == one
    assert (now.options[0].servers, many.options[0].servers) == ({"draft": 2}, {"plain": 2})


def test_drafts_for_different_work_are_worth_routing():
    found = advise(kinds(CODER, TALKER), wanted())
    assert found.consolidate is None
    assert found.routing > 0.5
    assert "routing by workload pays +" in str(found)
    assert found.options[0].gain < 0.0


def test_drafts_that_differ_alike_are_not_worth_it():
    found = advise(kinds(model("a", code=0.5, chat=0.5), model("b", code=0.4, chat=0.4)), wanted())
    assert found.routing < 0.02
    assert "does not pay here" in str(found)


def test_what_is_not_sure_is_not_advised():
    unsure = model("maybe", code=0.45, chat=0.45, spread=0.5)
    found = advise(kinds(unsure, model("sure", code=0.5, chat=0.5)), wanted())
    assert found.options[0].servers == {"maybe": 2}
    assert found.options[0].error > found.options[0].gain > 0.0
    assert found.consolidate is None


def test_what_both_fleets_do_alike_makes_their_difference_no_less_sure():
    better = model("better", code=0.3, chat=0.3, spread=0.2)
    worse = model("worse", code=0.4, chat=0.4)
    few, many = (
        advise(
            [Kind(tuple(map(str, range(count))), better), Kind(tuple("abcdefghi"[: 10 - count]), worse)],
            wanted(in_flight=320.0),
        )
        for count in (1, 9)
    )
    assert few.options[0].servers == many.options[0].servers == {"better": 10}
    assert few.options[0].error > 5.0 * many.options[0].error > 0.0


def test_servers_that_run_the_same_are_one_kind_whatever_they_are_labelled():
    # As four equal servers look after some minutes: each is off by a few per cent, and the best looks better.
    seen = [
        model("a", code=0.41, chat=0.49, step=0.0196),
        model("b", code=0.39, chat=0.51, step=0.0204),
        model("c", code=0.40, chat=0.52, step=0.0210),
        model("d", code=0.42, chat=0.48, step=0.0190),
    ]
    apart = advise(kinds(*seen), wanted())
    assert apart.options[0].gain > WORTH
    alike = advise([Kind((one.fingerprint,), one, "draft") for one in seen], wanted())
    (option,) = alike.options
    assert (alike.consolidate, option.error) == (None, pytest.approx(0.0))
    assert option.gain == pytest.approx(0.0, abs=1e-6)
    assert alike.routing == pytest.approx(0.0, abs=1e-6)
    assert str(alike) == "all servers run the same: routing by workload does not pay here"


def test_what_several_kinds_run_may_be_run_by_all():
    twice = [Kind((name,), replace(DRAFT, fingerprint=name), "draft") for name in ("here", "there")]
    found = advise([Kind(("plain",), PLAIN, "plain"), *twice], wanted())
    assert [one.servers for one in found.options] == [{"here": 3}, {"plain": 3}]
    assert found.consolidate is not None


def test_batches_of_their_own_are_no_gain_of_routing():
    # Long prompts are better kept to few servers, by the program, though all of them are alike.
    long = replace(DRAFT, prompt_tokens={"code": 4000.0, "chat": 100.0}, prefill_seconds=1e-4)
    for of in ([Kind(tuple("abcd"), long)], [Kind((name,), long) for name in "abcd"]):
        assert advise(of, wanted(in_flight=48.0)).routing == pytest.approx(0.0, abs=1e-6)


def test_few_requests_leave_step_times_unsure():
    few, many = (
        advise(kinds(PLAIN, model("draft", code=0.8, chat=0.8, measured=count)), wanted())
        for count in (5.0, 5000.0)
    )
    assert few.options[0].gain == pytest.approx(many.options[0].gain)
    assert few.consolidate is None
    assert many.consolidate is not None


def test_of_known_configurations_one_is_composed_where_one_is_best():
    found = compose([PLAIN, DRAFT], 8, wanted())
    assert (found.servers, found.gain) == ({"draft": 8}, 0.0)


def test_a_blend_is_composed_where_it_is_worth_it():
    found = compose([PLAIN, CODER, TALKER], 8, wanted(code=3.0))
    assert set(found.servers) == {"coder", "talker"}
    assert sum(found.servers.values()) == 8
    assert found.servers["coder"] > found.servers["talker"]
    assert found.gain > 0.2


def test_without_servers_or_requests_there_is_nothing_to_say():
    with pytest.raises(ValueError, match="no request"):
        advise(kinds(PLAIN), [])
    with pytest.raises(ValueError, match="no server"):
        advise([Kind((), PLAIN)], wanted())
    with pytest.raises(ValueError, match="a configuration and a server"):
        compose([], 8, wanted())
