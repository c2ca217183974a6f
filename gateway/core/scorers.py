"""What sending a request to each candidate costs; lower is better. One function a scorer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.predict import Ask, Home, ServerModel, prompt_of, steps_of, times, weigh
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.fleet import BackendState
    from gateway.core.plan import Limits

HARM: Final = 1.0
"""What a second that others wait longer counts, in own seconds. Anything from 0.5 to 1.5 does."""

FULL_CACHE: Final = 0.8
"""Share of the KV cache in use above which more requests risk preemption."""

STAY: Final = 0.95
"""What the seconds at a conversation's own server count: it moves for more than the difference to 1."""

MISSED: Final = 4.0
"""What an answer that misses its limits counts, in times of its own seconds."""

_STEP_SPREAD: Final = 0.04
"""Standard deviation of the logarithm of a request's step time at one load."""

_LOGISTIC: Final = 1.702
"""Steepness at which the logistic distribution is like the normal one."""

_MOST_EXPONENT: Final = 700.0

_UNKNOWN: Final = ServerModel()
ANYTHING: Final = Ask((), None, 0, None)
"""Stands for the request where nothing is predicted."""


@value(frozen=True, slots=True)
class Costing:
    """What a scorer may look at: all candidates at once, so that a thousand of them take one call.

    Attributes:
        candidates: Each with its rank in the route's preferences, 0 first.
        now: Monotonic seconds.
        stale_after: Age in seconds beyond which scraped load is ignored.
        ask: The request, for predictions.
        home: The server that holds the conversation so far in its prefix cache, if one does.
        limits: What the answer must keep.
    """

    candidates: Sequence[tuple[BackendState, int]]
    now: float
    stale_after: float
    ask: Ask = ANYTHING
    home: Home | None = None
    limits: Limits | None = None


def preference(costing: Costing) -> list[float]:
    """Rank in the route's list: 0 for the first choice, 1 for the second."""
    return [float(rank) for _, rank in costing.candidates]


def load(costing: Costing) -> list[float]:
    """Requests on the server as a share of its in-flight limit: 0 idle, 1 at the limit."""
    now, stale_after = costing.now, costing.stale_after
    return [state.queue(now, stale_after) / state.backend.max_in_flight for state, _ in costing.candidates]


def seconds(costing: Costing) -> list[float]:
    """Predicted seconds to the last token, and those that all others would finish later.

    A server whose KV cache is nearly full costs up to infinity more. The server that has the conversation in
    its prefix cache computes only what is new, and is left only for a gain that is more than noise.
    """
    now, stale_after, ask, home = costing.now, costing.stale_after, costing.ask, costing.home
    limits = costing.limits if costing.limits is not None and costing.limits.any else None
    costs = []
    lengths: object = None
    for state, _ in costing.candidates:
        model, queue, load = state.model or _UNKNOWN, state.queue(now, stale_after), state.load
        if model.output_tokens is not lengths:  # servers of one target share them
            lengths = model.output_tokens
            expected = weigh(ask, model.output_tokens, model.other_output_tokens)
            prompt = prompt_of(model, ask)
        at_home = home is not None and home.backend == state.backend.name
        left = prompt if home is None or not at_home else max(0.0, prompt - home.tokens)
        ttft, decode, harm = times(model, steps_of(model, expected), left, queue)
        cost = ttft + decode + HARM * harm
        if limits is not None:
            cost += _missed(model, ttft, decode, expected[0], queue, limits)
        if load is not None and load.kv_usage is not None and load.kv_usage > FULL_CACHE:
            cost *= 1.0 + (load.kv_usage - FULL_CACHE) / max(1e-3, 1.0 - load.kv_usage)
        costs.append(cost * STAY if at_home else cost)
    return costs


def _missed(
    model: ServerModel, ttft: float, decode: float, tokens: float, queue: float, limits: Limits
) -> float:
    """Price of the answers that miss their limits for this request: its own, and those of others there.

    A draft that keeps the limit in the mean misses it for the requests it has bad luck with; without a draft
    every token takes as long as every other.
    """
    missed = 0.0
    if limits.tpot is not None and tokens:
        used, spread = decode / (tokens * limits.tpot), math.hypot(model.request_spread, _STEP_SPREAD)
        own = _chance_above_one(used, spread)
        missed += own
        if queue and own:
            without = used * model.step(queue) / model.step(queue + 1.0)
            missed += queue * (own - _chance_above_one(without, spread))
    if limits.ttft is not None and ttft > limits.ttft:
        missed += 1.0
    return MISSED * missed * (ttft + decode)


def _chance_above_one(mean: float, spread: float) -> float:
    """Probability that a quantity is above 1, of that mean and standard deviation of its logarithm.

    By the logistic distribution, which is as good as the normal one here.
    """
    if mean <= 0.0:
        return 0.0
    return 1.0 / (1.0 + math.exp(min(_MOST_EXPONENT, -_LOGISTIC * math.log(mean) / spread)))


SCORERS: Final[Mapping[str, Callable[[Costing], list[float]]]] = {
    "preference": preference,
    "load": load,
    "seconds": seconds,
}
"""Scorers by the name a policy file uses."""

PREDICTING: Final = frozenset({"seconds"})
"""Those that read :attr:`Costing.ask`."""
