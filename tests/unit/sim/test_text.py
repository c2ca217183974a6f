# ruff: noqa: S311 - seeded draws, no secrets
from __future__ import annotations

from random import Random

import pytest

from backends.sim.look import Kind
from backends.sim.text import compose

KINDS = [Kind(name) for name in ("math", "code", "chat", "grounded", "tool_use")] + [
    Kind("multilingual", language) for language in ("de", "fr", "es", "vi", "zh", "ja", "ar")
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.workload}-{kind.language}")
def test_an_answer_is_about_as_long_as_asked_and_ends_with_a_paragraph(kind: Kind) -> None:
    for seed in range(5):
        pieces = compose(kind, 600, Random(seed))
        assert 400 < len(pieces) < 900
        text = "".join(pieces)
        assert text.count("```") % 2 == 0
        assert text.rstrip()[-1] in ".!?。»`>؟$*|:)" or text.endswith("\\blacksquare$")


def test_an_endless_answer_repeats_the_text() -> None:
    assert len(compose(Kind("tool_use"), 3000, Random(1), endless=True)) >= 3000


def test_a_short_answer_is_one_paragraph() -> None:
    assert "\n\n" not in "".join(compose(Kind("chat"), 1, Random(3)))


def test_the_same_seed_says_the_same() -> None:
    assert compose(Kind("code"), 300, Random(4)) == compose(Kind("code"), 300, Random(4))
    assert len({tuple(compose(Kind("code"), 300, Random(seed))) for seed in range(10)}) > 1
