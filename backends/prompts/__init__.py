"""Prompts written for the demo and for measurements: a few dozen for each workload, some made to mislead."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request and what it is.

    Attributes:
        id: Unique among all prompts.
        workload: One of :data:`gateway.core.features.WORKLOADS`.
        language: ISO 639-1 code of the answer.
        request: The body of a chat completion without its model.
        hard: What makes it easy to mistake, None where nothing does.
    """

    id: str
    workload: str
    language: str
    request: Mapping[str, Any]
    hard: str | None = None


def _read(workload: str) -> Iterator[Prompt]:
    text = (resources.files(__name__) / f"{workload}.jsonl").read_text(encoding="utf-8")
    return (Prompt(**json.loads(line)) for line in text.splitlines())


def load(workload: str | None = None) -> tuple[Prompt, ...]:
    """Gives the prompts of a workload, or of all of them, in a fixed order.

    Raises:
        ValueError: No workload has this name.
    """
    if workload is None:
        return tuple(prompt for name in WORKLOADS for prompt in _read(name))
    if workload not in WORKLOADS:
        raise ValueError(f"no prompts for workload {workload!r}, only for {', '.join(WORKLOADS)}")
    return tuple(_read(workload))
