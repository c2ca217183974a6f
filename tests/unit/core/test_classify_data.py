from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.core.classify import RuleClassifier
from gateway.core.features import extract
from gateway.wire.inbound import Malformed, view

DATA: Final = Path(__file__).parents[4] / "shared" / "data" / "classify" / "dev.jsonl"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    if not DATA.exists():
        pytest.skip("labelled requests are not part of the repository")
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


def label(row: dict[str, Any]) -> str:
    seen = view("chat", json.dumps(row["request"]).encode(), {})
    assert not isinstance(seen, Malformed)
    return RuleClassifier().label(seen, extract(seen)).label


def accuracy(rows: list[dict[str, Any]]) -> float:
    return sum(bool(label(row) == row["label"]) for row in rows) / len(rows)


def test_labels_of_sources_that_are_new(rows: list[dict[str, Any]]) -> None:
    assert accuracy([row for row in rows if row["dev_kind"] == "dev_only_source"]) >= 0.93


def test_every_workload_is_found(rows: list[dict[str, Any]]) -> None:
    totals = Counter(row["label"] for row in rows)
    found = Counter(row["label"] for row in rows if label(row) == row["label"])
    assert {name: found[name] / total for name, total in totals.items() if found[name] < 0.87 * total} == {}


@pytest.mark.parametrize(
    ("kind", "floor"),
    [
        ("tools_declared_plain_output", 0.83),
        ("multi_turn_topic_switch", 0.9),
        ("misleading_system_prompt", 0.9),
    ],
)
def test_rows_made_to_mislead(rows: list[dict[str, Any]], kind: str, floor: float) -> None:
    assert accuracy([row for row in rows if row.get("hard") == kind]) >= floor
