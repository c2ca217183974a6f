"""What prompts cost a server: seconds a token, steps until the first token, and the share of its time."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.predict import START_STEPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HORIZON: Final = 20.0
"""Seconds over which the share of prompts in a server's time is taken."""

_MOST_SHARE: Final = 0.8
"""Prompts never take more than this of a server's time, as far as a prediction goes."""

_REMEMBERED: Final = 300.0
"""Seconds for which it is known when prompts were computed; longer than most answers take."""

_MOST: Final = 8192
"""Prompts of which it is known at most."""

_SPAN_SPREAD: Final = 0.1
"""Standard deviation of the time of a span, as a share of it."""

_LEVEL_SPREAD: Final = 0.3
_PRICE_SPREAD: Final = 0.3
"""Standard deviations by which all times of a server, and beside that the price of a prompt token, may be
off, as shares of what is believed."""

_TRUST: Final = np.array([(_SPAN_SPREAD / _LEVEL_SPREAD) ** 2, 0.6, (_SPAN_SPREAD / _PRICE_SPREAD) ** 2])
"""Requests that the belief counts for: in the level, in the steps until the first token, and in the price."""

_UNCLEAR: Final = 12.0**-0.5
"""Standard deviation of the prompt tokens counted in a span, as a share of the usual number: that of anything
between half of it and one and a half. When a prompt was computed is known only about, and what is known about
explains less than it should: prompts of a server with many were taken for slow steps, and so it got more."""

_RECENT: Final = 0.02
"""Share of each new request in the steps until the first token, which depend on the load."""

_LEAST: Final = 1e-6
"""Seconds that the prior's price of a token counts as at least, where it knows none."""

_NOISE: Final = 0.2
"""Weight of a time to a first token on an idle server beside that of a span of steps."""

_MOST_START: Final = 50.0
"""Steps until the first token that one request counts for at most."""

STALL: Final = 3.0
"""Times as long as believed that a first token, or a span of steps, counts for at most: now and then an
engine compiles something for seconds, and no server is given up for that. Being fast is no accident."""

_INSTANT: Final = 1e-6
"""Seconds that computing a prompt takes at least."""

_MEMORY: Final = 300.0
"""Requests after which evidence has lost most of its weight."""


@dataclass(slots=True)
class Prefill:
    """Least squares of observed on expected seconds, drawn to the prior.

    A span of k steps with P prompt tokens computed beside it takes a·k·s + p·P seconds, and a first token
    comes after c·s + p·u seconds; a, c and p are found together, so that steps that are slower than believed
    are not taken for dear prompts.

    Attributes:
        prior: Seconds a prompt token before there is evidence.
        seconds: Seconds a prompt token.
        start_steps: Steps from dispatch to the first token, the prompt's own time left out.
    """

    prior: float
    seconds: float = field(init=False)
    start_steps: float = START_STEPS
    _sums: list[float] = field(default_factory=lambda: [0.0] * 8)
    _step: float = 0.0
    _times: list[float] = field(default_factory=list)
    _tokens: list[float] = field(default_factory=list)
    _forgotten: float = 0.0
    _recent: float = 0.0
    _at: float = 0.0

    def __post_init__(self) -> None:
        self.seconds = self.prior

    def add(self, at: float, tokens: int, most: float = math.inf) -> None:
        """Count prompt tokens that were computed just before, at monotonic seconds.

        A long prompt takes several steps, so its tokens are spread over the time that they are believed to
        take. An estimate is put right by counting the difference, be it negative, at the same time.

        Args:
            at: When the last of them was.
            tokens: How many.
            most: Seconds before that in which they were all computed.
        """
        late = math.exp(-abs(self._at - at) / _HORIZON)
        self._recent = self._recent * late + tokens if at >= self._at else self._recent + tokens * late
        self._at = max(at, self._at)
        if tokens:
            took = max(_INSTANT, min(most, abs(tokens) * self.seconds))
            first = self._knot(at - took)
            self._knot(at)
            for place in range(first + 1, len(self._times)):
                self._tokens[place] += tokens * min(1.0, (self._times[place] - at + took) / took)
        half = len(self._times) // 2
        if half and (self._times[half] < at - _REMEMBERED or half > _MOST // 2):
            self._forgotten = self._tokens[half - 1]
            del self._times[:half], self._tokens[:half]

    def _knot(self, at: float) -> int:
        """Place of a time among those between which the sum of tokens grows evenly."""
        place = bisect_right(self._times, at)
        self._tokens.insert(place, self._until(at))
        self._times.insert(place, at)
        return place

    def between(self, since: float, until: float) -> float:
        """Prompt tokens that were computed in a time."""
        return self._until(until) - self._until(since)

    def _until(self, at: float) -> float:
        place = bisect_right(self._times, at)
        before = self._tokens[place - 1] if place else self._forgotten
        if not 0 < place < len(self._times):
            return before
        since, until = self._times[place - 1], self._times[place]
        return before + (self._tokens[place] - before) * (at - since) / (until - since)

    def stretch(self, at: float) -> float:
        """How much longer decoding takes, as of late, for the prompts that are computed beside it."""
        recent = self._recent * math.exp(min(0.0, self._at - at) / _HORIZON)
        return 1.0 / (1.0 - min(_MOST_SHARE, recent / _HORIZON * self.seconds))

    def learn_span(self, seconds: float, expected: float, tokens: float, weight: float) -> None:
        """Take in a span of steps.

        Args:
            seconds: What it took.
            expected: What its steps were believed to take without prompts.
            tokens: Prompt tokens computed in it.
            weight: In requests.
        """
        self._learn(0, tokens / expected, seconds / expected, weight)

    def learn_start(self, ttft: float, step: float, tokens: int, queue: float, stretch: float) -> None:
        """Take in the time to a first token.

        Args:
            ttft: Seconds.
            step: Seconds of a step at the load of that time.
            tokens: Prompt tokens computed.
            queue: Requests on the server when it was sent.
            stretch: :meth:`stretch` at that time.
        """
        self._step = step
        # On a busy server others' prompts are before it, and a long one shares its steps with them.
        believed = (self.start_steps * step + tokens * self.seconds) * stretch
        seen = min(ttft, STALL * believed)
        self._learn(4, tokens / step, seen / step, _NOISE / (1.0 + queue) ** 3)
        steps = (ttft / stretch - tokens * self.seconds) / step
        self.start_steps += _RECENT * (min(_MOST_START, max(0.5, steps)) - self.start_steps)

    def _learn(self, kind: int, tokens: float, seen: float, weight: float) -> None:
        """Take in a row (1, tokens) → seen of a kind: Σ1, Σtokens, Σseen, Σtokens·seen from that place on.

        Σtokens² of both kinds is one sum, as is Σtokens·seen: the price of a token is the same in both.
        """
        keep = 1.0 - weight / _MEMORY
        self._sums = [keep * one for one in self._sums]
        sums = self._sums
        sums[kind] += weight
        sums[kind + 1] += weight * tokens
        sums[kind + 2] += weight * seen
        sums[3] += weight * tokens * tokens
        sums[7] += weight * tokens * seen

    def rows(self, level: float) -> NDArray[np.float64]:
        """What was taken in, prompt tokens by what they are believed to take; replicas' add up.

        Args:
            level: Factor by which the server's steps take longer than its prior says.
        """
        price = self._believed(level)
        units = np.array([1.0, price, 1.0, price * price, 1.0, price, 1.0, price])
        rows: NDArray[np.float64] = units * self._sums
        return rows

    def _believed(self, level: float) -> float:
        return level * max(self.prior, _LEAST)

    def solve(self, level: float, kin: NDArray[np.float64]) -> None:
        """Bring what is known up to date.

        Beside an even stream of prompts, what they cost and what steps cost cannot be told apart. Then the
        server is believed to be as much slower or faster at the one as at the other: with p₀ the prior times
        ``level``, p = (a + d)·p₀ where d is drawn to zero.

        Args:
            level: Factor by which the server's steps take longer than its prior says.
            kin: Sum of :meth:`rows` of the servers that run the same.
        """
        if not self._step:
            return
        steps, step_x, step_seen, x_x, starts, start_x, start_seen, x_seen = kin.tolist()
        matrix = np.array(
            [
                [steps + 2.0 * step_x + x_x, start_x, step_x + x_x],
                [start_x, starts, start_x],
                [step_x + x_x, start_x, x_x],
            ]
        )
        vector = np.array([step_seen + x_seen, start_seen, x_seen])
        believed, trust = np.array([1.0, START_STEPS, 0.0]), _TRUST.copy()
        trust[2] += _UNCLEAR**2 * step_x * step_x / steps if steps else 0.0
        level_, _, differs = np.linalg.solve(matrix + np.diag(trust), vector + trust * believed)
        self.seconds = max(0.0, float(level_ + differs) * self._believed(level))
