from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core.classify import (
    Asked,
    Classification,
    RuleClassifier,
    classify,
    classify_all,
    reason,
    wordless,
)
from gateway.core.features import WORKLOADS, Features, Hints, RequestView, Tool, Turn, extract
from gateway.core.labels import LabelRule
from gateway.core.policy import ClassifierSettings
from tests.factories import learnt_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

RULES = RuleClassifier()
SETTINGS = ClassifierSettings()


class Fixed:
    """A classifier of another kind than rules."""

    def __init__(self, found: Classification) -> None:
        self.found = found

    def labels(self, requests: Sequence[tuple[RequestView, Features]], /) -> list[Classification]:
        return [self.found for _ in requests]


def view(text: str, *, hint: str | None = None, tools: tuple[Tool, ...] = ()) -> RequestView:
    return RequestView(
        endpoint="chat",
        model="m",
        turns=(Turn("user", text, len(text)),),
        tools=tools,
        hints=Hints(workload=hint),
    )


def label(text: str, settings: ClassifierSettings = SETTINGS, **more: Any) -> Classification:
    asked = view(text, **more)
    return classify(asked, extract(asked), settings, RULES)


def why(text: str, **more: Any) -> str:
    asked = view(text, **more)
    features = extract(asked)
    return reason(classify(asked, features, SETTINGS, RULES), features)


def test_a_trusted_hint_decides() -> None:
    assert label("Prove that 2 + 2 = 4", hint="code") == Classification("code", 1.0, "hint")


def test_a_hint_may_name_the_default_of_the_policy() -> None:
    assert label("hello", ClassifierSettings(default="bulk"), hint="bulk").source == "hint"


@pytest.mark.parametrize(
    ("settings", "hint"), [(ClassifierSettings(trust_hints=False), "code"), (SETTINGS, "no such workload")]
)
def test_other_hints_do_not_decide(settings: ClassifierSettings, hint: str) -> None:
    found = label("Prove that 2 + 2 = 4", settings, hint=hint)
    assert (found.label, found.source) == ("math", "rule:math_named")


def test_below_the_threshold_the_default_of_the_policy_is_taken() -> None:
    found = label("Tell me about Rome.", ClassifierSettings(default="grounded", threshold=0.9))
    assert (found.label, found.source) == ("grounded", "default")
    assert found.confidence < 0.9


def test_at_the_threshold_the_label_is_kept() -> None:
    confidence = label("Tell me about Rome.").confidence
    assert label("Tell me about Rome.", ClassifierSettings(threshold=confidence)).source == "rule:otherwise"


def test_a_request_without_text_gets_the_default() -> None:
    assert label("") == Classification("chat", 0.0, "default")


def test_another_classifier_may_take_the_place_of_the_rules() -> None:
    found = Classification("math", 0.7, "model:m1", {"math": 0.7, "chat": 0.3})
    asked = view("hello")
    assert classify(asked, extract(asked), SETTINGS, Fixed(found)) is found
    unsure = classify(asked, extract(asked), ClassifierSettings(threshold=0.8), Fixed(found))
    assert (unsure.label, unsure.source, unsure.scores) == ("chat", "default", found.scores)


def test_the_policy_may_ask_for_rules_alone() -> None:
    found = Classification("math", 0.7, "model:m1")
    asked = view("Write a Python function that adds.")
    by_rules = classify(asked, extract(asked), ClassifierSettings(model="rules"), Fixed(found))
    assert (by_rules.label, by_rules.source) == ("code", "rule:code_asked")


def test_several_requests_get_the_labels_that_each_gets_alone() -> None:
    found = Classification("math", 0.55, "model:m1", {"math": 0.55, "code": 0.45})
    settings = (SETTINGS, ClassifierSettings(model="rules"), ClassifierSettings(threshold=0.8, unsure="mix"))
    views = (view("Write a Python function that adds."), view("hello", hint="code"), view(""))
    asked = [
        Asked(one, extract(one), said, before)
        for one in views
        for said in settings
        for before in ((), ("code", "code", "code"))
    ]
    alone = [classify(one.view, one.features, one.settings, Fixed(found), one.before) for one in asked]
    assert classify_all(asked, Fixed(found)) == alone
    assert {one.source for one in alone} == {
        "model:m1",
        "session",
        "mix",
        "rule:code_asked",
        "default",
        "hint",
    }


def test_rules_of_the_policy_come_after_hints_and_before_models() -> None:
    settings = ClassifierSettings(rules=(LabelRule("sql", text=re.compile("select")), LabelRule("legal")))
    assert label("select 1", settings) == Classification("sql", 1.0, "policy")
    assert label("hello", settings).label == "legal"
    assert label("select 1", settings, hint="legal").source == "hint"
    asked = view("select 1")
    assert reason(label("select 1", settings), extract(asked)) == "sql, because a rule of the policy says so"


def test_rules_give_labels_of_the_closed_set() -> None:
    assert label("Write a Python function that adds.").label in WORKLOADS


def test_the_reason_of_a_rule_names_its_evidence() -> None:
    text = why("Write a Python function that adds two numbers.")
    assert text.startswith("code, because the message asks for code (code_names 1")
    assert text.endswith("; rule code_asked, confidence 0.93")


def test_the_reason_names_the_language_of_the_answer() -> None:
    assert "answer in fr" in why("Comment puis-je garder le pain frais ?")


def test_the_reason_of_a_hint_is_the_caller() -> None:
    assert why("hello", hint="math") == "math, because the caller said so"


def test_the_reason_of_the_default_is_the_lack_of_another() -> None:
    assert "the policy's default" in why("")


def test_the_reason_of_a_model_is_its_confidence() -> None:
    features = extract(view("hello"))
    found = Classification("math", 0.7, "model:m1")
    assert reason(found, features) == "math, because model m1 finds it most likely (confidence 0.70)"


def test_a_rule_of_another_version_has_a_reason_too() -> None:
    found = dataclasses.replace(label("Tell me about Rome."), source="rule:retired")
    assert "rule retired" in reason(found, extract(view("hello")))


SURE = Classification("code", 0.7, "model:m1", {"code": 0.7, "chat": 0.3})


def beside(
    odds: float, text: str = "Is this contract void?", found: Classification = SURE, **settings: Any
) -> Classification:
    """What is found beside a label of the operator's own that has these odds in logarithms."""
    asked = view(text)
    own = learnt_labels(odds, "legal")
    return classify(asked, extract(asked), ClassifierSettings(examples=own, **settings), Fixed(found))


def test_a_label_learnt_from_examples_takes_a_request_where_it_is_the_likeliest() -> None:
    found = beside(1.0)
    assert (found.label, found.source) == ("legal", "examples")
    assert found.confidence == pytest.approx(0.73, abs=0.01)
    assert found.scores == pytest.approx({"legal": 0.731, "code": 0.188, "chat": 0.081}, abs=0.001)
    asked = view("Is this contract void?")
    assert reason(found, extract(asked)) == (
        "legal, because it is like the examples of that label (confidence 0.73)"
    )


def test_it_takes_none_that_it_is_not_sure_enough_of() -> None:
    found = beside(1.0, threshold=0.75)
    assert (found.label, found.source) == ("chat", "default")
    assert beside(1.0, threshold=0.7).label == "legal"
    assert beside(-0.3, threshold=0.3).label == "legal"


def test_what_was_found_stands_where_it_is_likelier_and_all_labels_count_in_a_mixture() -> None:
    found = beside(-1.0)
    assert (found.label, found.confidence, found.source) == ("code", 0.7, "model:m1")
    assert found.scores["legal"] == pytest.approx(0.269, abs=0.001)
    mixed = beside(-1.0, threshold=0.8, unsure="mix")
    assert (mixed.source, mixed.scores) == ("mix", found.scores)


def test_it_competes_with_rules_too() -> None:
    rule = Classification("code", 0.9, "rule:code_asked")
    assert beside(1.0, found=rule).label == "legal"
    assert beside(-1.0, found=rule) == rule


@pytest.mark.parametrize("text", ["", " \n\t ", "🙂 👍", "?!"])
def test_it_takes_no_request_without_words(text: str) -> None:
    assert beside(9.0, text=text).label == "code"


@pytest.mark.parametrize(
    ("text", "nothing"), [("", True), (" \u00a0\n", True), ("…🙂", True), ("x", False), ("七", False)]
)
def test_letters_and_digits_of_all_scripts_are_words(text: str, nothing: bool) -> None:
    assert wordless(view(text)) is nothing
    assert wordless(RequestView("chat", "m"))


def test_a_rule_has_no_other_reason_than_itself() -> None:
    asked = view("Prove that 2 + 2 = 4")
    assert RULES.reasons(asked, extract(asked), "math") == []


GUESS = Classification("chat", 0.5, "model:m1", {"chat": 0.5, "code": 0.45, "math": 0.05})


def guessed(
    settings: ClassifierSettings, *before: str, found: Classification = GUESS, answered: bool = False
) -> Classification:
    asked = view("And now the other one.")
    if answered:
        asked = dataclasses.replace(asked, turns=(Turn("assistant", "Yes.", 4), *asked.turns))
    return classify(asked, extract(asked), settings, Fixed(found), before)


def test_what_the_sessions_answers_were_can_turn_a_close_guess_and_is_named() -> None:
    found = guessed(SETTINGS, "code")
    assert (found.label, found.source) == ("code", "session")
    assert sum(found.scores.values()) == pytest.approx(1.0)
    assert found.confidence == found.scores["code"] == pytest.approx(0.675 / 1.225)
    assert reason(found, extract(view("x"))) == (
        "code, because the answers before it in its session were that (confidence 0.55)"
    )


def test_a_guess_that_the_sessions_answers_agree_with_stays_the_models_and_is_surer() -> None:
    found = guessed(SETTINGS, "text")
    assert (found.label, found.source) == ("chat", "model:m1")
    assert found.confidence > GUESS.confidence


@pytest.mark.parametrize(
    ("found", "answered"),
    [
        (GUESS, True),  # the model has read the answers itself
        (Classification("tool_use", 0.9, "rule:tool_name", {"tool_use": 0.3, "code": 0.7}), False),
        (Classification("chat", 0.6, "rule:otherwise"), False),
    ],
)
def test_answers_that_the_request_holds_and_rules_go_before_memory(
    found: Classification, answered: bool
) -> None:
    assert guessed(SETTINGS, "code", found=found, answered=answered) is found


def test_a_session_can_make_sure_enough_what_was_not() -> None:
    settings = ClassifierSettings(default="grounded", threshold=0.54)
    assert guessed(settings).source == "default"
    assert guessed(settings, "code").label == "code"
    assert guessed(ClassifierSettings(default="grounded", threshold=0.9), "code").label == "grounded"


def test_the_policy_may_mix_what_is_not_sure_enough() -> None:
    settings = ClassifierSettings(default="grounded", threshold=0.6, unsure="mix")
    found = guessed(settings)
    assert (found.label, found.confidence, found.source, found.scores) == ("chat", 0.5, "mix", GUESS.scores)
    assert found.weights == GUESS.scores
    assert reason(found, extract(view("x"))) == (
        "chat, the likeliest, but not sure enough: each counts by its probability "
        "(chat 0.50, code 0.45, math 0.05)"
    )
    assert guessed(dataclasses.replace(settings, threshold=0.5)).source == "model:m1"


def test_where_there_is_nothing_to_mix_the_default_is_taken() -> None:
    unsure = Classification("math", 0.2, "rule:otherwise")
    found = guessed(ClassifierSettings(default="grounded", unsure="mix"), found=unsure)
    assert (found.label, found.source) == ("grounded", "default")


def test_a_default_counts_alone_and_so_does_what_was_said() -> None:
    assert guessed(ClassifierSettings(default="grounded", threshold=0.9)).weights == {"grounded": 1.0}
    assert label("hello", hint="math").weights == {"math": 1.0}
    assert GUESS.weights == GUESS.scores
