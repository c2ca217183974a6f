"""What sending a request to each candidate costs; lower is better. One function a scorer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.predict import Ask, prompt_of, steps_of, weigh
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.plan import Limits
    from gateway.core.predict import Home
    from gateway.core.standing import Ranked, Standing

HARM: Final = 1.0
"""What a second that others wait longer counts, in own seconds. Anything from 0.5 to 1.5 does."""

STAY: Final = 0.95
"""What the seconds at a conversation's own server count: it moves for more than the difference to 1."""

MISSED: Final = 4.0
"""What an answer that misses its limits counts, in times of its own seconds."""

_STEP_SPREAD: Final = 0.04
"""Standard deviation of the logarithm of a request's step time at one load."""

_LOGISTIC: Final = 1.702
"""Steepness at which the logistic distribution is like the normal one."""

_MOST_EXPONENT: Final = 700.0

ANYTHING: Final = Ask((), None, 0, None)
"""Stands for the request where nothing is predicted."""


@value(frozen=True, slots=True)
class Costing:
    """What a scorer may look at: all candidates at once, so that a thousand of them take one call.

    Attributes:
        candidates: Each with its rank in the route's preferences, 0 first.
        ask: The request, for predictions.
        home: The server that holds the conversation so far in its prefix cache, if one does.
        limits: What the answer must keep.
    """

    candidates: Sequence[Ranked]
    ask: Ask = ANYTHING
    home: Home | None = None
    limits: Limits | None = None

    def among(self, candidates: Sequence[Ranked]) -> Costing:
        """The same with other candidates; ``replace`` takes four times as long."""
        return Costing(candidates, self.ask, self.home, self.limits)


def preference(costing: Costing) -> list[float]:
    """Rank in the route's list: 0 for the first choice, 1 for the second."""
    return [float(rank) for _, rank in costing.candidates]


def load(costing: Costing) -> list[float]:
    """Requests on the server as a share of its in-flight limit: 0 idle, 1 at the limit."""
    return [one.load for one, _ in costing.candidates]


def seconds(costing: Costing) -> list[float]:
    """Predicted seconds to the last token, and those that all others would finish later.

    A server whose KV cache is nearly full costs up to infinity more. The server that has the conversation in
    its prefix cache computes only what is new, and is left only for a gain that is more than noise.
    """
    ask, home = costing.ask, costing.home
    limits = costing.limits if costing.limits is not None and costing.limits.any else None
    costs = []
    lengths: object = None
    for one, _ in costing.candidates:
        model = one.model
        if model.output_tokens is not lengths:  # servers of one target share them
            lengths = model.output_tokens
            expected = weigh(ask, model.output_tokens, model.other_output_tokens)
            prompt = prompt_of(model, ask)
        at_home = home is not None and home.backend == one.name
        left = prompt if home is None or not at_home else max(0.0, prompt - home.tokens)
        steps, (start, prompt_token, step, harm_step, harm_prompt_token) = steps_of(model, expected), one.pace
        own, harm = start + left * prompt_token + steps * step, steps * harm_step + left * harm_prompt_token
        cost = own + HARM * harm if harm > 0.0 else own
        if limits is not None:
            cost += _missed(one, start + left * prompt_token, steps * step, expected[0], limits)
        cost *= one.cache_price
        costs.append(cost * STAY if at_home else cost)
    return costs


def _missed(one: Standing, ttft: float, decode: float, tokens: float, limits: Limits) -> float:
    """Price of the answers that miss their limits for this request: its own, and those of others there.

    A draft that keeps the limit in the mean misses it for the requests it has bad luck with; without a draft
    every token takes as long as every other.
    """
    missed = 0.0
    if limits.tpot is not None and tokens:
        used, spread = decode / (tokens * limits.tpot), math.hypot(one.model.request_spread, _STEP_SPREAD)
        own = _chance_above_one(used, spread)
        missed += own
        if one.queue and own:
            missed += one.queue * (own - _chance_above_one(used * one.relief, spread))
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
