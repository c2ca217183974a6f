"""What became of the workload that a caller named, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.identifiers import without_keys
from gateway.core.labels import known
from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from gateway.core.features import Features
    from gateway.core.policy import ClassifierSettings


def hint_words(features: Features, settings: ClassifierSettings) -> str:
    """Why the caller's hint does not decide; "" where it does, or where there is none."""
    hint = features.hints.workload
    if hint is None:
        return ""
    named = without_keys(f"hint {hint!r}")
    if not settings.trust_hints:
        return f"{named} does not count: the policy has `trust_hints: false`"
    labels = known(settings)
    return "" if hint in labels else f"{named} is no workload; {suggest(hint, labels, 'workloads')}"
