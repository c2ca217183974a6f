from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.core.features import WORKLOADS, Hints, RequestView, Turn
from gateway.core.labels import LabelRule, known, without_suffix
from gateway.core.policy import ClassifierSettings

VIEW = RequestView(
    endpoint="chat",
    model="gemma-4-31b",
    path="/v1/chat/completions",
    turns=(
        Turn("system", "You know SQL.", 13),
        Turn("user", "select one", 10),
        Turn("assistant", "Done.", 5),
        Turn("user", "now delete it", 13),
    ),
    hints=Hints(tenant="acme"),
    metadata={"app": "ide"},
    headers={b"x-team": b"contracts-eu"},
)
SQL = ClassifierSettings(rules=(LabelRule("sql"),))


def fits(**fields: Any) -> bool:
    return LabelRule("sql", **fields).fits(VIEW)


def test_a_rule_that_asks_nothing_fits_everything() -> None:
    assert fits()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": re.compile("delete")}, True),
        ({"text": re.compile("select")}, False),
        ({"system": re.compile("SQL")}, True),
        ({"system": re.compile("delete")}, False),
        ({"headers": {b"x-team": re.compile("^contracts")}}, True),
        ({"headers": {b"x-team": re.compile("^sales")}}, False),
        ({"headers": {b"x-other": re.compile(".")}}, False),
        ({"metadata": {"app": re.compile("^ide$")}}, True),
        ({"metadata": {"other": re.compile(".")}}, False),
        ({"models": ("gemma*", "x")}, True),
        ({"models": ("qwen*",)}, False),
        ({"tenants": frozenset({"acme"})}, True),
        ({"tenants": frozenset({"other"})}, False),
        ({"endpoints": frozenset({"chat"})}, True),
        ({"endpoints": frozenset({"completions"})}, False),
        ({"path": re.compile("/chat/")}, True),
        ({"path": re.compile("^/chat")}, False),
        ({"text": re.compile("delete"), "tenants": frozenset({"other"})}, False),
    ],
)
def test_all_that_a_rule_gives_must_fit(fields: dict[str, Any], expected: bool) -> None:
    assert fits(**fields) is expected


def test_a_request_without_a_user_message_has_no_text() -> None:
    assert not LabelRule("sql", text=re.compile("")).fits(RequestView("chat", "m"))


def test_labels_are_known_by_being_built_in_named_or_the_default() -> None:
    assert known(ClassifierSettings(default="bulk", rules=SQL.rules)) == {*WORKLOADS, "bulk", "sql"}


def test_a_label_behind_the_model_is_a_hint() -> None:
    for label in ("code", "sql"):
        view = without_suffix(RequestView("chat", f"gemma-4-31b:{label}"), SQL, {"gemma-4-31b"})
        assert (view.model, view.hints.workload) == ("gemma-4-31b", label)


@pytest.mark.parametrize("model", ["gemma-4-31b", "qwen:7b", "gemma:code", ":"])
def test_other_models_are_left_alone(model: str) -> None:
    view = RequestView("chat", model)
    assert without_suffix(view, SQL, {"gemma:code"}) is view


def test_a_hint_of_the_header_is_stronger_and_a_hint_that_is_not_trusted_is_none() -> None:
    sent = RequestView("chat", "m:code", hints=Hints(workload="math"))
    assert without_suffix(sent, SQL, ()).hints.workload == "math"
    silent = without_suffix(RequestView("chat", "m:code"), ClassifierSettings(trust_hints=False), ())
    assert (silent.model, silent.hints.workload) == ("m", None)
