"""What ``specroute classify`` shows: lines with reasons, tables of scores, and the speed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.table import Table

    from gateway.cli.request_lines import Line
    from gateway.core.classify import Classification
    from gateway.core.features import Features, RequestView
    from gateway.core.model import TrainedClassifier
    from gateway.training.score import Guess, Scores

SURE = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Thresholds of which is told how many requests reach them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One line: what was found, from what, and the CPU time it took in milliseconds."""

    line: Line
    view: RequestView
    features: Features
    found: Classification
    cpu_ms: float
    classifier: TrainedClassifier

    @property
    def guess(self) -> Guess | None:
        """The label beside the true one, where the line has that."""
        from gateway.training.score import Guess

        truth = self.line.label
        return None if truth is None else Guess(truth, self.found.label, self.found.confidence)

    def because(self) -> str:
        """The reason in words, with what spoke most for the likeliest label where the model was asked."""
        from gateway.core.classify import reason

        said, scores = reason(self.found, self.features), self.found.scores
        if not scores or self.found.source.startswith("rule:"):
            return said
        likeliest = max(scores, key=scores.__getitem__)
        named = "" if likeliest == self.found.label else f"for {likeliest}: "
        found = self.classifier.reasons(self.view, self.features, likeliest)
        return f"{said}: {named}{', '.join(found)}" if found else said

    def as_json(self) -> dict[str, Any]:
        """The answer as a JSON object."""
        found = self.found
        named = {"id": self.line.row["id"]} if "id" in self.line.row else {}
        label = {} if self.line.label is None else {"label": self.line.label}
        return {
            "line": self.line.number, **named, **label, "found": found.label,
            "confidence": round(found.confidence, 4), "source": found.source,
            "language": self.features.output_language, "reason": self.because(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown.

    Attributes:
        answers: Of all lines that could be used.
        shown: Those of them that are shown one by one.
        skipped: How many lines could not be used.
        by: Keys of the lines by whose values the accuracy is told, too.
    """

    answers: Sequence[Answer]
    shown: Sequence[Answer]
    skipped: int
    by: Sequence[str]

    @property
    def guesses(self) -> list[Guess]:
        """Of the lines with labels."""
        return [guess for answer in self.answers if (guess := answer.guess) is not None]

    def groups(self) -> dict[str, dict[str, tuple[int, float]]]:
        """By key and each of its values: how many labelled lines, and the share of right ones."""
        return {key: self._group(key) for key in self.by}

    def _group(self, key: str) -> dict[str, tuple[int, float]]:
        groups: dict[str, list[bool]] = {}
        for answer in self.answers:
            if (guess := answer.guess) is not None and key in answer.line.row:
                groups.setdefault(str(answer.line.row[key]), []).append(guess.right)
        return {value: (len(right), sum(right) / len(right)) for value, right in sorted(groups.items())}

    def notes(self, known: Collection[str]) -> list[str]:
        """What of the labels a reader would not expect.

        Args:
            known: Labels that a request can get.
        """
        labels = Counter(answer.line.label for answer in self.answers)
        without = labels.pop(None, 0)
        strange = {label: count for label, count in labels.items() if label not in known}
        notes = []
        if labels and without:
            notes.append(f"{_lines(without)} without a label: classified, not scored")
        for label, count in sorted(strange.items(), key=lambda pair: str(pair[0])):
            notes.append(
                f"{_lines(count)} with the label {label!r}, which no request can get: counted as wrong; "
                f"the labels are {', '.join(sorted(known))}"
            )
        return notes

    def speed(self) -> dict[str, float]:
        """CPU time of a request in milliseconds."""
        times = sorted(answer.cpu_ms for answer in self.answers)
        return {
            "cpu_ms": round(sum(times) / len(times), 4),
            "cpu_ms_p50": round(times[len(times) // 2], 4),
            "cpu_ms_p99": round(times[min(len(times) * 99 // 100, len(times) - 1)], 4),
        }

    def document(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        from gateway.training.score import covered, score

        document: dict[str, Any] = {
            "count": len(self.answers),
            "skipped": self.skipped,
            **self.speed(),
        }
        if guesses := self.guesses:
            scores: Scores = score(guesses)
            document |= asdict(scores)
            document["count"] = len(self.answers)
            document["labelled"] = scores.count
            document["covered"] = {
                str(threshold): dict(zip(("share", "accuracy"), covered(guesses, threshold), strict=True))
                for threshold in SURE
            }
        document["by"] = {
            key: {value: {"count": count, "accuracy": right} for value, (count, right) in values.items()}
            for key, values in self.groups().items()
        }
        document["lines"] = [answer.as_json() for answer in self.shown]
        return document

    def show(self) -> None:
        """Everything as text."""
        for answer in self.shown:
            guess = answer.guess
            verdict = "" if guess is None else "right: " if guess.right else f"wrong, it is {guess.truth}: "
            typer.echo(f"{answer.line.number}: {verdict}{answer.because()}")
        if guesses := self.guesses:
            self._show_scores(guesses)
        speed = self.speed()
        typer.echo(
            f"{_requests(len(self.answers))}, CPU {speed['cpu_ms']:.2f} ms each "
            f"(median {speed['cpu_ms_p50']:.2f}, 99 % within {speed['cpu_ms_p99']:.2f})"
        )

    def _show_scores(self, guesses: Sequence[Guess]) -> None:
        from rich.console import Console

        from gateway.training.score import covered, score

        console = Console(highlight=False, markup=False)
        scores = score(guesses)
        console.print(_by_label(scores))
        for key, values in self.groups().items():
            if values:
                console.print(_by_value(key, values))
            else:
                typer.echo(f"No labelled line has the key {key!r}.")
        share, accuracy = covered(guesses, 0.6)
        typer.echo(
            f"accuracy {scores.accuracy:.3f}, macro-F1 {scores.macro_f1:.3f}, calibration error "
            f"{scores.calibration_error:.3f}\n"
            f"{share:.1%} are 0.6 sure or more, of those {accuracy:.1%} right"
        )


def _by_label(scores: Scores) -> Table:
    from rich.table import Table

    table = Table("label", "taken for")
    for name in ("requests", "precision", "recall", "F1"):
        table.add_column(name, justify="right", no_wrap=True)
    for label, one in scores.per_class.items():
        others = sorted(scores.confusion.get(label, {}).items(), key=lambda pair: -pair[1])
        taken = ", ".join(f"{other} {count}" for other, count in others if other != label)
        table.add_row(
            label, taken, str(one.count), f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}"
        )
    return table


def _by_value(key: str, values: Mapping[str, tuple[int, float]]) -> Table:
    from rich.table import Table

    table = Table(key)
    for name in ("requests", "accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    for value, (count, right) in values.items():
        table.add_row(value, str(count), f"{right:.3f}")
    return table


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"
