from __future__ import annotations

import pytest

from backends.sim.look import Kind
from backends.sim.text import begun, compose, starts
from backends.sim.tokens import END_OF_TURN, decode

KINDS = [Kind(name) for name in ("math", "code", "chat", "grounded", "tool_use")] + [
    Kind("multilingual", language) for language in ("de", "fr", "es", "vi", "zh", "ja", "ar")
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.workload}-{kind.language}")
def test_an_answer_is_about_as_long_as_asked_and_ends_with_a_paragraph(kind: Kind) -> None:
    for start in range(starts(kind)):
        ids = compose(kind, start, 600)
        assert 400 < len(ids) < 900
        text = decode(ids)
        assert text.count("```") % 2 == 0
        assert text.rstrip()[-1] in ".!?。»`>؟$*|:)" or text.endswith("\\blacksquare$")


def test_an_endless_answer_repeats_the_text() -> None:
    short, long = (compose(Kind("tool_use"), 1, length, endless=True) for length in (500, 3000))
    assert len(long) >= 3000
    assert long[: len(short)] == short


def test_a_short_answer_is_one_paragraph() -> None:
    assert "\n\n" not in decode(compose(Kind("chat"), 3, 1))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.workload}-{kind.language}")
def test_a_part_of_an_answer_tells_where_it_starts(kind: Kind) -> None:
    for start in range(starts(kind)):
        ids = compose(kind, start, 600)
        for said in (len(ids), 1, 30):
            found = begun([5, 6, *ids[:said]], 2)
            assert (kind, start) in found
        assert begun(ids[:30], 0) == [(kind, start)]
        assert not begun([*ids[:30], 5, 6], 0)
        assert not begun([*ids, 5, 6], 0)


def test_a_token_that_starts_no_paragraph_begins_no_answer() -> None:
    assert not begun([END_OF_TURN], 0)
