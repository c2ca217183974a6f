from __future__ import annotations

from gateway.core.memo import remembered


def test_a_text_is_worked_out_once_until_it_is_forgotten() -> None:
    asked: list[str] = []

    def upper(text: str) -> str:
        asked.append(text)
        return text.upper()

    remembering = remembered(upper, most=2)
    assert [remembering(text) for text in ("a", "b", "a", "b")] == ["A", "B", "A", "B"]
    assert asked == ["a", "b"]
    assert remembering("c") == "C"
    assert remembering("b") == "B"
    assert asked == ["a", "b", "c"]
    assert remembering("a") == "A"
    assert asked == ["a", "b", "c", "a"]
