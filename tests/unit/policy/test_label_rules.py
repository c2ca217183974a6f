from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.classify import RuleClassifier, classify, reason
from gateway.core.features import RequestView, Turn, extract
from gateway.policy.load import Invalid, Loaded, load_policy
from tests.factories import learnt_labels

if TYPE_CHECKING:
    from pathlib import Path

POLICY = """\
version: 1
classify:
  default: sql
  rules:
    - {label: sql, text: "(?i)select", endpoint: chat}
    - {label: legal, header: {X-Team: "^contracts"}, metadata: {app: ide}, model: "gemma*", tenant: acme, system: law}
    - {label: legacy, path: ^/old/}
routes:
  - {name: sql, match: {workload: [sql, math]}, prefer: [any]}
  - {name: rest, prefer: [any]}
"""


def test_labels_of_the_policy_are_workloads_of_its_routes() -> None:
    loaded = load_policy(POLICY)
    assert isinstance(loaded, Loaded), loaded
    policy = loaded.value
    assert policy.routes[0].match.workloads == {"sql", "math"}
    sql, legal, legacy = policy.classifier.rules
    assert sql.fits(RequestView("chat", "m", turns=(Turn("user", "SELECT 1", 8),)))
    assert (legal.label, legal.models, legal.tenants) == ("legal", ("gemma*",), {"acme"})
    assert legal.headers[b"x-team"].pattern == "^contracts"
    assert legal.metadata["app"].pattern == "ide"
    assert legal.system is not None
    assert legacy.fits(RequestView("other", "m", path="/old/generate"))
    assert not legacy.fits(RequestView("other", "m", path="/v1/old/"))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("workload: [sql, math]", "workload: [sqk, math]", "did you mean 'sql'?"),
        ("default: sql", "default: sqk", "did you mean 'sql'?"),
        ("(?i)select", "(select", "is not a regular expression"),
        ("^/old/", "'(old'", "is not a regular expression"),
        (', text: "(?i)select", endpoint: chat', "", "the rule takes every request"),
        (
            ', text: "(?i)select", endpoint: chat',
            "",
            "give it text, system, header, metadata, model, tenant, endpoint or path",
        ),
        ("{label: sql,", "{label: 'a b',", "cannot be a name"),
        ("{label: sql,", "{", "the key 'label' is missing"),
        ('- {label: sql, text: "(?i)select", endpoint: chat}', "- 3", "this is the number 3"),
    ],
)
def test_a_mistake_in_a_rule_is_named(before: str, after: str, says: str) -> None:
    assert before in POLICY
    result = load_policy(POLICY.replace(before, after, 1))
    assert isinstance(result, Invalid)
    assert says in "\n".join(map(str, result.problems))


def test_labels_learnt_from_examples_are_workloads_of_the_routes(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(learnt_labels(9.0).to_json())
    text = "version: 1\nclassify: {examples: own.json}\nroutes: [{name: a, match: {workload: sql}, prefer: [any]}]\n"
    loaded = load_policy(text, folder=tmp_path)
    assert isinstance(loaded, Loaded), loaded
    settings = loaded.value.classifier
    view = RequestView("chat", "m", turns=(Turn("user", "hello", 5),))
    found = classify(view, extract(view), settings, RuleClassifier())
    assert (found.label, found.source) == ("sql", "examples")
    assert "like the examples" in reason(found, extract(view))
    settings = replace(settings, examples=learnt_labels(-9.0))
    assert classify(view, extract(view), settings, RuleClassifier()).label == "chat"


@pytest.mark.parametrize("content", [None, b"{}", b"\xff"])
def test_a_file_of_examples_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "own.json").write_bytes(content)
    text = "version: 1\nclassify: {examples: own.json}\nroutes: [{name: a, prefer: [any]}]\n"
    result = load_policy(text, folder=tmp_path)
    assert isinstance(result, Invalid)
    (problem,) = result.problems
    assert (problem.path, "specroute classify" in problem.right) == ("classify.examples", True)


LEARNT = """\
version: 1
classify: {examples: EXAMPLES, default: sql}
routes:
  - {name: a, match: {workload: [sql, math]}, prefer: [any]}
  - {name: b, match: {workload: legal}, prefer: [any]}
  - {name: c, prefer: [any]}
"""


def test_a_policy_without_a_folder_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("os.open", lambda path, *_: opened.append(path))
    monkeypatch.setattr("io.open", lambda path, *_: opened.append(path))
    result = load_policy(LEARNT.replace("EXAMPLES", "/etc/passwd"), str(tmp_path / "policy.yaml"))
    assert isinstance(result, Loaded), result
    assert opened == []
    (warning,) = result.warnings
    assert (warning.line, warning.column, warning.path) == (2, 22, "classify.examples")
    assert "'/etc/passwd' was not read" in warning.wrong


def test_a_file_of_examples_elsewhere_is_one_mistake_with_its_place(tmp_path: Path) -> None:
    result = load_policy(LEARNT.replace("EXAMPLES", "../own.json"), folder=tmp_path)
    assert isinstance(result, Invalid)
    (problem,) = result.problems
    assert (problem.line, problem.column, problem.path) == (2, 22, "classify.examples")
    assert problem.wrong == "'../own.json' cannot be used: it is not in the policy's folder"
    assert problem.right.startswith("make it beside the policy: specroute classify")


@pytest.mark.parametrize("routes", ["3", "[3]", "[{match: 3}]", "[{match: {workload: [3, {}]}}]"])
def test_labels_are_looked_for_in_routes_of_any_shape(routes: str) -> None:
    result = load_policy(f"version: 1\nclassify: {{examples: own.json, default: 3}}\nroutes: {routes}\n")
    assert isinstance(result, Invalid)


@pytest.mark.parametrize("section", ["3", "{rules: 3}", "{rules: [{label: 3}]}", "{examples: 3}"])
def test_rules_of_another_shape_are_mistakes_and_no_more(section: str) -> None:
    result = load_policy(f"version: 1\nclassify: {section}\nroutes: [{{name: all, prefer: [any]}}]\n")
    assert isinstance(result, Invalid)


@pytest.mark.parametrize("label", ["other", "default"])
def test_a_label_that_stands_for_something_else_is_a_mistake(label: str) -> None:
    section = f"{{rules: [{{label: {label}, text: x}}]}}"
    result = load_policy(f"version: 1\nclassify: {section}\nroutes: [{{name: all, prefer: [any]}}]\n")
    assert isinstance(result, Invalid)
    (problem,) = [one for one in result.problems if one.path == "classify.rules[0].label"]
    assert problem.wrong == f"{label!r} stands for something else"
