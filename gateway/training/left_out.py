"""How the classifier does on sources it never saw: ``python -m gateway.training.left_out DATA.jsonl``.

Whole sources are left out in turn and labelled by a model trained on the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.core.classify import classify
from gateway.core.features import extract
from gateway.core.model import TrainedClassifier
from gateway.core.policy import ClassifierSettings
from gateway.training import corpus
from gateway.training.score import Guess, score
from gateway.training.train import SEED, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.training.train import Steps

FOLDS: Final = 8
_LIKELIEST: Final = ClassifierSettings(threshold=0.0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A guess at a request whose source was left out."""

    source: str
    guess: Guess


def folds(rows: Sequence[Mapping[str, Any]], count: int) -> list[frozenset[str]]:
    """Sources in groups of about the same number of rows, the largest ones first to the smallest group."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["source"]] = sizes.get(row["source"], 0) + 1
    groups: list[tuple[int, set[str]]] = [(0, set()) for _ in range(count)]
    for source in sorted(sizes, key=lambda name: (-sizes[name], name)):
        at = min(range(count), key=lambda number: groups[number][0])
        size, names = groups[at]
        groups[at] = (size + sizes[source], names | {source})
    return [frozenset(names) for _, names in groups if names]


def guesses(
    lines: Sequence[str], own: Sequence[str] = (), *, count: int = FOLDS, steps: Steps | None = None
) -> Iterator[LeftOut]:
    """Labels each line by a model that saw no line of its source.

    Args:
        lines: As of :func:`gateway.training.corpus.read`, each with its ``source``.
        own: Requests written for the project; they are always trained on.
        count: Groups of sources, thus models.
        steps: Of the fits.
    """
    rows = [corpus.parse(line, f"line {number}") for number, line in enumerate(lines, start=1)]
    for fold in folds(rows, count):
        rest = [line for line, row in zip(lines, rows, strict=True) if row["source"] not in fold]
        classifier = TrainedClassifier(train(corpus.read(rest, own, seed=SEED), steps))
        for row in rows:
            if row["source"] in fold:
                view = corpus.seen(row["request"], str(row.get("id", "a row")))
                found = classify(view, extract(view), _LIKELIEST, classifier)
                yield LeftOut(row["source"], Guess(row["label"], found.label, found.confidence))


def summary(found: Sequence[LeftOut]) -> dict[str, Any]:
    """The figures of all guesses, and the accuracy by source, worst first."""
    by_source: dict[str, list[bool]] = {}
    for one in found:
        by_source.setdefault(one.source, []).append(one.guess.right)
    shares = {source: (sum(right) / len(right), len(right)) for source, right in by_source.items()}
    return asdict(score([one.guess for one in found])) | {
        "by_source": {
            source: {"accuracy": round(shares[source][0], 4), "rows": shares[source][1]}
            for source in sorted(shares, key=shares.__getitem__)
        }
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the data and prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m gateway.training.left_out", description=__doc__)
    parser.add_argument("data", type=Path, help="labelled requests, a JSON object a line")
    parser.add_argument("--own", type=Path, nargs="*", default=[], help="requests written for the project")
    parser.add_argument("--folds", type=int, default=FOLDS, help="groups of sources, a minute for each")
    chosen = parser.parse_args(arguments)
    own = [line for file in sorted(chosen.own) for line in corpus.lines(file)]
    found = list(guesses(corpus.lines(chosen.data), own, count=chosen.folds))
    sys.stdout.write(json.dumps(summary(found), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
