"""Owner of the live confusion matrix: what requests were taken for, and what their answers are."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.core.agreement import Watch
from gateway.core.sessions import agrees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.core.outcome import Record
    from gateway.core.policy import ClassifierSettings

_log = logging.getLogger(__name__)

_SAID: Final = frozenset({"hint", "policy", "examples", "default"})
"""Sources of labels that are no guess about the answer, so that answers do not judge them."""


class Agreement:
    """Counts answers by label and nature, and watches how often they agree. One event loop owns it."""

    def __init__(self, settings: ClassifierSettings) -> None:
        self._settings = settings
        self._answers: dict[str, dict[str, int]] = {}
        self._watches: dict[str, Watch] = {}

    def on_record(self, record: Record) -> None:
        """Take in what an answer turned out to be."""
        nature, found = record.outcome.nature, record.classification
        if not nature:
            return
        # Labels are built in or the policy's; what a caller may write is not among them.
        counts = self._answers.get(found.label)
        if counts is None:
            counts = self._answers[found.label] = {}
        counts[nature] = counts.get(nature, 0) + 1
        agreed = agrees(found.label, nature)
        if agreed is None or found.source in _SAID:
            return
        before = self._watches.get(found.label) or Watch()
        after = self._watches[found.label] = before.after(agreed=agreed)
        if after.last is not before.last and after.drifted != before.drifted:
            self._tell(found.label, after)

    def govern(self, settings: ClassifierSettings) -> None:
        """Begin anew where the policy classifies otherwise from now on."""
        if settings != self._settings:
            self._settings = settings
            self._answers.clear()
            self._watches.clear()

    def rates(self) -> Iterator[tuple[str, float]]:
        """By label the share of answers that agree: of the last full block, before it of all so far."""
        for label, watch in tuple(self._watches.items()):
            share = watch.last if watch.last.answers else watch.reference
            yield label, share.agreed / share.answers

    def drifts(self) -> Iterator[tuple[str, bool]]:
        """By label whether fewer answers agree than did at first."""
        for label, watch in tuple(self._watches.items()):
            yield label, watch.drifted

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "answers": {label: dict(counts) for label, counts in self._answers.items()},
            "agreement": {
                label: {
                    "reference": {"answers": watch.reference.answers, "share": watch.reference.rate},
                    "last": {"answers": watch.last.answers, "share": watch.last.rate},
                    "standard_errors": round(watch.fall, 2),
                    "drifted": watch.drifted,
                }
                for label, watch in self._watches.items()
            },
        }

    @staticmethod
    def _tell(label: str, watch: Watch) -> None:
        before, now = watch.reference.rate, watch.last.rate
        if watch.drifted:
            _log.warning(
                "requests taken for %s: %.0f %% of their answers are that, no longer %.0f %%: traffic has "
                "changed, or the classifier does not fit it", label, 100 * (now or 0), 100 * (before or 0),
            )  # fmt: skip
        else:
            _log.info("requests taken for %s: their answers agree again, %.0f %%", label, 100 * (now or 0))
