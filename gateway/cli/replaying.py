"""From the lines of a decision log to requests that can be replayed, and to what their servers can do."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gateway.core.classify import Classification
from gateway.core.fleet import STAND_IN, BackendState, Load, Snapshot
from gateway.core.learn import FAMILIES, MODEL, Arm, Learner, Sample, Span
from gateway.core.observe import drafts_of, likely
from gateway.core.outcome import OK
from gateway.core.predict import stratum
from gateway.core.reasons import FULL
from gateway.core.replay import Logged
from gateway.telemetry.decision_schema import UnreadableError, entries, features_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from gateway.core.classes import ServiceClass
    from gateway.core.fleet import Backend
    from gateway.core.predict import ServerModel
    from gateway.policy.compile import Fleet
    from gateway.telemetry.decision_schema import Entry, State

BY_STAND_IN: Final = "answered by a stand-in"
NOT_ANSWERED: Final = "not answered at the first attempt"
NOT_MEASURED: Final = "without a count of tokens"
NO_DURATION: Final = "that took no time"
NOT_IN_FLEET: Final = "on servers that the fleet file does not have"


class TooLittleError(ValueError):
    """The log has nothing to replay; the message says why."""


class _Kept(NamedTuple):
    entry: Entry
    logged: Logged


@dataclass(slots=True)
class Read:
    """The requests of one target.

    Attributes:
        fleet: Its servers.
        kept: What can be replayed, in order of time.
        left_out: Why others cannot be, and how many.
    """

    fleet: Fleet
    kept: list[_Kept] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def logged(self) -> list[Logged]:
        """What the estimate takes."""
        return [one.logged for one in self.kept]


def read(files: Sequence[Path], fleet: Fleet, classes: Sequence[ServiceClass]) -> dict[str, Read]:
    """Read a log.

    Args:
        files: The oldest first.
        fleet: Who is who.
        classes: Those of the policy that is asked about; requests keep the class of the log by its name.

    Returns:
        By target.

    Raises:
        TooLittleError: A file cannot be read, or no request can be replayed.
    """
    found: dict[str, Read] = defaultdict(lambda: Read(fleet))
    replayable: list[Entry] = []
    there: dict[str, set[str]] = defaultdict(set)
    try:
        for entry in entries(files):
            target = entry.choice.target
            if target is None:
                continue
            there[entry.choice.fleet].update(state.backend for state in entry.states)
            if why := _why_not(entry, fleet):
                found[target].left_out[why] += 1
            else:
                replayable.append(entry)
    except UnreadableError as error:
        raise TooLittleError(str(error)) from None
    except OSError as error:
        raise TooLittleError(f"{error.filename}: {error.strerror}") from None
    for entry in replayable:
        try:
            logged = _logged(entry, fleet, there[entry.choice.fleet], classes)
        except (LookupError, TypeError, ValueError) as error:
            raise TooLittleError(
                f"request {entry.request_id}: no features of this version: {error}"
            ) from None
        found[entry.choice.target or ""].kept.append(_Kept(entry, logged))
    usable = {target: of for target, of in found.items() if of.kept}
    if not usable:
        named = ", ".join(f"{count} {why}" for of in found.values() for why, count in of.left_out.items())
        raise TooLittleError(f"no request of the log can be replayed: {named or 'it has none'}")
    for of in usable.values():
        of.kept.sort(key=lambda one: one.logged.now)
    return usable


def _why_not(entry: Entry, fleet: Fleet) -> str:
    choice, outcome = entry.choice, entry.outcome
    if entry.method == STAND_IN:
        return BY_STAND_IN
    known = {backend.name for backend in fleet.backends}
    if outcome.status != OK or outcome.resumed or len(entry.attempts) != 1:
        return NOT_ANSWERED
    if not choice.candidates or choice.candidates[0].backend != entry.backend or not choice.propensity:
        return NOT_ANSWERED
    if not outcome.output_tokens or outcome.decode_seconds is None:
        return NOT_MEASURED
    if entry.seconds <= entry.decided_after:
        return NO_DURATION
    if entry.backend not in known:
        return NOT_IN_FLEET
    return ""


def _logged(entry: Entry, fleet: Fleet, there: Container[str], classes: Sequence[ServiceClass]) -> Logged:
    head = datetime.fromisoformat(entry.time).timestamp()
    now = head + entry.decided_after
    states = {state.backend: state for state in entry.states}
    target = entry.choice.target
    outcome = entry.outcome
    computed = None if outcome.input_tokens is None else outcome.input_tokens - (outcome.cached_tokens or 0)
    return Logged(
        features=features_of(entry),
        classification=Classification(entry.label, entry.confidence, entry.source, entry.scores),
        snapshot=Snapshot.of(
            [
                _state(backend, states.get(backend.name), now, there=backend.name in there)
                for backend in fleet.backends
                if backend.target == target
            ],
            entry.choice.fleet,
        ),
        now=now,
        backend=entry.backend,
        propensity=entry.choice.propensity or 1.0,
        seconds=entry.seconds - entry.decided_after,
        output_tokens=outcome.output_tokens or 1,
        prompt_tokens=computed,
        service=next((one for one in classes if one.name == entry.choice.service), None),
    )


def _state(backend: Backend, seen: State | None, now: float, *, there: bool) -> BackendState:
    """A server at the time of a decision.

    A line names the servers that could not be had, and of many replicas only those that were drawn. So one
    that it does not name could be had, if any line of the same fleet file names it. Whether one that was full
    is so in the replay, too, follows from the load there.
    """
    if seen is None:
        return BackendState(backend, healthy=there, reason="" if there else "not in the log")
    if seen.unavailable not in {"", FULL}:
        return BackendState(backend, healthy=False, reason=seen.unavailable)
    load = None
    if seen.load_age is not None:
        load = Load(seen.running or 0, seen.waiting or 0, seen.kv_usage, now - seen.load_age)
    return BackendState(backend, in_flight=seen.in_flight, since_load=seen.since_load or 0, load=load)


def learnt(of: Read) -> dict[str, ServerModel]:
    """What the servers can do, from the same log."""
    learner, backends = Learner(), {backend.name: backend for backend in of.fleet.backends}
    target = of.kept[0].entry.choice.target
    for name, backend in backends.items():
        if backend.target == target:
            draft = drafts_of(backend)
            fingerprint, family = f"{draft}/{backend.draft_tokens}", FAMILIES.get(backend.method, MODEL)
            learner.arm(name, Arm(fingerprint, target or "", backend.draft_tokens, family, draft=draft))
    crowds = {
        name: _Crowd([one.logged for one in of.kept if one.logged.backend == name]) for name in backends
    }
    published, now = 0.0, 0.0
    for one in sorted(of.kept, key=lambda kept: kept.logged.now + kept.logged.seconds):
        now = one.logged.now + one.logged.seconds
        learner.update(_sample(one, crowds[one.logged.backend], now))
        if now - published >= 1.0:
            learner.publish(now)
            published = now
    return dict(learner.publish(now))


class _Crowd:
    """How many requests of the log were on a server at a time: the integral, to take means from."""

    def __init__(self, logged: Sequence[Logged]) -> None:
        begun = [one.now for one in logged]
        ended = [one.now + one.seconds for one in logged]
        times = np.array([*begun, *ended])
        order = np.argsort(times, kind="stable")
        counts = np.cumsum(np.array([1] * len(begun) + [-1] * len(ended))[order])
        self._times: NDArray[np.float64] = times[order]
        self._area = np.concatenate([[0.0], np.cumsum(counts[:-1] * np.diff(self._times))])

    def mean(self, since: float, until: float) -> float:
        """Mean number between two times of which one request at least was on it all along."""
        low, high = np.interp([since, until], self._times, self._area)
        return max(1.0, float(high - low) / (until - since)) if until > since else 1.0


def _sample(one: _Kept, crowd: _Crowd, now: float) -> Sample:
    entry, logged = one
    outcome, acceptance = entry.outcome, entry.acceptance
    seconds = outcome.decode_seconds or 0.0
    decoded = float(outcome.decode_tokens or 0)
    steps = float(decoded if not entry.draft_tokens else acceptance.steps or max(0, outcome.events - 1))
    spans = (Span(crowd.mean(now - seconds, now), seconds, steps),) if seconds > 0.0 and steps else ()
    queue = next((state.in_flight for state in entry.states if state.backend == entry.backend), 0)
    return Sample(
        backend=entry.backend,
        at=now,
        classes=likely(logged.classification),
        stratum=stratum(logged.features),
        prompt_tokens=outcome.input_tokens,
        prompt_chars=logged.features.prompt_chars,
        prefill_tokens=logged.prompt_tokens or 0,
        computed_tokens=logged.prompt_tokens,
        ttft=outcome.ttft,
        queue=float(queue),
        steps=steps,
        decoded=decoded,
        spans=spans,
        output_tokens=outcome.output_tokens,
        backpressured=outcome.backpressured,
    )
