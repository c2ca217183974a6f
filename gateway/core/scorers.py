"""What sending a request to each candidate costs; lower is better. One function a scorer."""

from __future__ import annotations

from math import exp, hypot, log
from typing import TYPE_CHECKING, Final

from gateway.core.predict import Ask, prompt_of, steps_of, weigh
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.plan import Limits
    from gateway.core.predict import Home
    from gateway.core.standing import Standing

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
_LEAST_CHANCE: Final = 1.0 / (1.0 + exp(_MOST_EXPONENT))

ANYTHING: Final = Ask((), None, 0, None)
"""Stands for the request where nothing is predicted."""


@value(frozen=True, slots=True)
class Costing:
    """What a scorer may look at: all candidates at once, so that a thousand of them take one call.

    Attributes:
        servers: Those that can take the request.
        ranks: The rank of each in the route's preferences, 0 first.
        ask: The request, for predictions.
        home: The server that holds the conversation so far in its prefix cache, if one does.
        limits: What the answer must keep.
    """

    servers: Sequence[Standing]
    ranks: Sequence[int]
    ask: Ask = ANYTHING
    home: Home | None = None
    limits: Limits | None = None

    def among(self, places: Sequence[int]) -> Costing:
        """The same with some of the candidates; ``replace`` takes four times as long."""
        servers, ranks = self.servers, self.ranks
        return Costing(
            [servers[at] for at in places], [ranks[at] for at in places], self.ask, self.home, self.limits
        )


def preference(costing: Costing) -> list[float]:
    """Rank in the route's list: 0 for the first choice, 1 for the second."""
    return [*map(float, costing.ranks)]


def load(costing: Costing) -> list[float]:
    """Requests on the server as a share of its in-flight limit: 0 idle, 1 at the limit."""
    return [one.load for one in costing.servers]


def seconds(costing: Costing) -> list[float]:
    """Predicted seconds to the last token, and those that all others would finish later.

    A server whose KV cache is nearly full costs up to infinity more. The server that has the conversation in
    its prefix cache computes only what is new, and is left only for a gain that is more than noise.
    """
    home = costing.home
    costs = _seconds(costing.servers, costing.ask, costing.limits, 0.0)
    if home is not None:
        for at, one in enumerate(costing.servers):
            if one.name == home.backend:
                costs[at] = STAY * _seconds([one], costing.ask, costing.limits, home.tokens)[0]
    return costs


def _seconds(servers: Sequence[Standing], ask: Ask, limits: Limits | None, cached: float) -> list[float]:
    """What each server costs if it has so many tokens of the prompt in its prefix cache."""
    if limits is not None and not limits.any:
        limits = None
    costs = []
    # Servers of one target share the lengths of answers, and replicas how much of a draft is accepted.
    lengths = accepts = others = None
    for one in servers:
        (
            model, long, accepted, other, start, prompt_token, step, harm_step, harm_prompt_token, price,
        ) = one.known or one.terms()  # fmt: skip
        if long is not lengths:
            lengths, accepts = long, None
            expected = weigh(ask, lengths, model.other_output_tokens)
            prompt = max(0.0, prompt_of(model, ask) - cached)
        if accepted is not accepts or other != others:
            accepts, others = accepted, other
            steps = steps_of(model, expected)
        ttft = start + prompt * prompt_token
        decode = steps * step
        harm = steps * harm_step + prompt * harm_prompt_token
        cost = ttft + decode + HARM * harm if harm > 0.0 else ttft + decode
        if limits is not None:
            cost += _missed(one, ttft, decode, expected[0], limits)
        costs.append(cost * price)
    return costs


def _missed(one: Standing, ttft: float, decode: float, tokens: float, limits: Limits) -> float:
    """Price of the answers that miss their limits for this request: its own, and those of others there.

    A draft that keeps the limit in the mean misses it for the requests it has bad luck with; without a draft
    every token takes as long as every other.
    """
    missed, tpot = 0.0, limits.tpot
    if tpot is not None and tokens:
        used, spread = decode / (tokens * tpot), hypot(one.model.request_spread, _STEP_SPREAD)
        missed = own = _chance_above_one(used, spread)
        if own and one.queue:
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
    exponent = -_LOGISTIC * log(mean) / spread
    return 1.0 / (1.0 + exp(exponent)) if exponent < _MOST_EXPONENT else _LEAST_CHANCE


SCORERS: Final[Mapping[str, Callable[[Costing], list[float]]]] = {
    "preference": preference,
    "load": load,
    "seconds": seconds,
}
"""Scorers by the name a policy file uses."""

PREDICTING: Final = frozenset({"seconds"})
"""Those that read :attr:`Costing.ask`."""
