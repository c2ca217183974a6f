"""Whether routes together take all requests that another one would take.

Of a request, matches tell apart a model, a label, a language and so on: a match is a box in the space of
these, and what some routes leave of another one is what remains of its box when theirs are cut out.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from math import inf
from operator import and_
from typing import TYPE_CHECKING, Final, TypeAlias

from gateway.core.features import ENDPOINTS
from gateway.core.language import UNKNOWN
from gateway.core.language_words import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gateway.core.policy import Match

UNNAMED: Final = ""
"""The model of a request that names none; it may go to any target."""

MOST_LOOKS: Final = 50_000
"""Boxes looked at for one answer, which takes some tens of milliseconds; beyond that there is none."""

MOST_LOOKS_IN_ALL: Final = 40 * MOST_LOOKS

_Box: TypeAlias = tuple[int, ...]
"""For each axis a bit for each part of it; the first axis is the model."""


class _TooManyError(Exception):
    """There are more boxes than may be looked at."""


class _Names:
    """An axis of names, each a part; where not all are known, those that nobody uses are one more."""

    def __init__(self, known: Iterable[str] | None, used: Iterable[frozenset[str]]) -> None:
        names = sorted(frozenset(known or ()).union(*used))
        self._bits = {name: 1 << at for at, name in enumerate(names)}
        self.all = (1 << len(names) + (known is None)) - 1

    def of(self, names: Collection[str]) -> int:
        """The parts that a condition takes; one that is empty takes all."""
        return sum(self._bits[name] for name in names) if names else self.all


class _Steps:
    """An axis of numbers from 0 on, cut wherever a condition begins or ends."""

    def __init__(self, cuts: Iterable[float]) -> None:
        self._starts = sorted({0, *cuts})

    def of(self, first: float, end: float = inf) -> int:
        """The parts from a number to another one, that one excluded."""
        return (1 << bisect_left(self._starts, end)) - (1 << bisect_left(self._starts, first))


def _end(match: Match) -> float:
    return inf if match.max_prompt_tokens is None else match.max_prompt_tokens + 1


class _Looks:
    """How many boxes may still be looked at: for one answer, and for all."""

    def __init__(self) -> None:
        self._left = MOST_LOOKS_IN_ALL
        self._least = 0

    def begin(self) -> None:
        """Begin with another answer, if there may be one."""
        if not self._left:
            raise _TooManyError
        self._least = max(0, self._left - MOST_LOOKS)

    def take(self) -> None:
        """Look at one."""
        if self._left <= self._least:
            raise _TooManyError
        self._left -= 1


class Requests:
    """All requests there can be, as far as some matches tell them apart."""

    def __init__(
        self,
        matches: Sequence[Match],
        *,
        models: Collection[str] | None = None,
        labels: Collection[str] | None = None,
    ) -> None:
        """Find out what is told apart.

        Args:
            matches: All that will be asked about.
            models: All names that a request may have as its model; None where they are not known.
            labels: All labels that a request can get; None where they are not known.
        """
        known = None if models is None else (UNNAMED, *models)
        self._models = _Names(known, [one.models | {UNNAMED} for one in matches])
        self._workloads = _Names(labels, [one.workloads for one in matches])
        self._languages = _Names((*LANGUAGES, UNKNOWN), [one.languages for one in matches])
        self._endpoints = _Names(ENDPOINTS, [one.endpoints for one in matches])
        self._tenants = _Names(None, [one.tenants for one in matches])
        self._confidence = _Steps(one.min_confidence for one in matches)
        cuts = (cut for one in matches for cut in (one.min_prompt_tokens, _end(one)) if cut < inf)
        self._tokens = _Steps(cuts)
        self._boxes: dict[Match, _Box] = {}
        self._looks = _Looks()

    def reaches(self, match: Match, earlier: Sequence[Match]) -> bool | None:
        """Whether a request can get past the earlier matches to this one; None if that is too hard to say."""
        try:
            self._looks.begin()
            return not self._covered(self._box(match), [self._box(one) for one in earlier])
        except _TooManyError:
            return None

    def takers(self, match: Match, earlier: Sequence[Match], *, named: bool = False) -> tuple[int, ...]:
        """Which earlier matches together take all requests of this one, each of them needed for it.

        Args:
            match: The one that comes after.
            earlier: Those before it.
            named: Leave out requests that name no model.

        Returns:
            Their positions; none where something is left, or where that is too hard to say.
        """
        try:
            self._looks.begin()
            box = self._box(match)
            if named:
                box = (box[0] & ~self._models.of({UNNAMED}), *box[1:])
            return self._takers(box, [self._box(one) for one in earlier]) if all(box) else ()
        except _TooManyError:
            return ()

    def _takers(self, box: _Box, earlier: list[_Box]) -> tuple[int, ...]:
        needed = {at: other for at, other in enumerate(earlier) if self._meet(box, other)}
        for at, other in needed.items():
            if all(mine & ~theirs == 0 for mine, theirs in zip(box, other, strict=True)):
                return (at,)
        if not self._covered(box, list(needed.values())):
            return ()
        with suppress(_TooManyError):  # then some that are not needed are named, too
            for at in reversed(tuple(needed)):
                rest = {one: other for one, other in needed.items() if one != at}
                if self._covered(box, list(rest.values())):
                    needed = rest
        return tuple(needed)

    def _covered(self, box: _Box, others: Sequence[_Box]) -> bool:
        """Whether nothing is left of a box when the others are cut out."""
        pieces = [(box, 0)]
        while pieces:
            piece, at = pieces.pop()
            while at < len(others) and not self._meet(piece, others[at]):
                at += 1
            if at == len(others):
                return False
            for axis, theirs in enumerate(others[at]):
                if outside := piece[axis] & ~theirs:
                    pieces.append(((*piece[:axis], outside, *piece[axis + 1 :]), at + 1))
                    piece = (*piece[:axis], piece[axis] & theirs, *piece[axis + 1 :])
        return True

    def _meet(self, box: _Box, other: _Box) -> bool:
        self._looks.take()
        return all(map(and_, box, other))

    def _box(self, match: Match) -> _Box:
        if match not in self._boxes:
            self._boxes[match] = (
                self._models.of(match.models),
                self._workloads.of(match.workloads),
                self._languages.of(match.languages),
                self._endpoints.of(match.endpoints),
                self._tenants.of(match.tenants),
                0b11 if match.stream is None else 0b10 if match.stream else 0b01,
                self._confidence.of(match.min_confidence),
                self._tokens.of(match.min_prompt_tokens, _end(match)),
            )
        return self._boxes[match]
