from __future__ import annotations

import math
import random

import pytest

from gateway.core.kinship import DRAFTS, LOOKUPS
from gateway.core.posterior import TOGETHER, Evidence, Published, publish, publish_each
from gateway.core.predict import GREEDY, SAMPLED, STRUCTURED, Cell, ServerModel
from gateway.core.samples import LOOKUP, MODEL, Arm

PRIOR = ServerModel(other_steps_per_token=0.4)
CODE, CHAT, MATH = (Cell(label, 0, SAMPLED) for label in ("code", "chat", "math"))


def teach(evidence: Evidence, cell: Cell, theta: float, times: int = 50, noise: float = 0.0) -> None:
    draws = random.Random(6)  # noqa: S311 - no secret
    for _ in range(times):
        known = publish(evidence, 0.0).steps_per_token.get(cell, 0.4)
        evidence.add([(cell, 1.0, known)], theta * math.exp(draws.gauss(0.0, noise)), 1.0)


def test_without_evidence_the_prior_is_believed() -> None:
    prior = ServerModel(steps_per_token={CODE: 0.25}, other_steps_per_token=0.4)
    found = publish(Evidence(prior), 0.0)
    assert found.steps_per_token[CODE] == pytest.approx(0.25)
    assert found.steps_per_token[Cell("code", 3, STRUCTURED)] == pytest.approx(0.25), "from a like cell"
    assert found.other_steps_per_token == pytest.approx(0.4)
    assert found.spread == {"code": pytest.approx(found.other_spread)}
    assert found.other_spread == pytest.approx(found.request_spread / math.sqrt(DRAFTS.prior))


def test_a_cell_is_learnt_and_its_neighbours_follow() -> None:
    evidence = Evidence(PRIOR)
    teach(evidence, CODE, 0.2)
    found = publish(evidence, 0.0)
    assert found.steps_per_token[CODE] == pytest.approx(0.2, rel=0.03)
    assert found.steps_per_token[Cell("code", 0, GREEDY)] == pytest.approx(0.2, rel=0.1)
    assert 0.2 < found.other_steps_per_token < 0.4
    assert found.evidence["code"] == pytest.approx(50.0, rel=0.1)


def test_the_more_alike_requests_are_the_surer_it_is() -> None:
    alike, differing = Evidence(PRIOR), Evidence(PRIOR)
    teach(alike, CODE, 0.2, times=200, noise=0.1)
    teach(differing, CODE, 0.2, times=200, noise=0.4)
    sure, unsure = (publish(one, 0.0) for one in (alike, differing))
    assert sure.spread["code"] == pytest.approx(sure.request_spread / math.sqrt(200.0), rel=0.2)
    assert unsure.spread["code"] > 2.0 * sure.spread["code"]


def test_lookup_that_finds_nothing_in_one_workload_may_find_all_in_another() -> None:
    draft, lookup = Evidence(PRIOR), Evidence(PRIOR, LOOKUPS)
    teach(draft, CHAT, 1.0)
    teach(lookup, CHAT, 1.0)
    expected, unsure = (publish(one, 0.0) for one in (draft, lookup))
    assert unsure.other_steps_per_token < expected.other_steps_per_token
    found = publish(lookup, 0.0)
    assert found.other_spread > 0.3 > 10.0 * found.spread["chat"]
    assert found.other_spread > 1.5 * expected.other_spread
    teach(lookup, CODE, 0.12, times=1)
    assert publish(lookup, 0.0).steps_per_token[CODE] < 0.25, "one request tells most of it"


def test_long_prompts_are_told_apart_once_there_are_enough() -> None:
    evidence = Evidence(PRIOR)
    long = Cell("chat", 3, SAMPLED)
    teach(evidence, CHAT, 0.3)
    teach(evidence, long, 0.8, times=60)
    found = publish(evidence, 0.0).steps_per_token
    assert found[CHAT] == pytest.approx(0.3, rel=0.25)
    assert found[long] == pytest.approx(0.8, rel=0.15)


def test_there_is_no_more_than_a_step_for_a_token() -> None:
    evidence, sibling = Evidence(ServerModel(other_steps_per_token=0.9)), Evidence(PRIOR)
    teach(sibling, CODE, 1.0)
    teach(evidence, CHAT, 1.0)
    evidence.add([(CODE, 1.0, 0.5)], 1.0, 1.0)
    found = together(one=evidence, other=sibling)["one"]
    assert max(found.steps_per_token.values()) == 1.0


def test_doubtful_labels_do_not_make_workloads_alike() -> None:
    evidence, draws = Evidence(PRIOR), random.Random(7)  # noqa: S311 - no secret
    for _ in range(1500):
        known = publish(evidence, 0.0).steps_per_token
        label, theta = draws.choice([(CODE, 0.2), (MATH, 0.4)])
        other = MATH if label is CODE else CODE
        guess, doubt = (label, other) if draws.random() < 0.8 else (other, label)
        shares = [(guess, 0.8, known.get(guess, 0.4)), (doubt, 0.2, known.get(doubt, 0.4))]
        evidence.add(shares, theta, 1.0)
    found = publish(evidence, 0.0).steps_per_token
    assert found[CODE] == pytest.approx(0.2, rel=0.12)
    assert found[MATH] == pytest.approx(0.4, rel=0.12)


def test_the_level_of_a_configuration_does_not_depend_on_the_mix() -> None:
    even, skewed = Evidence(PRIOR), Evidence(PRIOR)
    for one, times in ((even, 100), (skewed, 400)):
        teach(one, CODE, 0.2, times=100)
        teach(one, CHAT, 0.4, times=times)
    other = Cell("poetry", 0, SAMPLED)
    assert other not in publish(even, 0.0).steps_per_token
    assert publish(even, 0.0).other_steps_per_token == pytest.approx(
        publish(skewed, 0.0).other_steps_per_token, rel=0.02
    )


def together(family: str = MODEL, **evidence: Evidence) -> dict[str, Published]:
    arms = {name: Arm(name, draft_tokens=4, family=family, draft=one.draft) for name, one in evidence.items()}
    return dict(publish_each(evidence, arms, 0.0))


def test_what_is_hard_for_one_draft_is_expected_to_be_hard_for_the_next() -> None:
    one, other = Evidence(PRIOR, draft="a"), Evidence(PRIOR, draft="b")
    teach(one, CODE, 0.2)
    teach(one, CHAT, 0.6)
    found = together(one=one, other=other)["other"]
    assert found.steps_per_token[CODE] < 0.4 < found.steps_per_token[CHAT]
    assert found.spread["code"] < found.other_spread


def test_siblings_tell_nearly_all_and_other_families_nothing() -> None:
    one = Evidence(PRIOR, draft="a")
    teach(one, CODE, 0.2)
    teach(one, CHAT, 0.6)
    ratios = {}
    for draft in ("a", "b"):
        found = together(one=one, other=Evidence(PRIOR, draft=draft))["other"].steps_per_token
        ratios[draft] = found[CHAT] / found[CODE]
    assert 2.0 < ratios["b"] < ratios["a"] < 3.0
    lookup = Arm("lookup", draft_tokens=4, family=LOOKUP)
    known = dict(publish_each({"one": one, "lookup": Evidence(PRIOR)}, {"lookup": lookup}, 0.0))
    assert known["lookup"].steps_per_token == {}


def test_a_server_without_a_draft_has_no_kin() -> None:
    one = Evidence(PRIOR)
    teach(one, CODE, 0.2)
    arms = {"one": Arm("one", draft_tokens=4), "none": Arm("none")}
    found = dict(publish_each({"one": one, "none": Evidence(ServerModel())}, arms, 0.0))
    assert found["none"].steps_per_token == {}
    assert found["none"].other_steps_per_token == 1.0


def test_siblings_stay_together_in_a_fleet_of_many_configurations() -> None:
    evidence = {f"{at}": Evidence(PRIOR, draft=str(at % 40)) for at in range(80)}
    teach(evidence["1"], CODE, 0.2)
    teach(evidence["1"], CHAT, 0.6)
    found = together(MODEL, **evidence)
    assert len(evidence) > TOGETHER
    ratios = {
        name: known.steps_per_token[CHAT] / known.steps_per_token[CODE]
        for name, known in found.items()
        if name != "1" and CHAT in known.steps_per_token
    }
    assert max(ratios, key=ratios.__getitem__) == "41"
    assert len(ratios) == TOGETHER - 1


def test_a_change_of_acceptance_takes_most_of_the_evidence() -> None:
    evidence = Evidence(PRIOR)
    teach(evidence, CODE, 0.2, times=300, noise=0.2)
    before = publish(evidence, 0.0).evidence["code"]
    teach(evidence, CODE, 0.8, times=60, noise=0.2)
    found = publish(evidence, 0.0)
    assert found.evidence["code"] < before
    assert found.steps_per_token[CODE] == pytest.approx(0.8, rel=0.15)


def test_evidence_can_be_weakened_as_a_whole() -> None:
    evidence = Evidence(PRIOR)
    teach(evidence, CODE, 0.2)
    teach(evidence, CHAT, 0.3)
    evidence.weaken(0.0)
    found = publish(evidence, 0.0)
    assert found.evidence == {}
    assert found.other_steps_per_token == pytest.approx(0.4)
