"""What requests tell of servers, and what a learner is told of the servers themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.curve import affine
from gateway.core.predict import Cell, ServerModel, prompt_bin

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL: Final = "model"
LOOKUP: Final = "lookup"
FAMILIES: Final = {"ngram": LOOKUP, "suffix": LOOKUP}
"""Methods that find other workloads easy than those with a draft model do."""

_ACCEPTED: Final = {MODEL: 0.6, LOOKUP: 0.4}
"""Acceptance at each position that is believed in by family where there is no prior."""

_STEPS: Final = affine(0.02, 1.0)
"""Step times that are believed in where there is no prior; the first requests correct their level."""


class Span(NamedTuple):
    """A time in which a request was decoded.

    Attributes:
        batch: Mean number of requests on the server then, itself counted.
        seconds: Its length.
        steps: Steps of the engine in it; for a stream with an event a step, the events.
    """

    batch: float
    seconds: float
    steps: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one request tells of the server that answered it, since it last told.

    A request may give one sample at its end, or one each second and one at its end.

    Attributes:
        backend: The server.
        at: Monotonic seconds.
        classes: Probability by workload; they add up to 1.
        stratum: One of :data:`gateway.core.predict.STRATA`.
        prompt_tokens: Tokens of the prompt; None where not told.
        prompt_chars: Characters of the prompt; None where not told.
        prefill_tokens: Prompt tokens computed, those in the prefix cache left out; in a later sample of the
            same request, what was told too much or too little.
        computed_tokens: Prompt tokens computed in all, once that is known; None before.
        prefilled_at: Monotonic seconds at which they were; None for ``at``.
        ttft: Seconds from dispatch to the first token; None where not measured.
        queue: Mean number of requests on the server from dispatch to the first token, itself not counted.
        steps: Decode steps, those without a draft too; 0 where not measured.
        decoded: Tokens that these steps gave, so that ``decoded / steps`` is the accepted length.
        drafted: Draft tokens proposed in them; None where not told.
        spans: When it was decoded, one after the other; the last one ends ``at``.
        output_tokens: Length of the whole answer; None for one under way, cancelled or broken off.
        backpressured: The client was slow, so times are not the server's.
        resumed: Several servers answered, so times and acceptance are nobody's.
    """

    backend: str
    at: float
    classes: Mapping[str, float]
    stratum: str = "sampled"
    prompt_tokens: int | None = None
    prompt_chars: int | None = None
    prefill_tokens: int = 0
    computed_tokens: int | None = None
    prefilled_at: float | None = None
    ttft: float | None = None
    queue: float = 0.0
    steps: float = 0.0
    decoded: float = 0.0
    drafted: float | None = None
    spans: tuple[Span, ...] = ()
    output_tokens: int | None = None
    backpressured: bool = False
    resumed: bool = False

    @property
    def cells(self) -> list[tuple[Cell, float]]:
        """Its workloads, each at its length of prompt and kind of sampling, with their probabilities."""
        bin_ = prompt_bin(self.prompt_tokens or 0)
        return [(Cell(label, bin_, self.stratum), share) for label, share in self.classes.items()]

    @property
    def batch(self) -> float | None:
        """Mean requests on the server over the steps; None where no time is known."""
        steps = sum([span.steps for span in self.spans])
        return sum([span.batch * span.steps for span in self.spans]) / steps if steps else None


@dataclass(frozen=True, slots=True)
class Arm:
    """A server to learn about.

    Attributes:
        fingerprint: Of its configuration: target, method, N, draft, engine version. Another one starts anew;
            servers with the same one learn acceptance together, and lend each other step times.
        target: The target model; lengths of answers are its.
        draft_tokens: N; 0 without a draft, whose accepted length is 1 whatever it answers.
        family: :data:`MODEL` or :data:`LOOKUP`: servers of one family find the same workloads easy.
        prior: What is believed of it before the first request.
        max_running: Requests the engine batches.
        draft: What makes its drafts: servers with the same one that differ in N tell of each other.
    """

    fingerprint: str
    target: str = ""
    draft_tokens: int = 0
    family: str = MODEL
    prior: ServerModel | None = None
    max_running: int = 256
    draft: str = ""


def guess(draft_tokens: int, family: str = MODEL) -> ServerModel:
    """What is believed of a server of which nothing is known but its draft."""
    rate = _ACCEPTED[family]
    length = (1.0 - rate ** (draft_tokens + 1)) / (1.0 - rate)
    return ServerModel(other_steps_per_token=1.0 / length, step_seconds=_STEPS)
