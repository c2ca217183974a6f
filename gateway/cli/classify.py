"""``specroute classify``: what kind of work is each of these requests, how sure, why and how fast?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.files import BAD_INPUT, read_text, refuse
from gateway.cli.request_lines import read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.cli.classified import Answer
    from gateway.cli.request_lines import Line
    from gateway.core.policy import ClassifierSettings

WARM_UP = 20
SAID = 20
"""Problems that are said one by one; the others are counted."""


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

    A line is the body of a call, or an object with a `request` and, to score, a `label`; the file may be
    gzip. CPU time is that of the whole step, from the bytes of a body to its label. A line that cannot be
    used is named and left out.

    Example: `specroute classify requests.jsonl --by source`

    With --train, a few dozen lines a label become labels of your own: name the written file in the policy,
    as `classify: {examples: FILE}`. Lines with a built-in label show what your labels are not. What is
    printed is how right they are on lines left out in training.

    Example: `specroute classify examples.jsonl --train own-labels.json`

    Exit codes: 0 done, 2 the input is not right, or some of its lines could not be used.
    """
    from gateway.cli.classified import Report
    from gateway.cli.own_labels import train as learn
    from gateway.core.labels import known

    if train is not None and (policy is not None or rules or by or wrong):
        refuse("--train only learns; leave --policy, --rules, --by and --wrong away")
    settings = _settings(policy)
    requests = read(file)
    if train is not None:
        learn(file, requests, train, as_json=as_json)
        return
    if rules:
        settings = replace(settings, model="rules")
    answers, unread = _answers(file, requests.lines, settings)
    problems = [*requests.problems, *unread]
    if answers:
        wanted = [one for one in answers if not (wrong and (one.guess is None or one.guess.right))]
        report = Report(answers, wanted[:show], len(problems), by or [])
        if as_json:
            typer.echo(json.dumps(report.document(), indent=2, ensure_ascii=False))
        else:
            report.show()
        for note in report.notes(known(settings)):
            typer.echo(f"Note: {note}.", err=True)
    if problems:
        _complain(problems, len(answers))


def _complain(problems: Sequence[str], used: int) -> None:
    """Say what lines could not be used, and end."""
    for problem in problems[:SAID]:
        typer.echo(problem, err=True)
    more = f", {len(problems) - SAID} of them not named here" if len(problems) > SAID else ""
    typer.echo(f"{len(problems)} of {len(problems) + used} lines could not be used{more}.", err=True)
    raise typer.Exit(BAD_INPUT)


def _settings(policy: Path | None) -> ClassifierSettings:
    from gateway.core.policy import ClassifierSettings
    from gateway.policy.load import Invalid, load_policy

    if policy is None:
        return ClassifierSettings(threshold=0.0)
    loaded = load_policy(read_text(policy), str(policy), folder=policy.parent)
    if isinstance(loaded, Invalid):
        refuse("\n".join(map(str, loaded.problems)))
    return loaded.value.classifier


def _answers(
    file: Path, lines: Sequence[Line], settings: ClassifierSettings
) -> tuple[list[Answer], list[str]]:
    """What is found of each line, and what is wrong with those whose request the gateway would refuse."""
    from time import thread_time_ns

    from gateway.cli.classified import Answer
    from gateway.core.classify import classify as label
    from gateway.core.features import extract
    from gateway.core.labels import without_suffix
    from gateway.models import trained
    from gateway.wire.endpoints import path_of
    from gateway.wire.inbound import Malformed, view

    classifier, path = trained(), path_of("chat")

    def answer(line: Line) -> Answer | str:
        try:
            body = json.dumps(line.request, ensure_ascii=False).encode()
        except RecursionError:
            return f"{file}:{line.number}: the request is nested too deeply"
        began = thread_time_ns()
        seen = view("chat", body, {}, path)
        if isinstance(seen, Malformed):
            return f"{file}:{line.number}: {seen.message}"
        seen = without_suffix(seen, settings, ())
        features = extract(seen)
        found = label(seen, features, settings, classifier)
        took = (thread_time_ns() - began) / 1e6
        return Answer(line, seen, features, found, took, classifier)

    # The first few are asked twice: what runs for the first time is slower than it will ever be again.
    for line in lines[:WARM_UP]:
        answer(line)
    answers = [answer(line) for line in lines]
    return (
        [one for one in answers if not isinstance(one, str)],
        [one for one in answers if isinstance(one, str)],
    )
