from __future__ import annotations

from typing import Any

import pytest

from gateway.core.policy import Match, Selector
from gateway.core.selectors import Ranking, matches, rank, selects
from tests.factories import ANY, backend, classification, features

FAST = backend("gemma-mtp4", method="mtp", draft_tokens=4, labels={"hardware": "MI300X", "zone": "a"})


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        (Selector(), True),
        (Selector(name="gemma-mtp4"), True),
        (Selector(name="gemma-mtp"), False),
        (Selector(name="gemma-*"), True),
        (Selector(name="gemma-mtp?"), True),
        (Selector(name="GEMMA-*"), False),
        (Selector(method="mtp"), True),
        (Selector(method="eagle3"), False),
        (Selector(draft_tokens=4), True),
        (Selector(draft_tokens=0), False),
        (Selector(labels={"hardware": "MI300X"}), True),
        (Selector(labels={"hardware": "MI300X", "zone": "a"}), True),
        (Selector(labels={"hardware": "MI300X", "zone": "b"}), False),
        (Selector(labels={"rack": "7"}), False),
        (Selector("gemma-*", "mtp", 4, {"zone": "a"}), True),
        (Selector("gemma-*", "mtp", 5, {"zone": "a"}), False),
    ],
)
def test_all_given_fields_of_a_selector_must_fit(selector: Selector, named: bool) -> None:
    assert selects(selector, FAST) is named


def test_zero_draft_tokens_is_a_condition_like_any_other() -> None:
    assert selects(Selector(draft_tokens=0), backend(draft_tokens=0))


DRAFTS = {method: backend(method, method=method) for method in ("none", "mtp", "eagle3", "dflash")}


@pytest.mark.parametrize(
    ("prefer", "pool", "ranking"),
    [
        ("eagle3 mtp any", "mtp eagle3 none", Ranking((1, 0, 2), unnamed=3)),
        # What names nobody here takes no place: not at the start, not in between, not where all are named before.
        ("dflash mtp eagle3 any", "mtp none", Ranking((0, 1), unnamed=2)),
        ("mtp dflash any", "mtp none", Ranking((0, 1), unnamed=2)),
        ("mtp mtp any", "mtp none", Ranking((0, 1), unnamed=2)),
        # Who is named by none has the place after the last.
        ("dflash mtp", "none mtp eagle3", Ranking((1, 0, 1), unnamed=1)),
        ("dflash", "none mtp", Ranking((0, 0), unnamed=0)),
        ("", "none", Ranking((0,), unnamed=0)),
        ("any", "", Ranking((), unnamed=0)),
        ("any mtp", "none mtp", Ranking((0, 0), unnamed=1)),
    ],
)
def test_ranks_count_the_preferences_that_name_somebody_new(prefer: str, pool: str, ranking: Ranking) -> None:
    selectors = tuple(ANY if name == "any" else Selector(method=name) for name in prefer.split())
    assert rank(selectors, [DRAFTS[name] for name in pool.split()]) == ranking


MTP_FIRST = (
    Selector(method="mtp", max_in_flight=2),
    Selector(method="none"),
    Selector(method="mtp", max_in_flight=1),
)


@pytest.mark.parametrize(
    ("queues", "ranks"),
    [((0.0, 0.0), (1, 0)), ((9.0, 1.0), (1, 0)), ((0.0, 2.0), (1, 2)), ((0.0, 90.0), (1, 2))],
)
def test_a_preference_with_a_limit_names_a_backend_up_to_that(
    queues: tuple[float, float], ranks: tuple[int, ...]
) -> None:
    pool = [DRAFTS["none"], DRAFTS["mtp"]]
    # The third one, which names it up to less than the first one does, takes no place.
    ranking = rank((*MTP_FIRST, ANY), pool)
    assert ranking.ranks == (1, 0)
    assert ranking.unnamed == 3
    assert tuple(ranking.under(at, queue) for at, queue in enumerate(queues)) == ranks


def test_beyond_its_last_limit_a_backend_is_named_by_none() -> None:
    ranking = rank(MTP_FIRST, [DRAFTS["none"], DRAFTS["mtp"], DRAFTS["dflash"]])
    assert ranking == Ranking((1, 0, 2), unnamed=2, limited={1: ((2, 0),)})
    assert [ranking.under(at, queue) for at, queue in enumerate([0.0, 2.0, 0.0])] == [1, 2, 2]


def test_selectors_with_labels_can_be_keys() -> None:
    plain, labelled = Selector("a"), Selector("a", labels={"zone": "b"})
    assert hash(plain) == hash(labelled)
    assert {plain: 1, labelled: 2} == {Selector("a", labels={"zone": "b"}): 2, Selector("a"): 1}


@pytest.mark.parametrize(
    ("match", "request_given", "taken"),
    [
        ({}, {}, True),
        ({"models": frozenset({"tiny"})}, {}, True),
        ({"models": frozenset({"tiny"})}, {"model": "org/Tiny"}, False),
        ({"languages": frozenset({"de"})}, {"language": "en", "output_language": "de"}, True),
        ({"languages": frozenset({"de"})}, {"language": "de", "output_language": "en"}, False),
        ({"endpoints": frozenset({"chat"})}, {}, True),
        ({"endpoints": frozenset({"chat"})}, {"endpoint": "completions"}, False),
        ({"stream": True}, {"stream": True}, True),
        ({"stream": True}, {"stream": False}, False),
        ({"stream": False}, {"stream": False}, True),
        ({"stream": False}, {"stream": True}, False),
        ({"tenants": frozenset({"acme"})}, {"tenant": "acme"}, True),
        ({"tenants": frozenset({"acme"})}, {"tenant": "other"}, False),
        ({"tenants": frozenset({"acme"})}, {}, False),
        ({"min_prompt_tokens": 10}, {"prompt_chars": 40}, True),
        ({"min_prompt_tokens": 10}, {"prompt_chars": 39}, False),
        ({"max_prompt_tokens": 10}, {"prompt_chars": 43}, True),
        ({"max_prompt_tokens": 10}, {"prompt_chars": 44}, False),
        ({"max_prompt_tokens": 0}, {"prompt_chars": 4}, False),
    ],
)
def test_a_route_takes_what_meets_each_condition(
    match: dict[str, Any], request_given: dict[str, Any], taken: bool
) -> None:
    assert matches(Match(**match), features(**request_given), classification()) is taken


@pytest.mark.parametrize(
    ("label", "confidence", "taken"), [("math", 0.5, True), ("math", 0.49, False), ("code", 0.9, False)]
)
def test_the_label_counts_only_with_enough_confidence(label: str, confidence: float, taken: bool) -> None:
    wanted = Match(workloads=frozenset({"math"}), min_confidence=0.5)
    assert matches(wanted, features(), classification(label, confidence)) is taken


def test_one_unmet_condition_is_enough() -> None:
    wanted = Match(models=frozenset({"tiny"}), workloads=frozenset({"math"}), stream=False)
    assert not matches(wanted, features(stream=True), classification("math"))
