"""How good classifications of labelled requests are: accuracy, F1, confusion and calibration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BINS: Final = 15


@dataclass(frozen=True, slots=True)
class Guess:
    """One classification of a labelled request: the true label, the one given, and how sure it was."""

    truth: str
    label: str
    confidence: float

    @property
    def right(self) -> bool:
        """Whether the label is the true one."""
        return self.truth == self.label


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One label: shares between 0 and 1, and how many requests really had it."""

    precision: float
    recall: float
    f1: float
    count: int


@dataclass(frozen=True, slots=True)
class Scores:
    """Figures of a set of guesses.

    Attributes:
        count: How many guesses.
        accuracy: Share of right ones.
        macro_f1: Mean F1 of the labels that occur.
        per_class: By label, in alphabetical order; labels that only guesses have count as well.
        confusion: How often a true label was given another label or its own, as ``confusion[truth][label]``.
        calibration_error: Expected calibration error over 15 bins of confidence: mean distance between how
            sure the guesses of a bin were and how many of them were right.
    """

    count: int
    accuracy: float
    macro_f1: float
    per_class: Mapping[str, ClassScore]
    confusion: Mapping[str, Mapping[str, int]]
    calibration_error: float


def score(guesses: Sequence[Guess]) -> Scores:
    """Figures of at least one guess."""
    pairs = Counter((guess.truth, guess.label) for guess in guesses)
    labels = sorted({label for pair in pairs for label in pair})
    per_class = {label: _class(label, pairs) for label in labels}
    present = [one.f1 for one in per_class.values() if one.count]
    return Scores(
        count=len(guesses),
        accuracy=_share(guess.right for guess in guesses),
        macro_f1=sum(present) / len(present),
        per_class=per_class,
        confusion={
            truth: {label: pairs[truth, label] for label in labels if pairs[truth, label]}
            for truth in labels
            if per_class[truth].count
        },
        calibration_error=_calibration_error(guesses),
    )


def covered(guesses: Sequence[Guess], threshold: float) -> tuple[float, float]:
    """Share of guesses that are at least so sure, and the accuracy of those (0 where there are none)."""
    sure = [guess.right for guess in guesses if guess.confidence >= threshold]
    return len(sure) / len(guesses), _share(sure)


def _share(flags: Iterable[bool]) -> float:
    listed = list(flags)
    return sum(listed) / len(listed) if listed else 0.0


def _class(label: str, pairs: Counter[tuple[str, str]]) -> ClassScore:
    hits = pairs[label, label]
    given = sum(count for (_, said), count in pairs.items() if said == label)
    true = sum(count for (truth, _), count in pairs.items() if truth == label)
    return ClassScore(
        precision=hits / given if given else 0.0,
        recall=hits / true if true else 0.0,
        f1=2 * hits / (given + true),
        count=true,
    )


def _calibration_error(guesses: Sequence[Guess]) -> float:
    bins: dict[int, list[Guess]] = {}
    for guess in guesses:
        bins.setdefault(min(int(guess.confidence * _BINS), _BINS - 1), []).append(guess)
    off = (abs(sum(one.confidence - one.right for one in inside)) for inside in bins.values())
    return sum(off) / len(guesses)
