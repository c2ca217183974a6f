"""What to change about a gateway in service, by the reasoning of a sweep on what it has measured itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from backends.sweep.cost import Point, fit, late_share, predicted
from backends.sweep.stats import Interval
from backends.sweep.words import LATE, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backends.sweep.seen import Server
    from gateway.policy.evidence import Evidence

STALE_DAYS: Final = 90
"""Age of measurements from which on engines and drivers are likely others."""

DIFFERS: Final = 0.1
"""Relative difference of accepted lengths between traffic and evidence that is said."""

WORTH_TRYING: Final = 0.03
"""Expected gain below which another draft length is not proposed."""

CLIMB_FROM: Final = 0.6
"""Acceptance at the last position from which on a longer draft is looked at."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do.

    Attributes:
        kind: ``shorter``, ``longer``, ``loses``, ``fleet``, ``consolidate``, ``routing_pays``,
            ``untold``, ``no_baseline``, ``stale`` or ``differs``.
        about: Backends or the target that it is about.
        words: What is seen, what to do, and what to expect.
        expected: Expected change of tokens/s as a share, with bounds; None where it cannot be told.
    """

    kind: str
    about: tuple[str, ...]
    words: str
    expected: Interval | None = None


def advise(
    servers: Sequence[Server],
    evidence: Evidence | None,
    today: date,
    learnt: Mapping[str, Sequence[str]] | None = None,
) -> list[Advice]:
    """All advice, what is worth most first within each kind.

    Args:
        servers: What the gateway has seen.
        evidence: Of a sweep, for what traffic alone cannot tell; None without one.
        today: For its age.
        learnt: By target, what the gateway itself says of its fleet, where it learns: that counts load and
            prompts, and stands in for what speed-ups alone say of routing.
    """
    learnt = learnt or {}
    found = [
        *(one for server in servers for one in _lengths(server, servers, evidence)),
        *_losing(servers),
        *(
            one
            for target in dict.fromkeys(server.target for server in servers)
            for one in (_told(target, learnt[target]) if learnt.get(target) else _mix(target, servers))
        ),
        *_unmeasured(servers),
    ]
    if evidence is not None:
        found += _evidence(evidence, servers, today)
    return found


def _lengths(server: Server, servers: Sequence[Server], evidence: Evidence | None) -> Iterator[Advice]:
    """Whether another draft length promises more on the traffic that a backend has."""
    survival = server.survival
    if not survival:
        return
    points = _points(server, servers, evidence)
    best = _best_length(server, points)
    late = next((at for at in range(2, len(survival) + 1) if late_share(survival, at) < LATE), None)
    if late is not None and (best is None or best[0] < server.draft_tokens):
        tokens, expected = (late - 1, None) if best is None else best
        share = late_share(survival, late)
        several = late < server.draft_tokens
        where = f"positions {late}–{server.draft_tokens}" if several else f"position {late}"
        gives = "give" if several else "gives"
        seen = f"{where} of {server.label} ({server.name}) {gives} {share:.1%} of its tokens"
        yield Advice("shorter", (server.name,), f"{seen}: try N={tokens}{_expectation(expected)}", expected)
    elif best is not None and best[0] < server.draft_tokens:
        words = f"{server.label} ({server.name}) drafts more than pays: try N={best[0]}"
        yield Advice("shorter", (server.name,), words + _expectation(best[1]), best[1])
    elif best is not None:
        seen = f"{survival[-1]:.0%} of the steps of {server.label} ({server.name}) accept its last draft"
        yield Advice("longer", (server.name,), f"{seen}: try N={best[0]}{_expectation(best[1])}", best[1])


def _expectation(expected: Interval | None) -> str:
    if expected is None:
        return "; what it gains cannot be told before another N of this method was measured"
    half = ""
    if expected.low is not None and expected.high is not None:
        half = f" ± {(expected.high - expected.low) / 2:.0%}"
    return f", expected {expected.value:+.0%}{half}"


def _points(server: Server, servers: Sequence[Server], evidence: Evidence | None) -> list[Point]:
    """Measured lengths of a backend's method: from traffic, and from evidence what it does not tell."""
    alike = [one for one in servers if (one.target, one.method) == (server.target, server.method)]
    points = [found for one in alike if (found := _point(one)) is not None]
    lengths = {point.draft_tokens for point in points}
    cells = evidence.measurements if evidence is not None and evidence.target == server.target else ()
    usable = [one for one in cells if one.method == server.method and one.cost and one.by_position]
    for tokens in sorted({one.draft_tokens for one in usable} - lengths):
        own = [one for one in usable if one.draft_tokens == tokens]
        cost = sum(one.cost or 0.0 for one in own) / len(own)
        survival = tuple(sum(at) / len(own) for at in zip(*(one.by_position for one in own), strict=False))
        points.append(Point(tokens, survival, Interval((1.0 + sum(survival)) / cost)))
    return points


def _point(server: Server) -> Point | None:
    """A backend over all of its traffic: speed-ups of its workloads, weighed by their tokens."""
    known = [
        (one.output_tokens, one.speedup)
        for one in server.traffic.values()
        if one.speedup and one.output_tokens
    ]
    total = sum(tokens for tokens, _ in known)
    if not total or not server.survival:
        return None
    value = total / sum(tokens / one.value for tokens, one in known)
    widths = [one.half_width for _, one in known if math.isfinite(one.half_width)]
    if len(widths) < len(known):
        return Point(server.draft_tokens, server.survival, Interval(value))
    spread = math.exp(math.sqrt(sum((tokens / total * one.half_width) ** 2 for tokens, one in known)))
    return Point(server.draft_tokens, server.survival, Interval(value, value / spread, value * spread))


def _best_length(server: Server, points: Sequence[Point]) -> tuple[int, Interval] | None:
    """The draft length that promises most, with its expected gain; None if it is the one that runs."""
    own = next((point for point in points if point.draft_tokens == server.draft_tokens), None)
    line = fit(points)
    if own is None or line is None or own.cost is None:
        return None
    # The line has the slope; the backend itself says where it lies under the load that it has.
    shift = own.cost / max(0.01, line(server.draft_tokens))
    longest = server.draft_tokens * (2 if server.survival[-1] >= CLIMB_FROM else 1)
    gains = {
        tokens: expected / shift / own.speedup.value - 1.0
        for tokens in range(1, longest + 1)
        if (expected := predicted([own, *points], tokens)) is not None
    }
    best = max(gains, key=lambda one: gains[one])
    if best == server.draft_tokens or gains[best] - gains[server.draft_tokens] < WORTH_TRYING:
        return None
    gain = (1.0 + gains[best]) / (1.0 + gains[server.draft_tokens]) - 1.0
    if own.speedup.low is None or own.speedup.high is None:
        return best, Interval(gain)
    half = (1.0 + gain) * own.speedup.half_width
    return best, Interval(gain, gain - half, gain + half)


def _losing(servers: Sequence[Server]) -> Iterator[Advice]:
    """Backends that are slower than no speculation, beyond chance."""
    for server in servers:
        slow = [
            (name, one.speedup)
            for name, one in server.traffic.items()
            if one.speedup is not None and not server.is_baseline and (one.speedup.high or math.inf) < 1.0
        ]
        if slow:
            said = listed([f"{name} ({speedup.value:.2f} times)" for name, speedup in slow])
            yield Advice(
                "loses", (server.name,),
                f"{server.label} ({server.name}) is slower than no speculation on {said}: "
                "route these elsewhere",
            )  # fmt: skip


def _told(target: str, sentences: Sequence[str]) -> Iterator[Advice]:
    """What a gateway that learns says of its fleet."""
    return (Advice("fleet", (target,), f"{target}: {words}") for words in sentences)


def _mix(target: str, servers: Sequence[Server]) -> Iterator[Advice]:
    """Whether routing by workload beats the best single configuration."""
    tokens: dict[str, float] = {}
    speeds: dict[str, dict[str, Interval]] = {}
    for server in servers:
        if server.target != target:
            continue
        for name, one in server.traffic.items():
            tokens[name] = tokens.get(name, 0.0) + one.output_tokens
            found = Interval(1.0, 1.0, 1.0) if server.is_baseline else one.speedup
            if found is not None and one.output_tokens:
                known = speeds.setdefault(server.label, {}).get(name)
                if known is None or found.half_width < known.half_width:
                    speeds[server.label][name] = found
    judged = {name for by in speeds.values() for name in by if by is not speeds.get("none")}
    weights = {name: tokens[name] for name in judged if tokens[name]}
    complete = {label: by for label, by in speeds.items() if weights.keys() <= by.keys()}
    labels = {one.label for one in servers if one.target == target} - {"none"}
    if len(labels) < 2 or not weights:
        return
    if len(speeds.keys() - {"none"}) < 2 or not complete.keys() - {"none"}:
        yield _untold(target, labels, set(weights), speeds)
        return
    times = {label: sum(weights[name] / by[name].value for name in weights) for label, by in complete.items()}
    label = min(times, key=lambda one: times[one])
    best = sum(
        tokens_of / max(by[name].value for by in speeds.values() if name in by)
        for name, tokens_of in weights.items()
    )
    gain, noise = times[label] / best - 1.0, _noise(complete[label], weights)
    if gain <= max(noise, WORTH_TRYING):
        yield Advice(
            "consolidate", (target,),
            f"routing by workload does not pay on {target}: at best {gain:.1%} (chance makes ± {noise:.1%}) "
            f"over {label} for everything; consolidate on {label}",
            Interval(gain),
        )  # fmt: skip
    else:
        yield Advice(
            "routing_pays", (target,),
            f"routing by workload could give {gain:.1%} (± {noise:.1%}) over {label} for everything "
            f"on {target}",
            Interval(gain, gain - noise, gain + noise),
        )  # fmt: skip


def _untold(
    target: str, labels: set[str], workloads: set[str], speeds: Mapping[str, Mapping[str, Interval]]
) -> Advice:
    """Why it cannot be told whether routing pays, and what would tell."""
    missing = {
        label: sorted(workloads - speeds.get(label, {}).keys())
        for label in sorted(labels)
        if workloads - speeds.get(label, {}).keys()
    }
    gaps = "; ".join(f"{label} not on {listed(names)}" for label, names in missing.items())
    return Advice(
        "untold", (target,),
        f"whether routing by workload pays on {target} cannot be told, as too few configurations were "
        f"measured on every workload ({gaps}): `learning: {{mode: auto}}` tries each with some of all, and "
        "`specroute sweep` measures them beforehand",
    )  # fmt: skip


def _noise(by: Mapping[str, Interval], weights: Mapping[str, float]) -> float:
    """Relative half-width of a weighed sum of times; workloads without bounds count as half known."""
    total = sum(weights[name] / by[name].value for name in weights)
    parts = [weights[name] / by[name].value / total * (min(0.5, by[name].half_width)) for name in weights]
    return math.sqrt(sum(part**2 for part in parts))


def _unmeasured(servers: Sequence[Server]) -> Iterator[Advice]:
    """Workloads of which no speed-up is known although they have traffic."""
    for target in dict.fromkeys(one.target for one in servers):
        own = [one for one in servers if one.target == target]
        if not any(one.is_baseline for one in own):
            words = f"{target} has no server without speculation, so no gain can be told: add one"
            yield Advice("no_baseline", (target,), words)
            continue
        busy: dict[str, float] = {}
        for server in own:
            for name, one in server.traffic.items():
                busy[name] = busy.get(name, 0.0) + one.requests
        known = {name for one in own for name, traffic in one.traffic.items() if traffic.speedup is not None}
        missing = [name for name, requests in busy.items() if requests >= 100 and name not in known]
        if missing:
            words = (
                f"no speed-up is known for {listed(missing)} on {target}: raise baseline_share for a while"
            )
            yield Advice("no_baseline", (target,), words)


def _evidence(evidence: Evidence, servers: Sequence[Server], today: date) -> Iterator[Advice]:
    """Whether measurements still say what traffic says."""
    try:
        age = (today - date.fromisoformat(evidence.measured)).days
    except ValueError:
        age = 0
    if age > STALE_DAYS:
        words = f"the evidence is {age} days old: engine and driver are likely others by now; sweep again"
        yield Advice("stale", (evidence.target,), words)
    lengths: dict[tuple[str, str], list[float]] = {}
    for cell in evidence.measurements:
        if cell.mean_accepted_length:
            lengths.setdefault((cell.label, cell.workload), []).append(cell.mean_accepted_length)
    for server in servers:
        if server.target != evidence.target:
            continue
        for name, one in server.traffic.items():
            known = lengths.get((server.label, name))
            if known and one.survival:
                measured, live = sum(known) / len(known), 1.0 + sum(one.survival)
                if abs(live / measured - 1.0) > DIFFERS:
                    words = (
                        f"{server.label} ({server.name}) yields {live:.2f} tokens a step on {name}, the "
                        f"evidence says {measured:.2f}: it is stale, or your {name} is another; sweep with "
                        "your prompts"
                    )
                    yield Advice("differs", (server.name,), words)
