import re
from dataclasses import fields, is_dataclass, replace

import pytest

from gateway.core.breaker import BreakerSettings
from gateway.core.classes import ClassMatch, ServiceClass, digest
from gateway.core.labels import LabelRule
from gateway.core.plan import Limits
from gateway.core.policy import (
    ClassifierSettings,
    Learning,
    Match,
    Resume,
    Selector,
    Timeouts,
    WeightedScorer,
)
from gateway.core.predict import ServerModel
from gateway.policy.differences import differences
from tests.factories import learnt_labels, policy, route

MATH = route(
    name="math", match=Match(workloads=frozenset({"math"})), prefer=(Selector(method="mtp"), Selector())
)
REST = route(name="rest", prefer=(Selector(),))
OLD = policy(MATH, REST)


def told(new, old=OLD):
    return differences(old, new)


def labels(bias):
    return learnt_labels(bias)


def test_equal_policies_differ_in_nothing():
    assert told(replace(OLD, revision="another")) == ()


def test_routes():
    new = policy(
        REST,
        replace(
            MATH, prefer=(Selector(),), max_attempts=2, match=Match(workloads=frozenset({"math", "code"}))
        ),
        route(
            name="long",
            match=Match(min_prompt_tokens=9),
            prefer=(Selector(name="a*"), Selector(draft_tokens=3)),
        ),
    )
    assert told(new) == (
        "routes.math.match.workload: math → code, math",
        "routes.math.prefer: method: mtp, then any → any",
        "routes.math.max_attempts: 3 → 2",
        (
            "routes.long: new, number 3 of 3: takes at least 9 prompt tokens, "
            "prefers a*, then draft_tokens: 3, score preference 1, then load 4"
        ),
        "routes: tried in another order, rest, math, long",
    )
    assert told(policy(REST)) == ("routes.math: taken out",)


def test_models():
    assert told(replace(OLD, aliases={"tiny": "org/Other", "big": "org/Big"})) == (
        "models.tiny: org/Tiny → org/Other",
        "models.big: new, org/Big",
    )
    assert told(replace(OLD, aliases={})) == ("models.tiny: taken out",)


def test_classes():
    keys = frozenset({digest(b"one"), digest(b"two")})
    chat = ServiceClass("chat", ClassMatch(stream=True, keys=keys), Limits(tpot=0.05), priority=1)
    added = replace(OLD, classes=(chat,))
    (line,) = told(added)
    assert line == "classes.chat: new, name chat, match key_sha256 2 keys, stream true, tpot 0.05, priority 1"
    changed = replace(chat, limits=Limits(tpot=0.02, ttft=1.0), match=ClassMatch(stream=True))
    assert told(replace(OLD, classes=(changed,)), added) == (
        "classes.chat.match.key_sha256: 2 keys → none",
        "classes.chat.ttft: none → 1",
        "classes.chat.tpot: 0.05 → 0.02",
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"timeouts": Timeouts(idle=1.5)}, "timeouts.idle: 60 → 1.5"),
        ({"resume": Resume(mode="exact")}, "resume.mode: off → exact"),
        ({"breaker": BreakerSettings(trials=9)}, "breaker.trials: 1 → 9"),
        ({"trust_class": False}, "trust_class: true → false"),
        ({"learning": Learning(explore=0.03)}, "learning.explore: 0 → 0.03"),
        ({"learning": Learning(known={"a": ServerModel()})}, "learning.file.a: new, as learnt"),
        (
            {"classifier": ClassifierSettings(rules=(LabelRule("sql", text=re.compile("SELECT")),))},
            "classify.rules: none → label sql, text /SELECT/",
        ),
        ({"classifier": ClassifierSettings(examples=labels(0.0))}, "classify.examples: none → labels sql"),
    ],
)
def test_settings(change, line):
    assert told(replace(OLD, **change)) == (line,)


def test_what_cannot_be_told_in_words_is_told_to_have_changed():
    old = replace(
        OLD,
        learning=Learning(known={"a": ServerModel()}),
        classifier=ClassifierSettings(examples=labels(0.0)),
    )
    new = replace(
        OLD,
        learning=Learning(known={"a": ServerModel(prefill_seconds=1.0)}),
        classifier=ClassifierSettings(examples=labels(1.0)),
    )
    assert told(new, old) == (
        "classify.examples: its content changed",
        "learning.file.a: its content changed",
    )


def test_long_lists_are_cut_short():
    many = tuple(WeightedScorer(f"s{number}", 1.0) for number in range(10))
    (line,) = told(policy(MATH, replace(REST, scorers=many)))
    assert line.endswith("then s7 1 and 2 more")


def test_no_setting_of_a_policy_is_overlooked():
    """Each field of each part of a policy, changed alone, is told."""
    whole = replace(OLD, classes=(ServiceClass("chat"),))
    for path in _paths(whole):
        assert told(_changed(whole, path), whole), path


def _paths(value):
    for one in fields(value):
        inner = getattr(value, one.name)
        if one.name in {"revision", "known"}:
            continue
        if is_dataclass(inner):
            yield from ((one.name, *rest) for rest in _paths(inner))
        else:
            yield (one.name,)


def _changed(value, path):
    name, *rest = path
    inner = getattr(value, name)
    if rest:
        return replace(value, **{name: _changed(inner, rest)})
    others = {
        bool: lambda: not inner, int: lambda: inner + 1, float: lambda: inner + 0.5, str: lambda: f"{inner}x",
        tuple: lambda: inner[:-1] or (WeightedScorer("load", 1.0),), dict: dict,
    }  # fmt: skip
    return replace(value, **{name: others.get(type(inner), lambda: 1)()})


def test_that_classes_are_tried_in_another_order():
    first, second = ServiceClass("a"), ServiceClass("b")
    old = replace(OLD, classes=(first, second))
    assert told(replace(OLD, classes=(second, first)), old) == ("classes: tried in another order, b, a",)
    (new,) = told(replace(OLD, classes=(first, ServiceClass("c"), second)), old)
    assert new.startswith("classes.c: new")


def test_that_prompts_may_leave_the_house_is_told():
    leaving = route(name="out", prefer=(Selector(),), stand_ins=True)
    line = told(policy(MATH, REST, leaving))[0]
    assert line.endswith(", asks for stand-ins")
    assert told(policy(MATH, replace(REST, stand_ins=True))) == ("routes.rest.stand_ins: false → true",)
    keeping = ServiceClass("legal", stand_ins=False)
    assert told(replace(OLD, classes=(keeping,))) == (
        "classes.legal: new, name legal, match, stand_ins false",
    )
