"""YAML text to plain data that remembers the line and column of every key and value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from gateway.aside import step_aside
from gateway.policy.problems import Path, Problem, spell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ruamel.yaml.nodes import Node

MOST_VALUES: Final = 100_000
"""Values a file may hold with its aliases written out: far above any fleet, far below a memory bomb."""

_REMEMBERED: Final = 4
"""Files that are not parsed again while their text stays: it is most of what a reload takes, and of two files
mostly one has changed."""

_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_CONSTRUCTED: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))
_TEXT: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "timestamp", "value", "merge"))


@dataclass(frozen=True, slots=True)
class Source:
    """A file read: its data and where each part of it stands.

    Attributes:
        file: Name of the file as the reader knows it.
        data: Dicts with text keys, lists, text, numbers, booleans and None.
        values: Line and column, from 1, of the value at a path.
        keys: Line and column, from 1, of the key that ends a path.
    """

    file: str
    data: Any
    values: Mapping[Path, tuple[int, int]]
    keys: Mapping[Path, tuple[int, int]]

    def problem(
        self, path: Path, wrong: str, right: str, *, key: bool = False, warning: bool = False
    ) -> Problem:
        """A problem at a path, or at the nearest place above it that the file has.

        Args:
            path: Where the mistake is.
            wrong: What is wrong.
            right: What would be right.
            key: Point at the key instead of its value.
            warning: The file can be used all the same.
        """
        at = path
        while at not in self.values:
            at = at[:-1]
        line, column = self.keys.get(at, self.values[at]) if key else self.values[at]
        return Problem(self.file, line, column, spell(path), wrong, right, warning)


def read(text: str, file: str) -> tuple[Source | None, list[Problem]]:
    """Read YAML 1.2.

    Args:
        text: Content of the file.
        file: Its name for messages.

    Returns:
        The source, None if the text cannot be used at all, and the problems found. With duplicate keys the
        first one's value is kept so that the rest of the file can still be judged. The source may be one that
        others have been given; nobody changes it.
    """
    source, problems = _read(text, file)
    return source, list(problems)


def yaml_parser() -> YAML:
    """A parser for a thread beside streams, which it lets go first between nodes."""
    parser = YAML(typ="safe", pure=True)
    parser.Composer = _Composer
    return parser


@lru_cache(maxsize=_REMEMBERED)
def _read(text: str, file: str) -> tuple[Source | None, list[Problem]]:
    parser = yaml_parser()
    parser.composer.warn_double_anchors = False  # YAML lets an anchor be set again
    walk = _Walk(file, parser.constructor)
    try:
        root = parser.compose(text.removeprefix("\ufeff"))
        data = None if root is None else walk.value(root, ())
    except (MarkedYAMLError, ReaderError, RecursionError, OverflowError) as error:
        return None, [_unreadable(error, text, file)]
    if root is None:
        return None, [Problem(file, 1, 1, "", "the file is empty", "start with 'version: 1'")]
    source = Source(file, data, walk.values, walk.keys)
    if not isinstance(data, dict):
        wrong = (
            f"the file holds {'a list' if isinstance(data, list) else 'a single value'}, not keys with values"
        )
        return None, [*walk.problems, source.problem((), wrong, "start with 'version: 1'")]
    return source, walk.problems


class _Composer(Composer):
    """Steps aside between nodes."""

    def compose_node(self, parent: object, index: object) -> object:
        step_aside()
        return super().compose_node(parent, index)


@dataclass(slots=True)
class _Walk:
    """Turns composed nodes into data and collects positions on the way."""

    file: str
    constructor: Any
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def value(self, node: Node, path: Path) -> object:
        self.values[path] = _position(node)
        if len(self.values) > MOST_VALUES:
            raise OverflowError
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: Node, path: Path) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                self._report(key, path, "a list or mapping cannot be a key", "write a name")
                continue
            name = self._text(key, path)
            here = (*path, name)
            if here in self.keys:
                line, column = self.keys[here]
                wrong = f"the key {name!r} is given twice, first at line {line}, column {column}"
                self._report(key, here, wrong, "keep one of them")
                continue
            self.keys[here] = _position(key)
            data[name] = self.value(item, here)
        return data

    def _scalar(self, node: Node, path: Path) -> object:
        if node.tag in _TEXT:
            return self._text(node, path)
        if node.tag in _CONSTRUCTED:
            try:
                return self.constructor.construct_object(node)
            except ValueError:
                self._report(
                    node, path, f"{node.value[:20]!r}… is not a usable number", "write a shorter one"
                )
                return None
        self._report(node, path, f"the tag {node.tag} is not used here", "remove the tag")
        return None

    def _text(self, node: Node, path: Path) -> str:
        text = str(node.value)
        if _HALF_CHARACTER.search(text):
            self._report(node, path, "an escape stands for half a character", "write the character itself")
            return _HALF_CHARACTER.sub("?", text)
        return text

    def _report(self, node: Node, path: Path, wrong: str, right: str) -> None:
        self.problems.append(Problem(self.file, *_position(node), spell(path), wrong, right))


def _position(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


_REMEDIES: Final = (
    ("found character '\\t'", "indent with spaces, not with tabs"),
    ("found character", "put the value in quotes"),
    ("mapping values are not allowed", "put a value that holds ': ' in quotes, or check the indentation"),
    ("expected <block end>", "line the keys up: items of one level start in the same column"),
    ("could not find expected ':'", "write 'key: value' with a space after the colon"),
    ("unexpected end of stream", "close the quote"),
    ("<stream end>", "close the bracket"),
    ("but found another document", "keep one document a file: remove the '---'"),
    ("found undefined alias", "put a value that starts with '*' in quotes"),
    ("expected alphabetic or numeric character", "put a value that starts with '*' or '&' in quotes"),
)


def _unreadable(error: Exception, text: str, file: str) -> Problem:
    match error:
        case MarkedYAMLError():
            return _syntax(error, file)
        case ReaderError():
            before = text[: error.position]
            line, column = before.count("\n") + 1, error.position - before.rfind("\n")
            wrong = f"the character U+{int(error.character):04X} is not allowed in YAML"
            right = "remove it, or write it as an escape in double quotes"
            return Problem(file, line, column, "", wrong, right)
        case RecursionError():
            wrong = "the structure is nested too deeply, or an alias refers to itself"
            return Problem(file, 1, 1, "", wrong, "flatten it")
        case _:
            wrong = f"with its aliases written out the file has more than {MOST_VALUES} values"
            return Problem(file, 1, 1, "", wrong, "use fewer aliases")


def _syntax(error: MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    wrong = f"not valid YAML: {error.problem}"
    if error.context_mark is not None:
        wrong += f" ({error.context} that starts at line {error.context_mark.line + 1})"
    right = next(
        (say for part, say in _REMEDIES if part in str(error.problem)), "check quotes, brackets, indentation"
    )
    return Problem(file, mark.line + 1, mark.column + 1, "", wrong, right)
