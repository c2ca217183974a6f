"""What is known of one server's speed, and how long a request would take on it at a given load."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.classify import Classification
    from gateway.core.features import Features

PROMPT_BINS: Final = (2_048, 8_192, 32_768)
"""Prompt tokens at which the next bin of prompt lengths begins: acceptance falls with long contexts."""

GREEDY: Final = "greedy"
SAMPLED: Final = "sampled"
STRUCTURED: Final = "structured"
STRATA: Final = (GREEDY, SAMPLED, STRUCTURED)
"""Kinds of sampling that acceptance is told apart by; ``structured`` is under a grammar or a forced tool."""

START_STEPS: Final = 1.5
"""Steps between a request's arrival at an idle queue and its prefill: the one under way, and its own."""

CHARS_PER_TOKEN: Final = 4.0
"""Characters in a token until requests have told."""

_RETURNS: Final = 0.5
"""Part of the way that the load of a server goes back to its usual one while a request is answered."""

LIKELY: Final = 0.05
"""Class probability below which a class does not count in a prediction."""


class Cell(NamedTuple):
    """What acceptance is kept for.

    Attributes:
        workload: Label.
        bin: Place in :data:`PROMPT_BINS` of the prompt's length, 0 for the shortest.
        stratum: One of :data:`STRATA`.
    """

    workload: str
    bin: int
    stratum: str


_cell: Final = lru_cache(1024)(Cell)
"""The same cell each time, made once."""


def prompt_bin(tokens: float) -> int:
    """The bin a prompt of so many tokens is in."""
    return bisect_right(PROMPT_BINS, tokens)


def stratum(features: Features) -> str:
    """How the answer is sampled, as far as acceptance depends on it."""
    if features.response_format not in {"text", ""} or features.tool_choice in {"required", "named"}:
        return STRUCTURED
    return GREEDY if features.temperature == 0.0 else SAMPLED


@dataclass(frozen=True, slots=True)
class ServerModel:
    """What is known of one server. Published whole, never changed.

    Attributes:
        fingerprint: Of the configuration it was learnt on; servers with the same one are replicas.
        steps_per_token: E[1/τ], decode steps for an output token, by cell; 1 without a draft.
        other_steps_per_token: The same for cells that are not known.
        step_seconds: Seconds of a step by the requests in the batch: entry n is for n of them, entry 0 for an
            idle server's first. Beyond the last entry it goes on as between the last two.
        crowding: What one more request costs all others together, in seconds a step, by the requests there
            are; None where the step table says it: n·(s(n+1) - s(n)). See ``curve.crowding``.
        prefill_seconds: Seconds for each prompt token that is not cached.
        start_steps: Steps from dispatch to the first token, the prompt's own time left out.
        stretch: How much longer decoding takes for the prompts that the server computes beside it.
        output_tokens: Mean length of an answer by workload.
        other_output_tokens: The same for workloads that are not known.
        prompt_tokens: Mean prompt tokens that are computed, by workload.
        mean_steps: Decode steps of a mean request of the traffic it gets, for what waiting costs.
        usual: Requests on it in the mean of late; None where nobody counts.
        max_running: Requests the engine batches; more wait.
        chars_per_token: Of prompts.
        evidence: Weight of the requests behind each workload's acceptance, in requests, discounted.
        spread: How far log ``steps_per_token`` is unknown: its standard deviation by workload.
        other_spread: The same for workloads that are not known.
        request_spread: Standard deviation of log ``steps_per_token`` between requests of one kind; 0 where
            there is no draft.
        measured: Weight of the evidence behind the step times, in requests, discounted; also for its age.
    """

    fingerprint: str = ""
    steps_per_token: Mapping[Cell, float] = field(default_factory=dict)
    other_steps_per_token: float = 1.0
    step_seconds: Sequence[float] = (0.02, 0.02)
    crowding: Sequence[float] | None = None
    prefill_seconds: float = 1e-4
    start_steps: float = START_STEPS
    stretch: float = 1.0
    output_tokens: Mapping[str, float] = field(default_factory=dict)
    other_output_tokens: float = 300.0
    prompt_tokens: Mapping[str, float] = field(default_factory=dict)
    mean_steps: float = 150.0
    usual: float | None = None
    max_running: int = 256
    chars_per_token: float = CHARS_PER_TOKEN
    evidence: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    other_spread: float = 0.0
    request_spread: float = 0.0
    measured: float = 0.0

    def step(self, batch: float) -> float:
        """Seconds of a step with so many requests in the batch."""
        return step_at(self.step_seconds, batch)


def step_at(table: Sequence[float], batch: float) -> float:
    """Seconds of a step by a step table, between its entries in proportion."""
    last = len(table) - 1
    if batch >= last:
        return table[last] + (batch - last) * max(0.0, table[last] - table[last - 1])
    low = int(batch)
    return table[low] + (batch - low) * (table[low + 1] - table[low])


class Ask(NamedTuple):
    """A request as far as its time depends on it.

    Attributes:
        classes: Each likely cell with its probability; they add up to 1.
        prompt_tokens: Tokens of the prompt; None where only the characters are known.
        prompt_chars: Characters of the prompt.
        max_tokens: Most tokens of the answer; None where the request sets no limit.
    """

    classes: tuple[tuple[Cell, float], ...]
    prompt_tokens: float | None
    prompt_chars: int
    max_tokens: int | None


_ask: Final[Callable[[tuple[object, ...]], Ask]] = partial(tuple.__new__, Ask)
"""Makes one of its fields, in a quarter of the time of a call by names."""


def ask(features: Features, classification: Classification) -> Ask:
    """A request as a prediction needs it, all likely classes kept: a doubtful label counts for little."""
    chars = features.prompt_chars
    bin_, how = prompt_bin(chars / CHARS_PER_TOKEN), stratum(features)
    likely, total = [], 0.0
    for label, share in classification.weights.items():
        if share >= LIKELY:
            likely.append((_cell(label, bin_, how), share))
            total += share
    classes = tuple([(cell, share / total) for cell, share in likely])
    return _ask((classes, None, chars, features.max_tokens))


class Home(NamedTuple):
    """Where a conversation was answered last.

    Attributes:
        backend: The server.
        tokens: Tokens of the conversation that it is likely to have in its prefix cache.
    """

    backend: str
    tokens: float


class Prediction(NamedTuple):
    """What sending a request to a server would mean, in seconds.

    Attributes:
        ttft: Until its first token.
        tpot: For each token after it.
        completion: Until its last token.
        harm: That all the others on the server would finish later, added up.
    """

    ttft: float
    tpot: float
    completion: float
    harm: float


def predict(model: ServerModel, request: Ask, queue: float, cached_tokens: float = 0.0) -> Prediction:
    """How long a request takes on a server, and how much longer the others there do.

    With n others, L output tokens, K = L · E[1/τ] steps, s(n) seconds a step, f the ``stretch``
    by prompts computed beside, and u prompt tokens to compute at p seconds each:
    TTFT = wait + (u·p + c·s(n+1))·f; completion = TTFT + K·s(n+1)·f;
    harm = h·(K·s(n+1) + u·p)·f + (1 + h)·n·u·p·f. Its prompt holds up everybody in the batch; and all of the
    server's time that it takes keeps the others there for longer, with whom steps are longer, by the share
    e = n·(s(n+1) - s(n)) / s(n+1), or ``crowding`` / s(n+1) where that is known. Who is held up holds up
    others in turn: h = e + e² + e³, no further terms, as near saturation e is mostly noise. A request stays
    for long, so that n is not the queue that it finds, but halfway from there to the server's ``usual`` one.

    Args:
        model: The server.
        request: The request.
        queue: Requests on the server, running and waiting, this one not counted.
        cached_tokens: Prompt tokens that the server has in its prefix cache.
    """
    expected = weigh(request, model.output_tokens, model.other_output_tokens)
    steps, prompt = steps_of(model, expected), max(0.0, prompt_of(model, request) - cached_tokens)
    at = pace(model, queue)
    ttft, decode = at.start + prompt * at.prompt_token, steps * at.step
    harm = max(0.0, steps * at.harm_step + prompt * at.harm_prompt_token)
    tokens = expected[0]
    tpot = decode / tokens if tokens else model.step(min(queue + 1.0, model.max_running))
    return Prediction(ttft, tpot, ttft + decode, harm)


Expected = tuple[float, list[tuple[Cell, float]]]
"""Expected output tokens of a request: all, and the part of each likely cell."""


def weigh(request: Ask, lengths: Mapping[str, float], other: float) -> Expected:
    """How many tokens a request is expected to get.

    Args:
        request: The request.
        lengths: Mean output tokens by workload.
        other: The same for workloads that are not in it.
    """
    most = request.max_tokens
    parts, total = [], 0.0
    for cell, share in request.classes:
        length = lengths.get(cell[0], other)
        tokens = share * (most if most is not None and most < length else length)
        parts.append((cell, tokens))
        total += tokens
    return total, parts


def steps_of(model: ServerModel, expected: Expected) -> float:
    """Decode steps that expected tokens take on a server."""
    known, other = model.steps_per_token, model.other_steps_per_token
    steps = 0.0
    for cell, part in expected[1]:
        steps += part * known.get(cell, other)
    return steps


def prompt_of(model: ServerModel, request: Ask) -> float:
    """Tokens of a request's prompt, as far as is known."""
    tokens = request.prompt_tokens
    return request.prompt_chars / model.chars_per_token if tokens is None else tokens


class Pace(NamedTuple):
    """How a request's time on a server at its present load follows from the request, as of :func:`predict`.

    Attributes:
        start: Seconds to the first token of a prompt of which nothing is to be computed.
        prompt_token: Seconds more for each prompt token to compute.
        step: Seconds for each decode step.
        harm_step: Seconds that all others together wait longer for each decode step; negative where more
            requests make steps shorter ...
        harm_prompt_token: ... and for each prompt token to compute. Harm is never negative in all.
    """

    start: float
    prompt_token: float
    step: float
    harm_step: float
    harm_prompt_token: float


def pace(model: ServerModel, queue: float) -> Pace:
    """The pace of a server.

    Args:
        model: The server.
        queue: Requests on it, the one asked about not counted.
    """
    most = model.max_running - 1.0
    batch = met = min(most, queue)
    held = _held(model, batch)
    if model.usual is not None:
        met = min(most, batch + _RETURNS * (model.usual - batch))
        # A cliff that is near now is one, however far from it the server usually is.
        held = max(held, _held(model, met))
    then, stretch = model.step(met + 1.0), model.stretch
    # Those that wait get in as those that run leave: batch / (steps · seconds) a second.
    wait = (queue - batch) * model.mean_steps * then / model.max_running
    often = min(1.0, max(0.0, held))
    lost = held + often**2 + often**3
    step, prompt_token = then * stretch, model.prefill_seconds * stretch
    return Pace(
        start=wait + model.start_steps * step,
        prompt_token=prompt_token,
        step=step,
        harm_step=lost * step,
        harm_prompt_token=(lost + (1.0 + max(0.0, lost)) * met) * prompt_token,
    )


def _held(model: ServerModel, batch: float) -> float:
    """How much longer one more request keeps all others together, as a share of its own time."""
    then, crowding = model.step(batch + 1.0), model.crowding
    if crowding is None:
        slower = batch * (then - model.step(batch))
    else:
        slower = crowding[min(int(batch), len(crowding) - 1)]
    return slower / then if then else 0.0
