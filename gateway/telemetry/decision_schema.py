"""The schema of the decision log: what a line holds, and how lines are written and read.

A line holds what replay and sweep need to ask "what if": the facts of the request, what each backend would
have cost and how loaded it was, how likely the choice was, and what came of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.core.features import Features, Hints
from gateway.core.loops import Loop
from gateway.core.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

VERSION: Final = 1
"""It grows when a field changes its meaning or goes; a new field alone leaves it."""

CANDIDATES: Final = 64
"""Candidates in a line at most, cheapest first; of rejected backends as many."""


class Pick(msgspec.Struct, frozen=True):
    """A backend that could have taken the request.

    Attributes:
        cost: The weighted sum of its values; the lowest is tried first.
        values: The cost by each scorer of the route, by the scorer's name, not yet weighted.
    """

    backend: str
    cost: float
    values: dict[str, float]


class Refused(msgspec.Struct, frozen=True):
    """A backend that could not, with the reason code."""

    backend: str
    reason: str


class Choice(msgspec.Struct, frozen=True):
    """What was decided.

    Attributes:
        route: Route of the policy; None where none took it.
        target: Target model; None where no backend could take the request.
        reason: Why the first candidate is first, or why there is none.
        propensity: Probability with which the policy sent such a request to the first candidate; None where
            there is none.
        weights: What the route multiplies each scorer's value by.
        candidates: In order; at most :data:`CANDIDATES`.
        left_out: Candidates and rejected backends beyond that.
        max_attempts: Backends that may be tried.
        policy: Revision of the policy file.
        fleet: Revision of the fleet file.
        service: Name of the service class; empty where there was no choice.
        shadow: The backend that the learnt score would have taken, where that did not decide; else empty.
    """

    route: str | None
    target: str | None
    reason: str
    propensity: float | None
    weights: dict[str, float]
    candidates: list[Pick]
    rejected: list[Refused]
    left_out: int
    max_attempts: int
    policy: str
    fleet: str
    service: str = ""
    shadow: str = ""


class State(msgspec.Struct, frozen=True):
    """A backend as the decision saw it.

    Attributes:
        in_flight: Requests this gateway held open on it.
        limit: How many it might.
        unavailable: Reason code why it could take none; empty where it could.
        since_load: Change of ``in_flight`` since the scrape; None, as what follows, before the first.
        running: Requests in its batch.
        waiting: Requests in its queue.
        kv_usage: Share of its KV cache in use.
        load_age: Seconds since the scrape.
    """

    backend: str
    in_flight: int
    limit: int
    unavailable: str
    since_load: int | None
    running: int | None
    waiting: int | None
    kv_usage: float | None
    load_age: float | None


class Try(msgspec.Struct, frozen=True):
    """One backend tried.

    Attributes:
        phase: Last phase reached.
        error: Error class, or empty.
        status: HTTP status of its answer, 0 before.
        after: Seconds from the request's head to the start of the attempt.
        seconds: How long it took.
    """

    backend: str
    phase: str
    error: str
    status: int
    after: float
    seconds: float


class Result(msgspec.Struct, frozen=True):
    """What came of it; fields of :class:`gateway.core.outcome.Outcome` by the same names."""

    status: str
    http_status: int
    error: str
    ttft: float | None
    tpot: float | None
    decode_seconds: float | None
    decode_tokens: int | None
    events: int
    most_tokens: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    finish_reason: str
    tool_calls: bool
    tool_arguments: str
    nature: str
    bytes_out: int
    backpressured: bool
    resumed: int


class Acceptance(msgspec.Struct, frozen=True):
    """What was accepted; fields of :class:`gateway.core.outcome.Speculation` by the same names."""

    grade: str
    steps: int
    drafted: int
    accepted: int
    histogram: list[int]


class Entry(msgspec.Struct, frozen=True):
    """One finished request.

    Attributes:
        version: :data:`VERSION` of the writer.
        time: When the request's head arrived, RFC 3339 in UTC.
        seed: Of the draws: with the request id it gives the ones this decision used, see
            :func:`gateway.wire.identity.draw`.
        seconds: From the request's head to the last byte.
        decided_after: From the request's head to the decision.
        features: Fields of :class:`gateway.core.features.Features`, see :func:`features_of`.
        label: Workload.
        scores: Probability by label where the classifier gave one.
        choice: What was decided.
        states: Every backend of the choice as it was then.
        attempts: Backends tried, in order.
        backend: The one that answered or was tried last; empty if none was.
    """

    version: int
    time: str
    request_id: str
    trace_id: str
    span_id: str
    seed: int
    seconds: float
    decided_after: float
    features: dict[str, Any]
    label: str
    confidence: float
    source: str
    scores: dict[str, float]
    choice: Choice
    states: list[State]
    attempts: list[Try]
    backend: str
    method: str
    draft_tokens: int
    baseline: bool
    outcome: Result
    acceptance: Acceptance


class UnreadableError(ValueError):
    """A line that is no entry of this version. Says where, what is wrong and what would be right."""


def features_of(entry: Entry) -> Features:
    """The facts of the request as the classifier and the filters saw them.

    Session and tenant are pseudonyms: equal where they were equal, within one run of the gateway.
    """
    facts = dict(entry.features)
    told, hints = dict(facts.pop("marks")), Hints(**facts.pop("hints"))
    # Older logs have the turns of a loop beside it, and the oldest know nothing else of it.
    turns = told.pop("tool_turns", 0)
    marks = Marks(**{**told, "loop": Loop(**{"turns": turns, **told.get("loop", {})})})
    parameters = frozenset(facts.pop("parameters"))
    return Features(**facts, parameters=parameters, marks=marks, hints=hints)


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Entry)
_VERSIONED: Final = msgspec.json.Decoder(dict[str, Any])


def line_of(entry: Entry) -> bytes:
    """An entry as a line of the log, its end included."""
    return _ENCODER.encode(entry) + b"\n"


def parse(line: bytes) -> Entry:
    """An entry from a line of the log.

    Raises:
        UnreadableError: It is none, or was written by a later version.
    """
    try:
        entry = _DECODER.decode(line)
        datetime.fromisoformat(entry.time)
    except (msgspec.DecodeError, ValueError) as error:
        why = str(error)
    else:
        return entry
    try:
        version = _VERSIONED.decode(line).get("version")
    except (msgspec.DecodeError, UnicodeDecodeError):
        version = None
    if isinstance(version, int) and version > VERSION:
        why = f"it has version {version} of the schema; this specroute reads up to {VERSION}"
    raise UnreadableError(why)


def entries(files: Sequence[Path]) -> Iterator[Entry]:
    """All entries of some files, in their order.

    The last line of a file may be torn, where the process died as it wrote it: it is passed over.

    Raises:
        UnreadableError: Another line is no entry; names file and line.
    """
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield parse(line)
                except UnreadableError as error:
                    raise UnreadableError(f"{path}:{number}: {error}") from None
