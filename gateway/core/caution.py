"""Whether what was learnt serves a workload at least as fast as no speculation does, by what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.core.gain import Speedup, Sums, compare, decode_sample

if TYPE_CHECKING:
    from gateway.core.outcome import Record

LOSS: Final = 0.05
"""Share by which a workload may be slower than on a baseline before exploration of it stops."""

PERIOD: Final = 600.0
"""Seconds after which what was measured is forgotten, so that a changed fleet gets another chance."""


@dataclass(slots=True)
class _Measured:
    since: float
    routed: Sums = field(default_factory=Sums)
    baseline: Sums = field(default_factory=Sums)


@dataclass(slots=True)
class Caution:
    """Decode rates by target and workload, of baselines and of all other servers. Has one owner."""

    _measured: dict[tuple[str, str], _Measured] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Take in a finished request."""
        of = record.decision.target, record.classification.label
        known = self._measured.get(of)
        if known is None or record.ended - known.since > PERIOD:
            known = self._measured[of] = _Measured(record.ended)
        sample = decode_sample(record)
        if record.baseline:
            known.baseline = known.baseline.and_one(record, sample)
        else:
            known.routed = known.routed.and_one(record, sample)

    def slower(self) -> frozenset[tuple[str, str]]:
        """Targets and workloads that are surely slower than on a baseline, by more than :data:`LOSS`.

        A baseline that has less to do looks faster than it is, so this errs on the side of caution.
        """
        found = set()
        for of, known in self._measured.items():
            gained = compare(known.routed, known.baseline)
            if isinstance(gained, Speedup) and gained.high < 1.0 - LOSS:
                found.add(of)
        return frozenset(found)
