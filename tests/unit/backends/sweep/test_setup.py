from __future__ import annotations

import pytest

from backends.recipes import recipes
from backends.spec import LaunchSpec, UnknownMethodError
from backends.sweep.model import BASELINE, Candidate, Condition
from backends.sweep.servers import Place
from backends.sweep.setup import SetupError, conditions, of_fleet, of_recipe, of_simulator, of_specs, too_long
from gateway.core.fleet import Backend


def lengths(setup) -> dict[str, tuple[int, ...]]:
    return {one.method: one.lengths for one in setup.families}


def test_a_recipe_gives_the_lengths_that_its_drafts_have_room_for() -> None:
    setup = of_recipe(recipes()["qwen3-8b"], [], first_port=9000)
    assert lengths(setup) == {"eagle3": (1, 2, 3, 4, 5), "dflash": (3, 7, 11, 15), "dspark": (3, 5, 7)}
    assert {one.method: one.start for one in setup.families} == {"eagle3": 5, "dflash": 11, "dspark": 7}
    assert {one.port for one in setup.specs.values()} == {9000}
    assert setup.max_model_len == 4096
    dflash = next(one for one in setup.families if one.method == "dflash")
    assert 9 in dflash.between


def test_lengths_can_be_pinned_and_the_baseline_is_always_there() -> None:
    setup = of_recipe(recipes()["qwen3-8b"], ["dflash:3", "dflash:7"], first_port=9000)
    assert lengths(setup) == {"dflash": (3, 7)}
    assert setup.families[0].between == ()
    assert "none" in setup.specs


def test_a_recipe_without_the_method_or_without_a_draft_is_refused() -> None:
    with pytest.raises(UnknownMethodError, match="has no method 'mtp'"):
        of_recipe(recipes()["qwen3-8b"], ["mtp"], first_port=9000)
    with pytest.raises(SetupError, match="nothing to compare"):
        of_recipe(recipes()["qwen3-8b"], ["none"], first_port=9000)


def backend(
    name: str, method: str = "none", tokens: int = 0, *, target: str = "some/model", **more
) -> Backend:
    return Backend(name, f"http://{name}", target, "served", method, tokens, **more)


FLEET = (
    backend("plain", max_model_len=8192),
    backend("plain-too"),
    backend("mtp1", "mtp", 1, max_model_len=4096),
    backend("mtp3", "mtp", 3),
)


def test_a_running_fleet_gives_the_lengths_that_run() -> None:
    setup = of_fleet(FLEET, "")
    assert lengths(setup) == {"mtp": (1, 3)}
    assert setup.places == {
        BASELINE: Place("http://plain", "served"),
        Candidate("mtp", 1): Place("http://mtp1", "served"),
        Candidate("mtp", 3): Place("http://mtp3", "served"),
    }
    assert setup.max_model_len == 4096


@pytest.mark.parametrize(
    ("fleet", "model", "said"),
    [
        ((*FLEET, backend("other", target="b")), "", "several targets; name one with --model: b, some/model"),
        (FLEET, "nothing", "no server of 'nothing'"),
        (FLEET[2:], "", "no server of some/model without speculation"),
        (FLEET[:2], "", "only baselines"),
    ],
)
def test_a_fleet_that_cannot_be_swept_is_told_why(fleet: tuple[Backend, ...], model: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        of_fleet(fleet, model)


def test_servers_of_a_fleet_file_can_be_started_one_at_a_time() -> None:
    specs = [
        LaunchSpec("a", "some/model", "served", port=9001, max_model_len=2048),
        LaunchSpec("b", "some/model", "served", "ngram", 2, port=9002),
        LaunchSpec("c", "some/model", "served", "ngram", 4, port=9003),
    ]
    setup = of_specs(specs, "")
    assert lengths(setup) == {"ngram": (2, 4)}
    assert {name: one.port for name, one in setup.specs.items()} == {"none": 9001, "ngram": 9001}
    assert setup.places == {}


def test_the_simulator_offers_what_was_published() -> None:
    assert lengths(of_simulator("Qwen/Qwen3.6-27B")) == {"mtp": (1, 2, 3, 4, 5), "dflash": (3, 7, 11, 15)}


def test_lengths_that_do_not_fit_the_context_are_named() -> None:
    assert too_long(["short", "8k", "32k"], 16384) == ["32k"]
    assert too_long(["short", "8k", "32k"], None) == []


def test_conditions_are_all_combinations_that_fit_the_context() -> None:
    found = conditions(["code", "chat"], [1, 8], ["short", "8k"], ["greedy"], most=4096)
    assert found == tuple(Condition(name, level) for level in (1, 8) for name in ("code", "chat"))
    assert len(conditions(["code"], [1], ["short", "8k", "short"], ["greedy", "sampled"])) == 4
    with pytest.raises(SetupError, match="no prompt length is named; write short, 8k or 32k"):
        conditions(["code"], [1], [], ["greedy"])
    with pytest.raises(SetupError, match="no prompt length fits the context of 4096 tokens"):
        conditions(["code"], [1], ["8k"], ["greedy"], most=4096)
    with pytest.raises(SetupError, match="'hot' is no sampling; there is greedy, sampled"):
        conditions(["code"], [1], ["short"], ["hot"])
    with pytest.raises(SetupError, match="write short, 8k or 32k"):
        conditions(["code"], [1], ["long"], ["greedy"], most=4096)
