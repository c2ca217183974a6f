"""A linear model over words, n-grams and signals of a request: one head for content, one for language."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from gateway.core import grams, signals
from gateway.core.classify import NOTHING, Classification, wordless
from gateway.core.features import WORKLOADS
from gateway.core.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.features import Features, RequestView
    from gateway.core.grams import Grams

CONTENTS: Final = ("math", "code", "chat", "tool_use", "translation", "grounded")
"""What the content head tells apart. Chat and grounded texts in other languages become ``multilingual``."""

FORMAT: Final = 1
"""Version of the file format."""

_COLUMNS: Final = len(CONTENTS) + 1
_PACKED: Final = 8
_TRANSLATION: Final = CONTENTS.index("translation")
_CERTAIN: Final = frozenset({"forced_tool"})
_NAMES_A_TOOL: Final = frozenset({"tool_name", "tool_order"})
_NOT_UNLIKELY: Final = 0.2
"""Probability of a call from which a rule that saw a tool named decides. The training data has few short
questions for one tool ("What is the weather in Lisbon?"); held-back rows gain 3 % more calls and
lose no answer to it."""


class UnusableModelError(ValueError):
    """A model file of another format, or made for other features than this version reads."""


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of both heads. The last column is the language head: log-odds of an answer not in English.

    Attributes:
        version: Name under which its labels are reported.
        table: A row of small integers for each bucket, shape ``(2 ** BITS, 8)``; the last is unused.
        scales: What one unit of each column of the table is worth, shape ``(7,)``.
        weights: A row for each of :data:`gateway.core.signals.NAMES`, and the bias, shape ``(n + 1, 7)``.
        temperatures: What the logits of content and of language are divided by, to come true.
    """

    version: str
    table: NDArray[np.int8]
    scales: NDArray[np.float32]
    weights: NDArray[np.float32]
    temperatures: tuple[float, float]

    def to_bytes(self) -> bytes:
        """The model as a file: a line of JSON, then the arrays, little-endian."""
        head = {
            "format": FORMAT, "version": self.version, "bits": grams.BITS, "signals": len(signals.NAMES),
            "contents": CONTENTS, "temperatures": self.temperatures,
        }  # fmt: skip
        arrays = (self.scales.astype("<f4"), self.weights.astype("<f4"), self.table)
        return b"\n".join((json.dumps(head).encode(), b"".join(array.tobytes() for array in arrays)))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what :meth:`to_bytes` wrote.

        Raises:
            UnusableModelError: It is no such file, or not for these features.
        """
        line, _, data = content.partition(b"\n")
        try:
            head = json.loads(line)
            made_for = head["format"], head["bits"], head["signals"], tuple(head["contents"])
            content_temperature, language_temperature = head["temperatures"]
            version = str(head["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise UnusableModelError(f"not a model file: {error!r}") from error
        here = FORMAT, grams.BITS, len(signals.NAMES), CONTENTS
        if made_for != here:
            raise UnusableModelError(f"made for {made_for}, this version reads {here}")
        rows, buckets = len(signals.NAMES) + 1, 2**grams.BITS
        if len(data) != 4 * _COLUMNS * (rows + 1) + buckets * _PACKED:
            raise UnusableModelError("cut short, or too long")
        numbers = np.frombuffer(data, "<f4", _COLUMNS * (rows + 1)).astype(np.float32)
        table = np.frombuffer(data, np.int8, offset=4 * len(numbers)).reshape(buckets, _PACKED)
        return cls(
            version=version,
            table=table,
            scales=numbers[:_COLUMNS],
            weights=numbers[_COLUMNS:].reshape(rows, _COLUMNS),
            temperatures=(float(content_temperature), float(language_temperature)),
        )


def compose(contents: Sequence[float], foreign: float) -> dict[str, float]:
    """Probability by label, from the probabilities of contents and of an answer not in English."""
    math, code, chat, tool, translation, grounded = contents
    return {
        "math": math,
        "code": code,
        "chat": chat * (1 - foreign),
        "tool_use": tool,
        "multilingual": translation + (chat + grounded) * foreign,
        "grounded": grounded * (1 - foreign),
    }


def _given(scores: Mapping[str, float], label: str, share: float) -> dict[str, float]:
    """The probabilities where that of one label is known: the others are to each other as they were."""
    others = (1 - share) / (1 - scores[label]) if scores[label] < share else 1.0
    return {one: share if one == label else score * others for one, score in scores.items()}


def _certain(view: RequestView, number: int) -> Classification | None:
    """What a request is by a rule, given by its number, that is certain, or for want of words."""
    if number < len(RULES) and (rule := RULES[number]).name in _CERTAIN:
        return Classification(rule.label, rule.confidence, f"rule:{rule.name}")
    return NOTHING if wordless(view) else None


class TrainedClassifier:
    """The most likely label by a :class:`Model`, except where a rule is certain."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._weights = model.weights[:-1]
        self._scales, self._bias = model.scales.tolist(), model.weights[-1].tolist()
        self._source = f"model:{model.version}"

    def label(self, view: RequestView, features: Features) -> Classification:
        """Gives the most likely label with the probability of each; confidence 0 where there are no words."""
        return self.labels([(view, features)])[0]

    def labels(self, requests: Sequence[tuple[RequestView, Features]]) -> list[Classification]:
        """The same of several requests, whose texts are taken apart at once."""
        rules = [signals.first_rule(features) for _, features in requests]
        certain = [_certain(view, rule) for (view, _), rule in zip(requests, rules, strict=True)]
        read = iter(
            grams.read_all([view for (view, _), one in zip(requests, certain, strict=True) if one is None])
        )
        return [
            self._likeliest(next(read), signals.read(features, rule), rule) if one is None else one
            for (_, features), rule, one in zip(requests, rules, certain, strict=True)
        ]

    def _likeliest(self, read: Grams, row: NDArray[np.float32], number: int) -> Classification:
        scores = self._scores(read, row)
        if (
            number < len(RULES)
            and RULES[number].name in _NAMES_A_TOOL
            and scores["tool_use"] >= _NOT_UNLIKELY
        ):
            share = max(RULES[number].confidence, scores["tool_use"])
            return Classification(
                "tool_use", share, f"rule:{RULES[number].name}", _given(scores, "tool_use", share)
            )
        label = max(scores, key=scores.__getitem__)
        return Classification(label, scores[label], self._source, scores)

    def _scores(self, read: Grams, row: NDArray[np.float32]) -> Mapping[str, float]:
        content, language = self._model.temperatures
        *contents, odds = self._logits(read, row)
        highest = max(contents)
        steep = [exp((logit - highest) / content) for logit in contents]
        total = sum(steep)
        foreign = 1 / (1 + exp(min(max(-odds / language, -30.0), 30.0)))
        return compose([one / total for one in steep], foreign)

    def _logits(self, read: Grams, row: NDArray[np.float32]) -> list[float]:
        cells = self._model.table.take(read.buckets, 0).astype(np.float32)
        hashed, beside = (read.weights @ cells).tolist(), (row @ self._weights).tolist()
        # So few numbers are put together faster one by one; of the first ones the last column is unused.
        columns = zip(hashed, self._scales, beside, self._bias, strict=False)
        return [units * scale + other + bias for units, scale, other, bias in columns]

    def reasons(self, view: RequestView, features: Features, label: str, *, count: int = 4) -> list[str]:
        """What speaks most for a label, in words: signals by their names and words of the message.

        Holds words of the prompt: for the eyes of whoever asked, not for a record. Nothing for a label that
        the model does not know.
        """
        if label not in WORKLOADS:
            return []
        row = signals.read(features, signals.first_rule(features))
        found = dict(
            zip(signals.NAMES, (row * _toward(label, self._model.weights[:-1])).tolist(), strict=True)
        )
        words, buckets = grams.message_words(view)
        cells = self._model.table[buckets, :_COLUMNS] * self._model.scales
        for word, worth in zip(words, _toward(label, cells) * max(len(words), 1) ** -0.5, strict=True):
            found[f"“{word}”"] = found.get(f"“{word}”", 0.0) + float(worth)
        best = sorted(found, key=lambda name: -found[name])[:count]
        return [name for name in best if found[name] > 0]


def _toward(label: str, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much each row of weights speaks for a label rather than for the average of contents."""
    content = weights[:, :-1]
    toward: NDArray[np.float32]
    if label == "multilingual":
        toward = weights[:, -1] + content[:, _TRANSLATION] - content.mean(axis=1)
    else:
        toward = content[:, CONTENTS.index(label)] - content.mean(axis=1)
    return toward
