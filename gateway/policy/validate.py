"""Checks a section of a file against its model and goes on where it can: one run finds every mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from gateway.aside import step_aside
from gateway.policy import scalars
from gateway.policy.problems import Path, Problem, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from gateway.policy.source import Source

Model = TypeVar("Model", bound=BaseModel)

_OF_VLLM: Final = {
    "num_speculative_tokens": "draft_tokens",
    "speculative_model": "draft",
    "speculative_config": "method",
    "served_model_name": "served_model",
    "max_num_seqs": "max_in_flight",
    "api_key": "api_key_env",
    "tensor_parallel_size": "tensor_parallel",
}
"""Keys here by what vLLM calls the same."""


@dataclass(frozen=True, slots=True)
class Checked(Generic[Model]):
    """A section after its check.

    Attributes:
        value: The model; None where nothing of it can be used. A key that was wrong has its default, or the
            example of the schema if it must be given.
        damaged: Keys whose value is not the one in the file.
        problems: What was wrong.
    """

    value: Model | None
    damaged: frozenset[str]
    problems: tuple[Problem, ...]


def check(
    model: type[Model], data: object, source: Source, path: Path = (), labels: frozenset[str] = frozenset()
) -> Checked[Model]:
    """Check the data of one section.

    Args:
        model: What it should be.
        data: The section; part of ``source.data``, or nearly so.
        source: Where the positions are.
        path: Where the section stands in the file.
        labels: Labels of the file's own, besides the built-in ones.
    """
    step_aside()
    try:
        return Checked(model.model_validate(data, context=labels), frozenset(), ())
    except ValidationError as error:
        errors = error.errors(include_url=False)
    problems = tuple(_problem(model, one, source, path) for one in errors)
    damaged = frozenset(str(one["loc"][0]) for one in errors if one["loc"])
    if not isinstance(data, dict) or any(not one["loc"] for one in errors):
        return Checked(None, damaged, problems)
    kept = {key: value for key, value in data.items() if key not in damaged}
    for key in damaged & model.model_fields.keys():
        if model.model_fields[key].is_required():
            kept[key] = _example(model, key)
    return Checked(model.model_validate(kept, context=labels), damaged, problems)


def check_list(
    model: type[Model], data: dict[str, Any], key: str, source: Source, labels: frozenset[str] = frozenset()
) -> tuple[list[Checked[Model]], list[Problem]]:
    """Check each item of a list of sections by itself.

    Args:
        model: What each item should be.
        data: The file's data; the list is emptied, since its items need no second check with the file.
        key: Which list.
        source: Where the positions are.
        labels: Labels of the file's own, besides the built-in ones.
    """
    items = data.get(key)
    if not isinstance(items, list):
        return [], []
    data[key] = []
    if not items:
        return [], [source.problem((key,), "the list is empty", "add an item", key=True)]
    checked = [check(model, item, source, (key, index), labels) for index, item in enumerate(items)]
    return checked, [problem for one in checked for problem in one.problems]


def _example(model: type[BaseModel], key: str) -> object:
    examples = model.model_fields[key].examples
    if not examples:
        raise AssertionError(f"{model.__name__}.{key} has no example")
    return examples[0]


_TYPES: Final = {
    "string_type": "text, in quotes if it looks like a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list, such as [a, b]",
    "dict_type": "keys with values, indented below",
    "model_type": "keys with values, indented below",
}


def _problem(model: type[BaseModel], error: ErrorDetails, source: Source, path: Path) -> Problem:
    kind, written, context = error["type"], error["input"], error.get("ctx", {})
    loc = _real(error["loc"], source, path, missing=kind == "missing")
    match kind:
        case scalars.MISTAKE:
            wrong, right = context["wrong"], context["right"]
        case "missing":
            example = _example(_owner(model, error["loc"]), str(loc[-1]))
            wrong = f"the key {loc[-1]!r} is missing"
            right = (
                f"add '{loc[-1]}:' and a list" if isinstance(example, list) else f"add '{loc[-1]}: {example}'"
            )
        case "extra_forbidden":
            wrong = f"there is no key {loc[-1]!r} here"
            fields = _owner(model, error["loc"]).model_fields
            meant = _OF_VLLM.get(str(loc[-1]).replace("-", "_"), "")
            right = (
                f"did you mean {meant!r}?" if meant in fields else suggest(str(loc[-1]), fields, "keys here")
            )
        case "literal_error":
            wrong, right = f"{loc[-1]} {written!r} is not supported", f"write {context['expected']}"
        case "too_short" | "string_too_short":
            wrong, right = "this is empty", "give it a value, or remove the key if it may be left out"
        case _ if kind in _TYPES:
            wrong = "there is no value" if written is None else f"this is {_kind(written)}"
            right = f"write {_TYPES[kind]}"
        case _:
            wrong = f"{written!r} is out of range"
            right = f"it should be {error['msg'].removeprefix('Input should be ')}"
    return source.problem(loc, wrong, right, key=kind == "extra_forbidden" or written is None)


def _real(loc: tuple[int | str, ...], source: Source, path: Path, *, missing: bool) -> Path:
    """The error's place in the file, without steps that only the model has."""
    for position, step in enumerate(loc):
        if (*path, step) in source.values or (missing and position == len(loc) - 1):
            path = (*path, step)
    return path


def _owner(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model of the section in which an error's last step stands."""
    for step in loc[:-1]:
        if isinstance(step, str) and step in model.model_fields:
            annotation = model.model_fields[step].annotation
            model = next(
                one
                for one in (annotation, *get_args(annotation))
                if isinstance(one, type) and issubclass(one, BaseModel)
            )
    return model


def _kind(written: object) -> str:
    match written:
        case bool():
            return f"the switch {str(written).lower()}"
        case int() | float():
            return f"the number {written}"
        case str():
            return f"the text {written!r}"
        case list():
            return "a list"
        case _:
            return "keys with values"
