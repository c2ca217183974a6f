"""``specroute classify``: what kind of work is each of these requests, how sure, why and how fast?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from gateway.core.classify import Classification
    from gateway.core.features import Features, RequestView
    from gateway.core.model import TrainedClassifier
    from gateway.core.policy import ClassifierSettings
    from gateway.training.score import Guess, Scores

STDIN = Path("-")
WARM_UP = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("classify")(classify)


def classify(
    file: Annotated[
        Path,
        typer.Argument(
            help="A JSON object a line: a request body, or an object with request and label; - reads stdin."
        ),
    ],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A policy file whose rules, model, threshold and default count; without it the likeliest "
            "label is given, however unsure.",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Ask the built-in rules in place of the model.")
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Show the accuracy by the values of this key of the lines, too.", show_default=False
        ),
    ] = None,
    show: Annotated[int, typer.Option(help="Show so many lines with their reasons.", min=0)] = 10,
    wrong: Annotated[bool, typer.Option("--wrong", help="Of labelled lines show only wrong ones.")] = False,
    train: Annotated[
        Path | None,
        typer.Option(
            help="Learn the labels of these lines that are not built in, and write them to this file.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Classify requests as the gateway would, and score the result where the lines have labels.

    A line is the body of a call, or an object with a `request` and, to score, a `label`. CPU time is that
    of the whole step, from the bytes of a body to its label.

    Example: `specroute classify requests.jsonl --by source`

    With --train, a few dozen lines a label become labels of your own: name the written file in the policy,
    as `classify: {examples: FILE}`. What is printed is how right they are on lines left out in training.

    Example: `specroute classify examples.jsonl --train own-labels.json`

    Exit codes: 0 done, 2 the input is not right.
    """
    settings = _settings(policy)
    if train is not None:
        _train(file, train, as_json=as_json)
        return
    answers = _answers(file, replace(settings, model="rules") if rules else settings)
    guesses = [guess for answer in answers if (guess := answer.guess) is not None]
    shown = [one for one in answers if not (wrong and (one.guess is None or one.guess.right))][:show]
    groups = {key: _groups(answers, key) for key in by or []}
    if as_json:
        typer.echo(json.dumps(_document(answers, guesses, groups, shown), indent=2, ensure_ascii=False))
    else:
        _print(answers, guesses, groups, shown)


@dataclass(frozen=True, slots=True)
class Answer:
    """One line: what was found, from what, and the CPU time it took in milliseconds."""

    line: int
    row: dict[str, Any]
    view: RequestView
    features: Features
    found: Classification
    cpu_ms: float
    classifier: TrainedClassifier

    @property
    def guess(self) -> Guess | None:
        """The label beside the true one, where the line has that."""
        from gateway.training.score import Guess

        truth = self.row.get("label")
        return Guess(truth, self.found.label, self.found.confidence) if isinstance(truth, str) else None

    def because(self) -> str:
        """The reason in words."""
        from gateway.core.classify import reason

        said = reason(self.found, self.features)
        if not self.found.source.startswith("model:"):
            return said
        return f"{said}: {', '.join(self.classifier.reasons(self.view, self.features, self.found.label))}"

    def as_json(self) -> dict[str, Any]:
        """The answer as a JSON object."""
        found = self.found
        named: dict[str, Any] = {key: self.row[key] for key in ("id", "label") if key in self.row}
        return {
            "line": self.line, **named, "found": found.label, "confidence": round(found.confidence, 4),
            "source": found.source, "language": self.features.output_language, "reason": self.because(),
        }  # fmt: skip


def _train(file: Path, target: Path, *, as_json: bool) -> None:
    from backends.prompts import load
    from gateway.training.corpus import UnusableRowError, parse, seen
    from gateway.training.examples import TooFewExamplesError, cross_validated, learn
    from gateway.training.score import score

    examples = []
    try:
        for number, line in _lines(file):
            row = parse(line, f"{file}:{number}")
            if not isinstance(row.get("label"), str):
                refuse(f"{file}:{number}: the line has no label to learn")
            examples.append((row["label"], seen(row["request"], f"{file}:{number}")))
        others = [seen(dict(prompt.request), prompt.id) for prompt in load()]
        learnt = learn(examples, others)
        scores = score(cross_validated(examples, others))
    except (UnusableRowError, TooFewExamplesError) as error:
        refuse(f"{file}: {error}")
    try:
        target.write_text(learnt.to_json(), encoding="utf-8")
    except OSError as error:
        refuse(f"{target}: {error.strerror}")
    if as_json:
        typer.echo(json.dumps(asdict(scores), indent=2, ensure_ascii=False))
        return
    for label, one in scores.per_class.items():
        typer.echo(f"{label}: {one.count} lines, precision {one.precision:.2f}, recall {one.recall:.2f}")
    typer.echo(
        f"Wrote {', '.join(learnt.names)} to {target}; accuracy on lines left out {scores.accuracy:.2f}"
    )


def _lines(file: Path) -> list[tuple[int, str]]:
    """The lines of a file that hold something, with their numbers; at least one."""
    text = sys.stdin.read() if file == STDIN else read_text(file)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        refuse(f"{file}: there is no request in it")
    return lines


def _settings(policy: Path | None) -> ClassifierSettings:
    from gateway.core.policy import ClassifierSettings
    from gateway.policy.load import Invalid, load_policy

    if policy is None:
        return ClassifierSettings(threshold=0.0)
    loaded = load_policy(read_text(policy), str(policy), folder=policy.parent)
    if isinstance(loaded, Invalid):
        refuse("\n".join(map(str, loaded.problems)))
    return loaded.value.classifier


def _answers(file: Path, settings: ClassifierSettings) -> list[Answer]:
    from time import thread_time_ns

    from gateway.core.classify import classify as label
    from gateway.core.features import extract
    from gateway.core.labels import without_suffix
    from gateway.models import trained
    from gateway.training.corpus import UnusableRowError, parse
    from gateway.wire.endpoints import path_of
    from gateway.wire.inbound import Malformed, view

    classifier, path = trained(), path_of("chat")
    lines = _lines(file)
    answers = []
    # The first few are asked twice: what runs for the first time is slower than it will ever be again.
    for number, line in [*lines[:WARM_UP], *lines]:
        try:
            row = parse(line, f"{file}:{number}")
        except UnusableRowError as error:
            refuse(str(error))
        body = json.dumps(row["request"]).encode()
        began = thread_time_ns()
        seen = view("chat", body, {}, path)
        if isinstance(seen, Malformed):
            refuse(f"{file}:{number}: {seen.message}")
        seen = without_suffix(seen, settings, ())
        features = extract(seen)
        found = label(seen, features, settings, classifier)
        took = (thread_time_ns() - began) / 1e6
        answers.append(Answer(number, row, seen, features, found, took, classifier))
    return answers[-len(lines) :]


def _groups(answers: list[Answer], key: str) -> dict[str, tuple[int, float]]:
    """By each value of a key of the lines: how many labelled lines, and the share of right ones."""
    groups: dict[str, list[bool]] = {}
    for answer in answers:
        if (guess := answer.guess) is not None and key in answer.row:
            groups.setdefault(str(answer.row[key]), []).append(guess.right)
    return {value: (len(right), sum(right) / len(right)) for value, right in sorted(groups.items())}


def _speed(answers: list[Answer]) -> dict[str, float]:
    times = sorted(answer.cpu_ms for answer in answers)
    return {
        "cpu_ms": round(sum(times) / len(times), 4),
        "cpu_ms_p50": round(times[len(times) // 2], 4),
        "cpu_ms_p99": round(times[min(len(times) * 99 // 100, len(times) - 1)], 4),
    }


def _document(
    answers: list[Answer],
    guesses: list[Guess],
    groups: dict[str, dict[str, tuple[int, float]]],
    shown: list[Answer],
) -> dict[str, Any]:
    from gateway.training.score import covered, score

    document: dict[str, Any] = {"count": len(answers), **_speed(answers)}
    if guesses:
        scores: Scores = score(guesses)
        document |= asdict(scores)
        document["count"] = len(answers)
        document["labelled"] = scores.count
        document["covered"] = {
            str(threshold): dict(zip(("share", "accuracy"), covered(guesses, threshold), strict=True))
            for threshold in (0.5, 0.6, 0.7, 0.8, 0.9)
        }
    document["by"] = {
        key: {value: {"count": count, "accuracy": right} for value, (count, right) in values.items()}
        for key, values in groups.items()
    }
    document["lines"] = [answer.as_json() for answer in shown]
    return document


def _print(
    answers: list[Answer],
    guesses: list[Guess],
    groups: dict[str, dict[str, tuple[int, float]]],
    shown: list[Answer],
) -> None:
    from rich.console import Console
    from rich.table import Table

    from gateway.training.score import covered, score

    console = Console(highlight=False, markup=False)
    for answer in shown:
        guess = answer.guess
        verdict = "" if guess is None else "right: " if guess.right else f"wrong, it is {guess.truth}: "
        typer.echo(f"{answer.line}: {verdict}{answer.because()}")
    if guesses:
        scores = score(guesses)
        table = Table("label", "requests", "precision", "recall", "F1", "taken for")
        for label, one in scores.per_class.items():
            others = scores.confusion.get(label, {})
            taken = ", ".join(
                f"{other} {count}"
                for other, count in sorted(others.items(), key=lambda pair: -pair[1])
                if other != label
            )
            table.add_row(
                label, str(one.count), f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", taken
            )
        console.print(table)
        for key, values in groups.items():
            table = Table(key, "requests", "accuracy")
            for value, (count, right) in values.items():
                table.add_row(value, str(count), f"{right:.3f}")
            console.print(table)
        share, accuracy = covered(guesses, 0.6)
        typer.echo(
            f"accuracy {scores.accuracy:.3f}, macro-F1 {scores.macro_f1:.3f}, calibration error "
            f"{scores.calibration_error:.3f}; {share:.1%} are 0.6 sure or more, of those {accuracy:.1%} right"
        )
    speed = _speed(answers)
    typer.echo(
        f"{len(answers)} requests, CPU {speed['cpu_ms']:.2f} ms each "
        f"(median {speed['cpu_ms_p50']:.2f}, 99 % within {speed['cpu_ms_p99']:.2f})"
    )
