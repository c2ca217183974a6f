"""Learns what each server can do from what it answered: acceptance, step times, prefill, lengths."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.predict import ServerModel


class Span(NamedTuple):
    """A time in which a request was decoded.

    Attributes:
        batch: Mean number of requests on the server then, itself counted.
        seconds: Its length.
        steps: Steps of the engine in it; for a stream with an event a step, the events.
        tokens: Tokens it got in it.
    """

    batch: float
    seconds: float
    steps: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one request, finished or under way, tells of the server that answered it.

    Attributes:
        backend: The server.
        at: Monotonic seconds.
        classes: Probability by workload; they add up to 1.
        stratum: One of :data:`gateway.core.predict.STRATA`.
        prompt_tokens: Tokens of the prompt; None where not told.
        cached_tokens: Those of them found in the prefix cache.
        prompt_chars: Characters of the prompt; None where not told.
        output_tokens: Length of the answer; None for one under way, cancelled or broken off.
        steps: Verification steps, those without drafts too; 0 where not measured.
        decoded: Tokens that these steps gave, so that ``decoded / steps`` is the accepted length.
        spans: When it was decoded; those not yet told by an earlier sample of the same request.
        ttft: Seconds from dispatch to the first token; None where not measured.
        queue: Requests on the server when it was sent, itself not counted.
        backpressured: The client was slow, so times are not the server's.
        resumed: Several servers answered, so times and acceptance are nobody's.
    """

    backend: str
    at: float
    classes: Mapping[str, float]
    stratum: str = "sampled"
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    prompt_chars: int | None = None
    output_tokens: int | None = None
    steps: float = 0.0
    decoded: float = 0.0
    spans: tuple[Span, ...] = ()
    ttft: float | None = None
    queue: float = 0.0
    backpressured: bool = False
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """A server to learn about.

    Attributes:
        fingerprint: Of its configuration: target, method, N, draft, engine version. Another one starts anew.
        draft_tokens: N; 0 without a draft, whose accepted length is 1 whatever it answers.
        family: Servers of one family find the same workloads easy: ``model`` or ``lookup``.
        prior: What is believed of it before the first request.
    """

    fingerprint: str
    draft_tokens: int = 0
    family: str = "model"
    prior: ServerModel | None = None


@dataclass(slots=True)
class Learner:
    """All arms. Has one owner, who feeds it samples in order of time; others read what it publishes."""

    arms: dict[str, Arm] = field(default_factory=dict)
    _models: dict[str, ServerModel] = field(default_factory=dict)

    def arm(self, backend: str, arm: Arm) -> None:
        """Take in a server, or another configuration of a known one, which starts anew."""
        self.arms[backend] = arm
        if arm.prior is not None:
            self._models[backend] = arm.prior

    def update(self, sample: Sample) -> None:
        """Learn from a request."""

    def publish(self) -> Mapping[str, ServerModel]:
        """What is known now, by backend."""
        return dict(self._models)
