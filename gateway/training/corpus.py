"""Labelled requests from JSONL, and variations of them that a classifier must not be misled by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from gateway.core.features import extract
from gateway.wire.inbound import Malformed, view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gateway.core.features import Features, RequestView

    Request = dict[str, Any]

_OFFERED_SHARE: Final = 0.25
_MORE_TOOLS_SHARE: Final = 0.35
_SYSTEM_SHARE: Final = 0.08
_SWITCH_SHARE: Final = 0.08
_MOST_TOOLS: Final = 12
_ANSWERS: Final = (
    "Sure, here you go.",
    "Done. Anything else?",
    "Of course! Let me know if you want more detail.",
    "Here is a short answer.",
    "Happy to help with that.",
    "```\nresult = compute(x)\nprint(result)\n```\nThat should do it.",
    "The answer is 42.",
    "I have found three options for you. Which one do you prefer?",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A labelled request.

    Attributes:
        language: Of the answer, ISO 639-1; ``und`` where unknown.
        variation: How it was made from another row, empty for a row of the data. ``own`` for one that was
            written for the project, ``language`` and ``loop`` for those of them that are about one thing.
    """

    label: str
    language: str
    view: RequestView
    features: Features
    variation: str = ""


class UnusableRowError(ValueError):
    """A line that is no labelled request; the message names it."""


def lines(file: Path) -> list[str]:
    """The lines of a file."""
    return file.read_text(encoding="utf-8").strip("\n").split("\n")


def parse(line: str, where: str) -> dict[str, Any]:
    """Reads one line: an object with a ``request``.

    Raises:
        UnusableRowError: It is something else.
    """
    try:
        read = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnusableRowError(f"{where}: not JSON: {error}") from error
    if not isinstance(read, dict) or not isinstance(read.get("request"), dict):
        raise UnusableRowError(f'{where}: a line is an object with a "request", the body of a call')
    return read


def seen(request: Request, where: str) -> RequestView:
    """What the gateway reads of a request body.

    Raises:
        UnusableRowError: The gateway would refuse it.
    """
    read = view("chat", json.dumps(request).encode(), {})
    if isinstance(read, Malformed):
        raise UnusableRowError(f"{where}: {read.message}")
    return read


def _row(read: dict[str, Any], request: Request, variation: str = "") -> Row:
    asked = seen(request, str(read.get("id", "a row")))
    label = read["label"] if "label" in read else read["workload"]
    return Row(label, read["language"], asked, extract(asked), variation)


class _Variations:
    """Makes misleading variations of rows with parts of other rows, the same ones for the same seed."""

    def __init__(self, rows: Sequence[dict[str, Any]], seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - seeded: the same rows every time
        requests = [row["request"] for row in rows]
        self._offers = [request["tools"] for request in requests if request.get("tools")]
        self._tools = [tool for offer in self._offers for tool in offer]
        self._systems = [
            row["request"]["messages"][0]["content"]
            for row in rows
            if row.get("hard") == "misleading_system_prompt"
            and row["request"]["messages"][0]["role"] == "system"
        ]
        self._openings = [
            users[0]
            for request in requests
            if len(users := [one for one in request["messages"] if one["role"] != "system"]) == 1
        ]

    def of(self, row: dict[str, Any]) -> Iterator[Row]:
        request, draw = row["request"], self._random.random
        if row["label"] == "tool_use":
            if request.get("tools") and draw() < _MORE_TOOLS_SHARE:
                yield _row(row, {**request, "tools": self._more(request["tools"])}, "more_tools")
        elif not request.get("tools") and self._offers and draw() < _OFFERED_SHARE:
            yield _row(row, {**request, "tools": self._offer()}, "tools")
        messages = request["messages"]
        if messages[0]["role"] != "system" and self._systems and draw() < _SYSTEM_SHARE:
            system = {"role": "system", "content": self._random.choice(self._systems)}
            yield _row(row, {**request, "messages": [system, *messages]}, "system")
        if len(messages) <= 2 and draw() < _SWITCH_SHARE:
            yield _row(row, {**request, "messages": self._switched(messages)}, "switch")

    def _more(self, tools: list[Any]) -> list[Any]:
        mixed = tools + self._random.sample(self._tools, min(self._random.randint(1, 10), len(self._tools)))
        self._random.shuffle(mixed)
        return mixed

    def _offer(self) -> list[Any]:
        offer: list[Any] = self._random.choice(self._offers)
        kind = self._random.random()
        if kind < 0.3:
            return self._random.sample(offer, 1)
        if kind < 0.7:
            return offer
        return self._random.sample(self._tools, min(self._random.randint(2, _MOST_TOOLS), len(self._tools)))

    def _switched(self, messages: list[Any]) -> list[Any]:
        system = [one for one in messages if one["role"] == "system"]
        others = [one for one in messages if one["role"] != "system"]
        answer = {"role": "assistant", "content": self._random.choice(_ANSWERS)}
        return [*system, self._random.choice(self._openings), answer, *others]


def read(lines: Sequence[str], own: Sequence[str] = (), *, seed: int) -> list[Row]:
    """Reads labelled requests and adds variations of them.

    Args:
        lines: Objects with ``label`` (or ``workload``), ``language`` and ``request``, a chat completion.
        own: More of them that were written for the project, each with its ``variation`` where that is not
            ``own``; they are not varied.
        seed: The same seed makes the same variations.

    Raises:
        UnusableRowError: A line is something else.
    """
    parsed = [parse(line, f"line {number}") for number, line in enumerate(lines, start=1)]
    rows = [_row(one, one["request"]) for one in parsed]
    variations = _Variations(parsed, seed)
    rows += [row for one in parsed for row in variations.of(one)]
    written = [parse(line, f"own line {number}") for number, line in enumerate(own, start=1)]
    return rows + [_row(one, one["request"], one.get("variation", "own")) for one in written]
