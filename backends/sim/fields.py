"""Typed access to the fields of a request body, and the refusals a real server words for wrong ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN: Final = 10  # validation errors spelled out; a real server counts the rest
_OBJECT: Final = "Input should be a valid dictionary or object to extract fields from"
_TRUE: Final = ("1", "on", "t", "true", "y", "yes")
_FALSE: Final = ("0", "off", "f", "false", "n", "no")
_T = TypeVar("_T")


class RefusalError(Exception):
    """A request that is answered with an error body.

    Attributes:
        status: HTTP status.
        kind: ``type`` in the body.
        param: ``param`` in the body.
    """

    def __init__(
        self, message: str, *, param: str | None = None, kind: str = "BadRequestError", status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.kind = kind
        self.status = status

    def error(self) -> dict[str, Any]:
        """The error as vLLM describes it."""
        return {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}

    def body(self) -> bytes:
        """The JSON that a real server answers with."""
        text = json.dumps({"error": self.error()}, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


class UnreadableError(RefusalError):
    """A body that no JSON parser gets to the end of: the framework answers, not vLLM."""

    def __init__(self) -> None:
        super().__init__("There was an error parsing the body", kind="Bad Request")

    def body(self) -> bytes:
        """The JSON that a real server answers with."""
        return json.dumps({"detail": self.message}, separators=(",", ":")).encode()


def decode(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
        RefusalError: It is empty, no JSON, or no object.
    """
    if not raw:
        raise _invalid([_problem("missing", "body", "Field required", "None")])
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        problem = _problem("json_invalid", f"body.{error.pos}", "JSON decode error", {})
        raise _invalid([problem | {"ctx": {"error": error.msg}}]) from None
    except (ValueError, RecursionError):  # no UTF-8, an endless number, nested too deep
        raise UnreadableError from None
    if body is None:
        raise _invalid([_problem("missing", "body", "Field required", "None")])
    if not isinstance(body, dict):
        raise _invalid([_problem("model_attributes_type", "body", _OBJECT, body)])
    return body


def _problem(kind: str, where: str, message: str, given: object) -> dict[str, Any]:
    if isinstance(given, (dict, list)):
        given = f"<{type(given).__name__} of {len(given)} items>"
    return {"type": kind, "loc": where, "msg": message, "input": str(given)}


def _invalid(problems: list[dict[str, Any]]) -> RefusalError:
    """One refusal that lists validation errors."""
    lines = [f"{len(problems)} validation error{'s' if len(problems) > 1 else ''}:"]
    lines += [f"  {problem}" for problem in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"  ...and {len(problems) - _SHOWN} more errors")
    return RefusalError("\n".join(lines), param=problems[0]["loc"], kind="Bad Request")


class Fields:
    """Typed access to a body that collects what is wrong with it."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.problems: list[dict[str, Any]] = []

    def raise_if_invalid(self) -> None:
        """Refuse the request if anything was wrong.

        Raises:
            RefusalError: Something was; it lists everything.
        """
        if self.problems:
            raise _invalid(self.problems)

    def add(
        self, kind: str, where: str, message: str, given: object, ctx: dict[str, Any] | None = None
    ) -> None:
        """Note something wrong."""
        problem = _problem(kind, f"body.{where}", message, given)
        self.problems.append(problem if ctx is None else problem | {"ctx": ctx})

    def integer(self, name: str, *, default: int | None = None) -> int | None:
        """A whole number, also as text."""
        value = self.body.get(name)
        if value is None:
            return default
        if isinstance(value, float) and not value.is_integer():
            message = "Input should be a valid integer, got a number with a fractional part"
            self.add("int_from_float", name, message, value)
            return default
        return self._convert(name, int, "int", "integer", default)

    def number(self, name: str, default: float) -> float:
        """A number, also as text."""
        return self._convert(name, float, "float", "number", default)

    def boolean(self, name: str) -> bool:
        """True or false, false where it is missing."""
        return self.truth(name, self.body.get(name))

    def truth(self, where: str, value: object) -> bool:
        """A value as true or false, also as a number or text."""
        if value is None or isinstance(value, bool):
            return bool(value)
        word = str(value).lower().removesuffix(".0")
        if isinstance(value, (int, float, str)) and word in _TRUE + _FALSE:
            return word in _TRUE
        text = "Input should be a valid boolean"
        if isinstance(value, (int, str)) or (isinstance(value, float) and value.is_integer()):
            self.add("bool_parsing", where, f"{text}, unable to interpret input", value)
        else:
            self.add("bool_type", where, text, value)
        return False

    def string(self, name: str, *, required: bool = False) -> str | None:
        """A text field."""
        value = self.body.get(name)
        if value is None and required:
            self.add("missing", name, "Field required", self.body)
        if value is None or isinstance(value, str):
            return value
        self.add("string_type", name, "Input should be a valid string", value)
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        value = self.body.get(name)
        several = [value] if isinstance(value, str) else [] if value is None else value
        if isinstance(several, list) and all(isinstance(item, str) for item in several):
            return tuple(several)
        self.add("string_type", name, "Input should be a valid string", value)
        if not isinstance(several, list):
            self.add("list_type", name, "Input should be a valid list", value)
            return ()
        for index, item in enumerate(several):
            if not isinstance(item, str):
                self.add("string_type", f"{name}.{index}", "Input should be a valid string", item)
        return ()

    def mapping(self, name: str, *, model: bool = False) -> dict[str, Any]:
        """An object, empty where it is missing; ``model`` for one whose fields are known."""
        value = self.body.get(name)
        if value is None or isinstance(value, dict):
            return value or {}
        if model:
            self.add("model_attributes_type", name, _OBJECT, value)
        else:
            self.add("dict_type", name, "Input should be a valid dictionary", value)
        return {}

    def ids(self, where: str, given: object) -> tuple[int, ...]:
        """A list of token ids."""
        if not isinstance(given, list):
            self.add("list_type", where, "Input should be a valid list", given)
            return ()
        return tuple(self._id(f"{where}.{index}", item) for index, item in enumerate(given))

    def _id(self, where: str, given: object) -> int:
        """A token id, also as a whole number of another type or as text."""
        text = "Input should be a valid integer"
        if isinstance(given, float) and not given.is_integer():
            self.add("int_from_float", where, f"{text}, got a number with a fractional part", given)
        elif not isinstance(given, (int, float, str)):
            self.add("int_type", where, text, given)
        else:
            try:
                token = int(given)
            except ValueError:
                self.add("int_parsing", where, f"{text}, unable to parse string as an integer", given)
                return 0
            if token >= 0:
                return token
            text = "Input should be greater than or equal to 0"
            self.add("greater_than_equal", where, text, given, {"ge": 0})
        return 0

    def _convert(self, name: str, to: Callable[[Any], _T], kind: str, noun: str, default: _T) -> _T:
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, (int, float, str)):
            self.add(f"{kind}_type", name, f"Input should be a valid {noun}", value)
            return default
        try:
            return to(value)
        except (ValueError, OverflowError):
            article = "an" if noun == "integer" else "a"
            message = f"Input should be a valid {noun}, unable to parse string as {article} {noun}"
            self.add(f"{kind}_parsing", name, message, value)
            return default
