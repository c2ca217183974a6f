"""``specroute classify --train``: labels of the operator's own from examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING

import typer

from gateway.cli.files import refuse

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.cli.request_lines import Line, Requests
    from gateway.core.features import RequestView
    from gateway.training.examples import Learnt

MOST = 2000
"""Lines that are learnt from at most: the time grows with their cube."""


def train(file: Path, requests: Requests, target: Path, *, as_json: bool) -> None:
    """Learn the labels of the lines that are not built in, write them, and say how right they are.

    Nothing is written unless every line can be used: what is wrong with the others is all said at once.
    """
    from gateway.models import trained
    from gateway.training.examples import TooFewExamplesError, learn

    if len(requests.lines) > MOST:
        refuse(f"{file}: {len(requests.lines)} lines; give at most {MOST}, a few dozen a label are enough")
    examples, problems = _examples(file, requests.lines)
    if problems or requests.problems:
        refuse("\n".join([*requests.problems, *problems, f"Nothing was written to {target}."]))
    try:
        learnt = learn(examples, others(), trained())
    except TooFewExamplesError as error:
        refuse(f"{file}: {error}")
    try:
        target.write_text(learnt.labels.to_json(), encoding="utf-8")
    except OSError as error:
        refuse(f"{target}: {error.strerror}")
    _say(learnt, len(examples), target, as_json=as_json)


def _examples(file: Path, lines: Sequence[Line]) -> tuple[list[tuple[str, RequestView]], list[str]]:
    """Labels with what the gateway reads of their requests, and what is wrong with the others."""
    from pydantic_core import PydanticCustomError

    from gateway.core.classify import wordless
    from gateway.core.features import WORKLOADS
    from gateway.policy.scalars import RESERVED_LABELS, name
    from gateway.training.corpus import UnusableRowError, seen

    examples, problems = [], []
    said: dict[RequestView, tuple[str, int]] = {}
    for line in lines:
        where = f"{file}:{line.number}"
        if line.label is None:
            problems.append(f'{where}: no label to learn; add "label", one of your own or a built-in one')
            continue
        if line.label in RESERVED_LABELS:
            problems.append(f"{where}: {line.label!r} stands for something else; choose another label")
            continue
        try:
            label = line.label if line.label in WORKLOADS else name(line.label)
            view = seen(line.request, where)
        except PydanticCustomError as error:
            said_so = error.context or {}
            problems.append(f"{where}: {said_so['wrong']}; {said_so['right']}")
            continue
        except UnusableRowError as error:
            problems.append(str(error))
            continue
        if wordless(view):
            problems.append(f"{where}: holds no letter or digit to learn from; such requests get the default")
            continue
        before, number = said.setdefault(view, (label, line.number))
        if before != label:
            problems.append(f"{where}: is {label!r}, and the same request is {before!r} in line {number}")
        examples.append((label, view))
    return examples, problems


def others() -> list[RequestView]:
    """Requests of all kinds that come with the package."""
    from backends.prompts import load
    from gateway.training import everyday
    from gateway.training.corpus import seen

    written = (resources.files("gateway.training") / "own.jsonl").read_text(encoding="utf-8")
    return [
        *(seen(dict(prompt.request), prompt.id) for prompt in load()),
        *(seen(json.loads(line)["request"], "own.jsonl") for line in written.splitlines()),
        *(seen({"messages": [{"role": "user", "content": text}]}, "") for text in everyday.requests()),
    ]


def _say(learnt: Learnt, count: int, target: Path, *, as_json: bool) -> None:
    from gateway.training.examples import NONE
    from gateway.training.score import score

    scores = score(learnt.guesses)
    if as_json:
        typer.echo(json.dumps(asdict(scores), indent=2, ensure_ascii=False))
        return
    for label in learnt.labels.names:
        one = scores.per_class[label]
        typer.echo(
            f"{label}: {one.count} different examples; of those left out {one.recall:.0%} are found, and "
            f"{one.precision:.0%} of what is taken for it is right"
        )
    taken = sum(guess.truth == NONE != guess.label for guess in learnt.guesses)
    others = sum(guess.truth == NONE for guess in learnt.guesses)
    typer.echo(
        f"Wrote {', '.join(learnt.labels.names)} to {target}, from {count} lines; "
        f"{taken} of {others} other requests are taken for one of them"
    )
