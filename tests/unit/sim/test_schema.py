# ruff: noqa: S311 - seeded draws, no secrets
from __future__ import annotations

from random import Random
from typing import Any

import pytest

from backends.sim.schema import example

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 18, "maximum": 21},
        "mood": {"enum": ["calm", "cross"]},
        "height": {"type": "number", "exclusiveMinimum": 1},
        "kin": {"type": "array", "items": {"$ref": "#/$defs/Ref"}, "minItems": 2, "maxItems": 2},
        "nick": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]},
        "fixed": {"const": 7},
        "both": {"allOf": [{"type": "object"}, {"properties": {"on": {"type": "boolean"}}}]},
        "gone": {"type": ["null"]},
        "either": {"type": ["null", "string"], "format": "date"},
    },
    "required": ["name"],
    "$defs": {"Ref": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


def test_a_value_has_what_the_schema_asks_for() -> None:
    for seed in range(20):
        value = example(PERSON, Random(seed))
        assert list(value) == list(PERSON["properties"])
        assert 18 <= value["age"] <= 21
        assert value["mood"] in ("calm", "cross")
        assert value["height"] > 1
        assert [set(kin) for kin in value["kin"]] == [{"city"}, {"city"}]
        assert len(value["nick"]) <= 3
        assert value["fixed"] == 7
        assert isinstance(value["both"]["on"], bool)
        assert value["gone"] is None
        assert value["either"] == "2026-03-14"


@pytest.mark.parametrize("schema", [None, {}, True, {"type": "object"}, {"$ref": "#/nowhere"}, {"$ref": "#"}])
def test_a_schema_that_says_nothing_gives_an_empty_object(schema: Any) -> None:
    assert example(schema, Random(1)) == {}


def test_a_schema_that_contains_itself_ends() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "leaf": {"type": "string"}},
        "required": ["next"],
    }
    value, depth = example(node, Random(1)), 0
    while isinstance(value, dict):
        value, depth = value["next"], depth + 1
    assert 2 < depth < 20


def test_a_string_is_as_long_as_it_must_be() -> None:
    assert len(example({"type": "string", "minLength": 300}, Random(1))) == 300


def test_a_schema_without_bottom_is_refused() -> None:
    schema: Any = {}
    for _ in range(3000):
        schema = {"allOf": [schema]}
    with pytest.raises(ValueError, match="not a JSON schema"):
        example(schema, Random(1))
