"""Which workload a request is: hints first, then ordered rules, then a default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Classification:
    """A workload label and how it was found.

    Attributes:
        label: One of :data:`gateway.core.features.WORKLOADS`, or a label the policy defines.
        confidence: Probability that the label is right, 0 to 1. A hint has 1.
        source: ``hint``, ``rule:NAME``, ``model:NAME`` or ``default``.
        scores: Probability by label where the classifier gives one; may be empty.
    """

    label: str
    confidence: float
    source: str
    scores: Mapping[str, float] = field(default_factory=dict)
