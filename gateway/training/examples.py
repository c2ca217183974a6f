"""Learns labels of the operator's own from a few dozen examples of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core import grams
from gateway.core.classify import classify
from gateway.core.examples import BITS, Head, LearntLabels, folded, likeness, rounded, shared
from gateway.core.features import WORKLOADS, extract
from gateway.core.policy import ClassifierSettings
from gateway.training.score import Guess
from gateway.training.solve import Sparse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.classify import Classifier
    from gateway.core.features import RequestView

    Example = tuple[str, RequestView]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

FEWEST: Final = 10
"""Different examples of a label below which there is nothing to learn from."""

NONE: Final = "none of them"
"""What a request is that has none of the labels, in scores; it cannot be the name of a label."""

_FOLDS: Final = 5
_OF_SCORES: Final = 0.25
"""What probabilities of built-in labels count beside words, whose squares add up to one."""

_USUAL: Final = 0.02
"""Share of the traffic that is taken to have a label; of the examples it is a larger one."""

_RIDGE: Final = 1e-6
_STEPS: Final = 10
_STEEPEST: Final = 20.0
_CLOSE: Final = 0.01
_AT_ONCE: Final = 4096
_LIKELIEST: Final = ClassifierSettings(threshold=0.0)


class TooFewExamplesError(ValueError):
    """Not enough examples of a label, or of none; the message names it."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What was learnt, and how right it is.

    Attributes:
        labels: The labels.
        guesses: What labels learnt from the other folds say of each example and of each other request.
        left_aside: How many of the others look like an example of a label and do not count against it.
    """

    labels: LearntLabels
    guesses: Sequence[Guess]
    left_aside: Mapping[str, int]


def learn(examples: Sequence[Example], others: Sequence[RequestView], classifier: Classifier) -> Learnt:
    """Learns the labels that are not built in.

    Each label is a yes or no of its own: logistic regression on words, which count the more the rarer they
    are, and on what the classifier says. What it says of requests that it has not seen, fold by fold, is what
    its odds are calibrated by.

    Args:
        examples: Labels and requests; those with a built-in label show what the others are not.
        others: Requests of all kinds. Some may have one of the labels; nobody looked.
        classifier: Whose built-in labels the others compete with.

    Raises:
        TooFewExamplesError: A label has fewer than :data:`FEWEST` different examples, or there is none.
    """
    distinct = list(dict.fromkeys(examples))
    names = sorted({label for label, _ in distinct} - set(WORKLOADS))
    if not names:
        raise TooFewExamplesError(f"no line has a label of its own; {', '.join(WORKLOADS)} are built in")
    for name in names:
        count = sum(label == name for label, _ in distinct)
        if count < FEWEST:
            raise TooFewExamplesError(
                f"label {name!r} has {count} different examples; give it {FEWEST} at least, 30 are better"
            )
    views = [view for _, view in distinct] + list(others)
    labels = [label for label, _ in distinct] + [NONE] * len(others)
    scores = [_scores(view, classifier) for view in views]
    read = [grams.read(view) for view in views]
    rarity = _rarity(read)
    rows = _Rows.of(
        Sparse.of([folded(one, rarity) for one in read], 2**BITS),
        _OF_SCORES * np.array([likeness(one) for one in scores]),
    )
    fitted = {name: _Fitted.of(rows, labels, name) for name in names}
    guesses = [
        _guess(
            label if label in fitted else NONE, {name: one.unseen[at] for name, one in fitted.items()}, had
        )
        for at, (label, had) in enumerate(zip(labels, scores, strict=True))
    ]
    learnt = LearntLabels({name: one.head for name, one in fitted.items()}, rarity)
    return Learnt(learnt, guesses, {name: one.left_aside for name, one in fitted.items()})


def _scores(view: RequestView, classifier: Classifier) -> Mapping[str, float]:
    found = classify(view, extract(view), _LIKELIEST, classifier)
    return found.scores or {found.label: 1.0}


def _rarity(read: Sequence[grams.Grams]) -> NDArray[np.float32]:
    """Of each bucket, the logarithm of how few of the requests have it; 1 where none does."""
    had = np.zeros(2**BITS)
    for one in read:
        had[np.unique(one.buckets >> (grams.BITS - BITS))] += 1
    rare = np.log((len(read) + 1) / (had + 1)) / np.log(len(read) + 1)
    return rounded(rare)


def _guess(truth: str, odds: Mapping[str, float], scores: Mapping[str, float]) -> Guess:
    shares = shared(odds, scores)
    likeliest = max(shares, key=shares.__getitem__)
    label = likeliest if likeliest in odds and shares[likeliest] >= ClassifierSettings().threshold else NONE
    return Guess(truth, label, shares[likeliest])


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The head of one label, and the calibrated log-odds of every request by heads that did not see it."""

    head: Head
    unseen: Floats
    left_aside: int

    @classmethod
    def of(cls, rows: _Rows, labels: Sequence[str], name: str) -> _Fitted:
        has = np.array([label == name for label in labels])
        unsaid = np.array([label == NONE for label in labels])
        # Requests of all kinds hold some of the label too. Those that look like it are left aside once.
        first = _unseen(rows.alike, has, np.ones(len(has), np.bool_))
        steep, shift = _calibrated(first, has)
        counts = ~unsaid | (steep * first + shift < 0)
        unseen = _unseen(rows.alike, has, counts)
        steep, shift = _calibrated(unseen[counts], has[counts])
        shift += _log_odds(_USUAL) - _log_odds(float(has[counts].mean()))
        shares, bias = _fit(rows.alike, has, counts)
        head = Head(
            rounded(steep * rows.words.transposed_times(shares)),
            tuple((steep * _OF_SCORES * (shares @ rows.scores)).tolist()),
            steep * bias + shift,
        )
        return cls(head, steep * unseen + shift, int((~counts).sum()))


@dataclass(frozen=True, slots=True)
class _Rows:
    """All requests.

    Attributes:
        words: Their words, a row each.
        scores: What the classifier says of them, a row each.
        alike: How alike each two are: the products of their rows.
    """

    words: Sparse
    scores: Floats
    alike: Floats

    @classmethod
    def of(cls, words: Sparse, scores: Floats) -> _Rows:
        alike = scores @ scores.T
        row = np.repeat(np.arange(len(scores)), np.diff(words.starts))
        for start in range(0, words.width, _AT_ONCE):
            inside = (words.columns >= start) & (words.columns < start + _AT_ONCE)
            block = np.zeros((len(scores), _AT_ONCE))
            block[row[inside], words.columns[inside] - start] = words.values[inside]
            alike += block @ block.T
        return cls(words, scores, alike)


def _fit(alike: Floats, has: Flags, chosen: Flags) -> tuple[Floats, float]:
    """Logistic regression with ridge, by Newton's method: what each row adds to the weights, and the bias.

    Both sides count alike. Rows that are not chosen add nothing.
    """
    at = np.flatnonzero(chosen)
    kernel, yes = alike[np.ix_(at, at)], has[at]
    weights = np.where(yes, 0.5 / yes.sum(), 0.5 / (~yes).sum())
    odds = np.zeros(len(at))
    system = np.zeros((len(at) + 1, len(at) + 1))
    system[:-1, -1] = system[-1, :-1] = 1.0
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-odds))
        bent = np.maximum(weights * likely * (1 - likely), 1e-9)
        system[:-1, :-1] = kernel + np.diag(_RIDGE / bent)
        solved = np.linalg.solve(system, np.append(odds + weights * (yes - likely) / bent, 0.0))
        before, odds = odds, np.clip(kernel @ solved[:-1] + solved[-1], -_STEEPEST, _STEEPEST)
        if np.abs(odds - before).max() < _CLOSE:
            break
    shares = np.zeros(len(has))
    shares[at] = solved[:-1]
    return shares, float(solved[-1])


def _unseen(alike: Floats, has: Flags, counts: Flags) -> Floats:
    """What heads fitted to the other folds say of each row; every fold has its share of both sides."""
    folds = np.where(has, np.cumsum(has), np.cumsum(~has)) % _FOLDS
    odds = np.zeros(len(has))
    for fold in range(_FOLDS):
        inside = folds == fold
        shares, bias = _fit(alike, has, counts & ~inside)
        odds[inside] = alike[inside] @ shares + bias
    return odds


def _log_odds(share: float) -> float:
    return log(share / (1 - share))


def _calibrated(odds: Floats, has: Flags) -> tuple[float, float]:
    """Factor and shift that make log-odds come true (Platt's scaling, by Newton's method)."""
    yes, no = int(has.sum()), int((~has).sum())
    due = np.where(has, (yes + 0.5) / (yes + 1), 0.5 / (no + 1))
    centre, spread = float(odds.mean()), float(odds.std()) or 1.0
    design = np.stack([(odds - centre) / spread, np.ones(len(odds))], axis=1)
    found = np.array([1.0, np.log((yes + 1) / (no + 1))])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (likely - due) + 1e-3 * found
        bent = (design * (likely * (1 - likely))[:, None]).T @ design + 1e-3 * np.eye(2)
        found -= np.linalg.solve(bent, slope)
    steep = max(float(found[0]), 1e-3) / spread
    return steep, float(found[1]) - steep * centre
