from __future__ import annotations

import json

import pytest

from backends.sim.fields import Fields, RefusalError


def test_a_refusal_is_a_body_in_the_shape_of_the_real_server() -> None:
    refusal = RefusalError("no\ud800", param="x", kind="NotFoundError", status=404)
    expected = {"error": {"message": "no?", "type": "NotFoundError", "param": "x", "code": 404}}
    assert json.loads(refusal.body()) == expected


def test_ten_problems_are_shown_and_the_rest_counted() -> None:
    fields = Fields({})
    for index in range(12):
        fields.add("missing", f"f{index}", "Field required", [1, 2])
    with pytest.raises(RefusalError) as caught:
        fields.raise_if_invalid()
    lines = caught.value.message.split("\n")
    assert (lines[0], len(lines), lines[-1]) == ("12 validation errors:", 12, "  ...and 2 more errors")
    assert "'input': '<list of 2 items>'" in lines[1]


def test_lists_of_integers_and_required_text() -> None:
    fields = Fields({"good": [1, 2], "bad": ["a"], "text": "x"})
    assert fields.ids("good", [1, "2", 3.0]) == (1, 2, 3)
    assert fields.string("text", required=True) == "x"
    fields.raise_if_invalid()
    fields.ids("bad", ["a", 1.5, None, -1])
    assert fields.ids("none", None) == ()
    assert fields.string("none", required=True) is None
    assert [problem["type"] for problem in fields.problems] == [
        "int_parsing",
        "int_from_float",
        "int_type",
        "greater_than_equal",
        "list_type",
        "missing",
    ]
