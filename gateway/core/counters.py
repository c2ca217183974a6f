"""Counters of drafts and steps of a server: read off its ``/metrics``, summed over engines, and compared."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(
    rb"^vllm:(spec_decode_num_drafts|spec_decode_num_draft_tokens|spec_decode_num_accepted_tokens"
    rb"|spec_decode_num_accepted_tokens_per_pos|generation_tokens|inter_token_latency_seconds_(?:count|sum)"
    rb"|iteration_tokens_total_count|prompt_tokens_by_source)(?:_(total|created))?"
    rb'(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)',
    re.MULTILINE,
)
"""Older servers leave ``_total`` away."""

_PROCESS: Final = re.compile(rb"^process_start_time_seconds\s+(\S+)", re.MULTILINE)
"""Tells of a restart where the start of the counters themselves is not exported."""

_COMPUTED: Final = b'source="local_compute"'
_POSITION: Final = re.compile(rb'(?:^|,)position="(\d+)"')


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since a server's start; None where it does not say, which is not zero.

    Attributes:
        drafts: Steps with a draft.
        drafted: Draft tokens proposed.
        accepted: Draft tokens accepted.
        by_position: Accepted ones by their place in the draft; as many as a draft has tokens.
        generated: Tokens of answers.
        started: When the server began to count, or else when its process began; Unix seconds.
        steps: Decode steps of sequences: each engine step counts once for every sequence in it.
        step_seconds: Their seconds added up.
        iterations: Steps of the engine, counted once.
        computed: Prompt tokens computed, those found in a cache left out.
        at: Monotonic seconds of the scrape.
    """

    at: float
    drafts: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    by_position: tuple[float, ...] = ()
    generated: float | None = None
    started: float | None = None
    steps: float | None = None
    step_seconds: float | None = None
    iterations: float | None = None
    computed: float | None = None

    @property
    def speculates(self) -> bool:
        """Whether the server was started with a speculative config: only then it counts drafts."""
        return self.drafts is not None

    @property
    def whole(self) -> bool:
        """Whether all is there that a server counts from its start on; less tells nothing of its drafts."""
        of_drafts = (self.drafts, self.drafted, self.accepted, self.by_position or None)
        return self.generated is not None and of_drafts.count(None) in {0, len(of_drafts)}


@dataclass(frozen=True, slots=True)
class Window:
    """What happened on a server between two scrapes.

    Attributes:
        since: Monotonic seconds of the first scrape.
        until: Of the second.
    """

    since: float
    until: float
    drafts: float
    drafted: float
    accepted: float
    by_position: tuple[float, ...]
    generated: float

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step yields, bonus token included: 1 + accepted / drafts."""
        return 1.0 + self.accepted / self.drafts if self.drafts else None


def parse_counters(page: bytes, at: float) -> Counters:
    """Read a page in Prometheus' text format.

    Args:
        page: The page.
        at: Monotonic seconds at which it was read.
    """
    sums: dict[bytes, float] = {}
    positions: dict[int, float] = {}
    started: float | None = None
    for name, kind, labels, written in _SAMPLE.findall(page):
        value = _number(written)
        if not math.isfinite(value):
            continue
        if kind == b"created":
            # Each engine counts from its own start; the youngest tells of the last restart.
            started = value if started is None else max(started, value)
        elif name == b"prompt_tokens_by_source":
            if _COMPUTED in labels:
                sums[name] = sums.get(name, 0.0) + value
        elif position := _POSITION.search(labels):
            place = int(position[1])
            positions[place] = positions.get(place, 0.0) + value
        else:
            sums[name] = sums.get(name, 0.0) + value
    if started is None and (process := _PROCESS.search(page)) and math.isfinite(_number(process[1])):
        started = _number(process[1])
    return Counters(
        at=at,
        drafts=sums.get(b"spec_decode_num_drafts"),
        drafted=sums.get(b"spec_decode_num_draft_tokens"),
        accepted=sums.get(b"spec_decode_num_accepted_tokens"),
        by_position=tuple(positions[place] for place in sorted(positions)),
        generated=sums.get(b"generation_tokens"),
        started=started,
        steps=sums.get(b"inter_token_latency_seconds_count"),
        step_seconds=sums.get(b"inter_token_latency_seconds_sum"),
        iterations=sums.get(b"iteration_tokens_total_count"),
        computed=sums.get(b"prompt_tokens_by_source"),
    )


def _number(written: bytes) -> float:
    try:
        return float(written)
    except ValueError:
        return math.nan


def restarted(before: Counters, after: Counters) -> bool:
    """Whether a server was started anew between two scrapes, with the same configuration or another.

    What a page leaves out tells nothing: a server without drafts is one that counts its tokens and no drafts.
    """
    if before.whole and after.whole:
        if None not in (before.started, after.started) and before.started != after.started:
            return True
        if len(before.by_position) != len(after.by_position):
            return True
    return any(
        old is not None and new is not None and new < old
        for old, new in zip(_totals(before), _totals(after), strict=False)
    )


def between(before: Counters, after: Counters) -> Window | None:
    """What happened between two scrapes of one server.

    Returns:
        None where the two cannot be compared: something is missing, or the server was started anew in
        between. So no rate is negative or spans two configurations.
    """
    if not (before.whole and after.whole and after.speculates) or restarted(before, after):
        return None
    # A whole page of a server that speculates lacks none of them.
    grown = [(new or 0.0) - (old or 0.0) for old, new in zip(_totals(before), _totals(after), strict=True)]
    drafts, drafted, accepted, generated, *by_position = grown
    return Window(before.at, after.at, drafts, drafted, accepted, tuple(by_position), generated)


def _totals(counters: Counters) -> tuple[float | None, ...]:
    return (
        counters.drafts, counters.drafted, counters.accepted, counters.generated, *counters.by_position,
    )  # fmt: skip
