"""Makes JSON values that satisfy a simple JSON schema: arguments of tool calls, structured answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

_DEPTH: Final = 6  # where a schema that contains itself ends
_WORDS: Final = (
    "harbour",
    "quarterly report",
    "blue kettle",
    "north entrance",
    "weekly review",
    "spare parts",
)
_FORMATS: Final = {
    "date": "2026-03-14",
    "time": "09:30:00Z",
    "date-time": "2026-03-14T09:30:00Z",
    "email": "mira.holt@example.com",
    "uri": "https://example.com/items/42",
    "uuid": "1f0c2a6e-5b7d-4c3e-9a21-7d4b8e6f0c35",
}
_NAMED: Final = {
    "address": "12 Quay Street", "city": "Lisbon", "country": "Portugal", "currency": "EUR",
    "date": "2026-03-14",
    "email": "mira.holt@example.com", "language": "pt", "location": "Lisbon", "name": "Mira Holt",
    "path": "reports/2026/march.csv", "query": "tide tables for the coming week",
    "title": "Weekly review", "unit": "celsius", "url": "https://example.com/items/42",
}  # fmt: skip


def example(schema: object, rng: Random) -> Any:  # noqa: ANN401 - a JSON value
    """A value that satisfies a schema.

    Understands ``type``, ``properties``, ``required``, ``items``, ``enum``, ``const``, ``anyOf``, ``oneOf``,
    ``allOf``, ``$ref`` into the same document, ``format`` and simple bounds; ``pattern`` is not looked at.

    Args:
        schema: The schema; anything but an object allows everything.
        rng: Chooses among what is allowed.

    Raises:
        ValueError: The schema is none: a keyword has a value of a wrong type.
    """
    root = schema if isinstance(schema, dict) else {}
    try:
        return _Maker(root, rng).value(root, "", 0)
    except (AttributeError, RecursionError, TypeError) as error:
        raise ValueError(f"not a JSON schema: {error}") from error


class _Maker:
    def __init__(self, root: Mapping[str, Any], rng: Random) -> None:
        self._root = root
        self._rng = rng

    def value(self, schema: object, name: str, depth: int) -> Any:  # noqa: ANN401 - a JSON value
        """A value for a property called ``name``."""
        found = self._settled(schema)
        if "const" in found:
            return found["const"]
        if found.get("enum"):
            return self._rng.choice(found["enum"])
        match _type(found, depth):
            case "null":
                return None
            case "boolean":
                return self._rng.random() < 0.5
            case "integer" | "number" as kind:
                return self._number(found, whole=kind == "integer")
            case "array":
                return self._array(found, name, depth)
            case "object" if depth <= _DEPTH:
                return self._object(found, depth)
            case _:
                return self._text(found, name)

    def _settled(self, schema: object) -> dict[str, Any]:
        """The schema with references followed and one branch of every union taken."""
        for _ in range(_DEPTH):
            if not isinstance(schema, dict):
                return {}
            branches = schema.get("anyOf") or schema.get("oneOf")
            if isinstance(schema.get("$ref"), str):
                schema = self._referred(schema["$ref"])
            elif branches:
                schema = next((branch for branch in branches if branch.get("type") != "null"), branches[0])
            elif schema.get("allOf"):
                schema = {
                    key: value for part in schema["allOf"] for key, value in self._settled(part).items()
                }
            else:
                return schema
        return {}

    def _referred(self, reference: str) -> object:
        found: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(part) if isinstance(found, dict) and part else found
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {
            key: self.value(value, key, depth + 1)
            for key, value in properties.items()
            if key in required or depth < 2  # deep down only what must be there
        }

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        size = max(schema.get("minItems", 0), min(schema.get("maxItems", 3), self._rng.randint(1, 3)))
        items = schema.get("items", {"type": "string"})
        return [self.value(items, name, depth + 1) for _ in range(size)]

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
        high = max(low, schema.get("maximum", schema.get("exclusiveMaximum", low + 21) - 1))
        return self._rng.randint(int(low), int(high)) if whole else round(self._rng.uniform(low, high), 2)

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        last = name.lower().rsplit("_", 1)[-1]
        text = _FORMATS.get(schema.get("format", "")) or _NAMED.get(last) or self._rng.choice(_WORDS)
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _type(schema: Mapping[str, Any], depth: int) -> str:
    """The type that a schema means; at the top an object where it does not say."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind is None:
        kind = "object" if depth == 0 or "properties" in schema else "string"
    return str(kind)
