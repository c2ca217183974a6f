"""What is trained on beside the data set may hold nothing of the rows that figures are told for."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
DEV: Final = ROOT.parent / "shared" / "data" / "classify" / "dev.jsonl"
WRITTEN: Final = tuple(
    file
    for folder in ("backends/prompts", "gateway/training")
    for file in sorted((ROOT / folder).glob("*.jsonl"))
)

GRAM: Final = 5
READ: Final = 600
ALIKE: Final = 0.35
"""Share of character 5-grams in common from which one text is the other one reworded; two that only begin
alike ("What is the difference between a … and a …?") reach 0.33."""


def normalised(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def said(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for message in row["request"]["messages"]:
        if isinstance(message["content"], str):
            yield message["role"], normalised(message["content"])


def asked(row: dict[str, Any]) -> str:
    return [text for role, text in said(row) if role == "user"][-1]


def grams(text: str) -> frozenset[str]:
    cut = text[:READ]
    return frozenset(cut[at : at + GRAM] for at in range(max(len(cut) - GRAM + 1, 1)))


def alike(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@lru_cache(maxsize=1)
def dev() -> list[dict[str, Any]]:
    if not DEV.exists():
        pytest.skip("labelled requests are not part of the repository")
    return rows(DEV)


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.name)
def test_no_message_of_dev_is_trained_on(file: Path) -> None:
    known = {text for row in dev() for _, text in said(row)}
    assert [(row["id"], text) for row in rows(file) for _, text in said(row) if text in known] == []


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.name)
def test_no_request_of_dev_is_trained_on_in_other_words(file: Path) -> None:
    known = [(row["id"], grams(asked(row))) for row in dev()]
    mine = [(row["id"], grams(asked(row))) for row in rows(file)]
    assert [(one, other) for one, has in mine for other, had in known if alike(has, had) >= ALIKE] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What can you actually do for me?", "What can you do for me?"),
        ("Do I need an umbrella in Lima tomorrow?", "do I need an umbrella in Turin right now"),
        ("Eine Kiste ist doppelt so lang wie breit.", "Eine Kiste ist dreimal so lang wie breit!"),
        ("请问今天下午北京的天气怎么样,出门要不要带伞", "请问明天下午北京的天气怎么样,出门要不要带伞"),
    ],
)
def test_the_same_in_other_words_is_noticed(one: str, other: str) -> None:
    assert alike(grams(normalised(one)), grams(normalised(other))) >= ALIKE
    assert alike(grams(normalised(one)), grams(normalised("Tell me about bees."))) < ALIKE
