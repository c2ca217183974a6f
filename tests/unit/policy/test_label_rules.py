from __future__ import annotations

import pytest

from gateway.core.features import RequestView, Turn
from gateway.policy.load import Invalid, Loaded, load_policy

POLICY = """\
version: 1
classify:
  default: sql
  rules:
    - {label: sql, text: "(?i)select", endpoint: chat}
    - {label: legal, header: {X-Team: "^contracts"}, metadata: {app: ide}, model: "gemma*", tenant: acme, system: law}
routes:
  - {name: sql, match: {workload: [sql, math]}, prefer: [any]}
  - {name: rest, prefer: [any]}
"""


def test_labels_of_the_policy_are_workloads_of_its_routes() -> None:
    loaded = load_policy(POLICY)
    assert isinstance(loaded, Loaded), loaded
    policy = loaded.value
    assert policy.routes[0].match.workloads == {"sql", "math"}
    sql, legal = policy.classifier.rules
    assert sql.fits(RequestView("chat", "m", turns=(Turn("user", "SELECT 1", 8),)))
    assert (legal.label, legal.models, legal.tenants) == ("legal", ("gemma*",), {"acme"})
    assert legal.headers[b"x-team"].pattern == "^contracts"
    assert legal.metadata["app"].pattern == "ide"
    assert legal.system is not None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("workload: [sql, math]", "workload: [sqk, math]", "did you mean 'sql'?"),
        ("default: sql", "default: sqk", "did you mean 'sql'?"),
        ("(?i)select", "(select", "is not a regular expression"),
        (', text: "(?i)select", endpoint: chat', "", "the rule takes every request"),
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


@pytest.mark.parametrize("classify", ["3", "{rules: 3}", "{rules: [{label: 3}]}"])
def test_rules_of_another_shape_are_mistakes_and_no_more(classify: str) -> None:
    result = load_policy(f"version: 1\nclassify: {classify}\nroutes: [{{name: all, prefer: [any]}}]\n")
    assert isinstance(result, Invalid)
