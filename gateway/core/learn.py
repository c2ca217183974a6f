"""Learns what each server can do from what it answered: acceptance, step times, prefill, lengths."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.curve import Curve, Pool, crowding, falls, rising
from gateway.core.drift import Drift
from gateway.core.lengths import Lengths
from gateway.core.posterior import Evidence, fresh, publish, publish_each
from gateway.core.predict import LIKELY, ServerModel, step_at
from gateway.core.prefill import STALL, Prefill
from gateway.core.samples import FAMILIES, LOOKUP, MODEL, Arm, Sample, Span, guess
from gateway.core.shortening import Shortening, excess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.posterior import Published
    from gateway.core.predict import Cell

__all__ = ["FAMILIES", "LOOKUP", "MODEL", "Arm", "Learner", "Sample", "Span", "guess"]

_FULL_TOKENS: Final = 400.0
"""Tokens that count as one whole request: more tell no more, as they are alike. Not steps: those that accept
little take more of them, and would count for too much."""

_SPAN_STEPS: Final = 50.0
"""The same for step times."""

_LEAST_STEPS: Final = 2.0
"""Fewer steps than this say nothing: the last one is cut short."""

_LOAD_WEIGHT: Final = 0.1
"""Part of a request's weight that speaks for acceptance that changes with load: most engines' does not."""

_LEAST_DECODING: Final = 0.2
"""Share of a span that is decoding at least, whatever prompts are believed to have taken of it."""

AT_A_TIME: Final = 64
"""Servers whose models are made anew at each publication: a quarter of a millisecond each."""

_OF_LATE: Final = 20.0
"""Seconds over which the usual number of requests on a server is taken: about as long as answers take."""

_TELLING: Final = 1.0
"""Evidence, in requests, from which step times tell whether a server has changed: a short span beside a long
prompt may seem half as long again."""

_FORGET: Final = 0.2
"""Share of a server's evidence that outlives a change of its speed or a restart."""


@dataclass(slots=True)
class _Server:
    """What is known of one server beside its configuration's acceptance.

    Its own ``steps`` are as long as they are; those of the published model also count how many more a token
    takes under load.
    """

    arm: Arm
    curve: Curve
    prefill: Prefill
    drift: Drift = field(default_factory=lambda: Drift(0.15))
    residual: float = 0.0
    residuals: float = 0.0
    seen: float = 0.0
    usual: float | None = None
    counted: float = 0.0
    steps: Sequence[float] = ()
    model: ServerModel = field(default_factory=ServerModel)


class Learner:
    """All servers. Has one owner, who feeds it samples in order of time; others read what it publishes."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._accepted: dict[str, Evidence] = {}
        self._by_load: dict[str, Curve] = {}
        self._short: dict[str, Shortening] = {}
        self._published: dict[str, Published] = {}
        self._lengths: dict[str, Lengths] = {}
        self._next = 0

    def arm(self, backend: str, arm: Arm, now: float = 0.0) -> None:
        """Take in a server, or another configuration of a known one, which starts anew."""
        known = self._servers.get(backend)
        if known is not None and known.arm == arm:
            return
        prior = arm.prior or guess(arm.draft_tokens, arm.family)
        self._servers[backend] = _Server(arm, Curve(prior.step_seconds), Prefill(prior.prefill_seconds))
        if arm.fingerprint not in self._accepted:
            self._accepted[arm.fingerprint] = Evidence.of(arm, prior)
        self._by_load.setdefault(arm.fingerprint, Curve((1.0, 1.0)))
        self._short.setdefault(arm.fingerprint, Shortening(falls(prior.step_seconds)))
        lengths = self._lengths.setdefault(arm.target, Lengths())
        if arm.prior is not None:
            lengths.believe(arm.prior)
        self._published.setdefault(arm.fingerprint, publish(self._accepted[arm.fingerprint], now))
        server = self._servers[backend]
        self._renew(backend, server, Pool(), server.prefill.rows(1.0), self._loaded(arm), now)

    @property
    def backends(self) -> set[str]:
        """Names of all servers."""
        return set(self._servers)

    def drop(self, backend: str) -> None:
        """Forget a server that is gone; what its replicas share stays."""
        self._servers.pop(backend, None)

    def restarted(self, backend: str) -> None:
        """Trust little of what was learnt of a server: it was started anew, nobody says with what."""
        if (server := self._servers.get(backend)) is not None:
            server.curve.shifted(0.0, _FORGET)
            self._accepted[server.arm.fingerprint].weaken(_FORGET)

    def update(self, sample: Sample) -> None:
        """Learn from a request. One on a server that is not known teaches nothing."""
        server = self._servers.get(sample.backend)
        if server is None or sample.resumed:
            return
        cells = sample.cells
        if sample.steps >= _LEAST_STEPS and sample.decoded > 0 and server.arm.draft_tokens:
            self._take_acceptance(server, sample, cells)
        if not sample.backpressured:
            self._take_times(server, sample)
        if sample.output_tokens is not None:
            self._take_length(server, sample, cells, sample.output_tokens)

    def _take_acceptance(self, server: _Server, sample: Sample, cells: Iterable[tuple[Cell, float]]) -> None:
        fingerprint = server.arm.fingerprint
        known = self._published[fingerprint]
        weight = min(sample.decoded, _FULL_TOKENS) / _FULL_TOKENS
        shares = [
            (cell, share, known.steps_per_token.get(cell, known.other_steps_per_token))
            for cell, share in cells
        ]
        # More than N + 1 tokens a step is a merged event, less than one a step that was not this request's.
        seen = min(1.0, max(sample.steps / sample.decoded, 1.0 / (server.arm.draft_tokens + 1)))
        evidence = self._accepted[fingerprint]
        evidence.seen |= {cell.workload: sample.at for cell, share, _ in shares if share >= LIKELY}
        batch = sample.batch
        if batch is not None and sample.drafted is not None and server.arm.family == MODEL:
            # Drafts that load has shortened tell little of what whole ones would bring.
            whole = min(1.0, sample.drafted / (sample.steps * server.arm.draft_tokens))
            self._short[fingerprint].add(batch, whole, weight)
            expected = sum([share * theta for _, share, theta in shares])
            seen, weight = seen / excess(expected, server.arm.draft_tokens, whole), weight * whole
        if weight > 0.0:
            residual = evidence.add(shares, seen, weight)
            if batch is not None:
                self._by_load[fingerprint].add(batch, residual, _LOAD_WEIGHT * weight)

    def _take_times(self, server: _Server, sample: Sample) -> None:
        prefill, until = server.prefill, sample.at
        for span in reversed(sample.spans):
            since = until - span.seconds
            if span.steps >= _LEAST_STEPS and span.seconds > 0.0:
                self._take_span(server, span, prefill.between(since, until), until)
            until = since
        computed = sample.at if sample.prefilled_at is None else sample.prefilled_at
        prefill.add(computed, sample.prefill_tokens, math.inf if sample.ttft is None else sample.ttft)
        if (tokens := sample.computed_tokens) is None:
            return  # what a prompt costs is not learnt from a guess at its length
        self._lengths[server.arm.target].prompt(sample.classes, tokens)
        if sample.ttft is not None:
            step = step_at(server.steps, min(sample.queue + 1.0, server.arm.max_running))
            prefill.learn_start(sample.ttft, step, tokens, sample.queue, server.model.stretch)

    def _take_span(self, server: _Server, span: Span, prompts: float, at: float) -> None:
        batch = min(span.batch, server.arm.max_running)  # the others wait
        step = step_at(server.steps, batch)
        # Those in one batch see the same steps, so each tells less that is new.
        weight = min(1.0, span.steps / _SPAN_STEPS) / math.sqrt(max(1.0, batch))
        computing = prompts * server.prefill.seconds
        likely = max(step, server.curve.likely(batch))
        seconds = min(span.seconds, STALL * (span.steps * likely + computing))
        server.prefill.learn_span(seconds, span.steps * step, prompts, weight)
        each = max(seconds - computing, _LEAST_DECODING * seconds) / span.steps
        server.seen = at
        server.curve.add(batch, math.log(each / server.curve.expected(batch)), weight)
        server.residual += weight * math.log(each / step)
        server.residuals += weight

    def _take_length(
        self, server: _Server, sample: Sample, cells: Iterable[tuple[Cell, float]], tokens: int
    ) -> None:
        model = server.model
        lengths = self._lengths[server.arm.target]
        lengths.add(sample.classes, tokens, sample.prompt_tokens, sample.prompt_chars)
        steps = tokens * sum(
            share * model.steps_per_token.get(cell, model.other_steps_per_token) for cell, share in cells
        )
        lengths.steps(sample.backend, steps)

    def count(self, queues: Mapping[str, float], now: float) -> None:
        """Take in how many requests servers have. Meant to be called about once a second."""
        for backend, queue in queues.items():
            if (server := self._servers.get(backend)) is not None:
                share = -math.expm1((server.counted - now) / _OF_LATE)
                before = queue if server.usual is None else server.usual
                server.usual, server.counted = before + share * (queue - before), now

    @property
    def models(self) -> Mapping[str, ServerModel]:
        """What is known, by backend, as of when it was last made anew."""
        return {backend: server.model for backend, server in self._servers.items()}

    def publish(self, now: float) -> Mapping[str, ServerModel]:
        """Make the models anew at once, see :meth:`renew`, and hand them over."""
        for _ in self.renew(now):
            pass
        return self.models

    def renew(self, now: float) -> Iterator[None]:
        """Make the models anew, or of many servers the next ones; a step takes up to a millisecond.

        Meant to be done about once a second. Samples may come, and servers change, between steps.
        """
        arms = {server.arm.fingerprint: server.arm for server in self._servers.values()}
        for fingerprint, known in publish_each(self._accepted, arms, now):
            self._published[fingerprint] = known
            yield
        kin: dict[object, Pool] = defaultdict(Pool)
        prompts: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(8))
        for server in tuple(self._servers.values()):
            kin[_kin(server.arm)].add(server.curve)
            prompts[server.arm.fingerprint] += server.prefill.rows(server.curve.level)
            yield
        by_load: dict[str, NDArray[np.float64]] = {}
        for backend, server in self._turn():
            yield
            if self._servers.get(backend) is not server:
                continue  # it is gone, or another configuration
            arm, fingerprint = server.arm, server.arm.fingerprint
            if fingerprint not in by_load:
                by_load[fingerprint] = self._loaded(arm)
            self._renew(backend, server, kin[_kin(arm)], prompts[fingerprint], by_load[fingerprint], now)

    def _loaded(self, arm: Arm) -> NDArray[np.float64]:
        """How many more steps a token takes by batch."""
        usual = self._published[arm.fingerprint].other_steps_per_token
        short = self._short[arm.fingerprint].table(usual, arm.draft_tokens)
        return self._by_load[arm.fingerprint].relative() * short

    def _steps_per_token(self, server: _Server) -> Mapping[Cell, float]:
        """By cell, as its requests meet them at its usual load."""
        arm = server.arm
        known, short = self._published[arm.fingerprint], self._short[arm.fingerprint]
        if server.usual is None:
            return known.steps_per_token
        usual = known.other_steps_per_token
        return short.relative(known.steps_per_token, usual, arm.draft_tokens, server.usual)

    def _turn(self) -> list[tuple[str, _Server]]:
        """Servers whose models are made anew this time: all, or where there are many, the next ones."""
        servers = list(self._servers.items())
        first = self._next % len(servers) if len(servers) > AT_A_TIME else 0
        self._next = first + AT_A_TIME
        return (servers[first:] + servers[:first])[:AT_A_TIME]

    def _renew(
        self,
        backend: str,
        server: _Server,
        kin: Pool,
        prompts: NDArray[np.float64],
        by_load: NDArray[np.float64],
        now: float,
    ) -> None:
        """Make a server's model anew, after a look at whether it is still what it was."""
        if server.residuals >= _TELLING:
            jump = server.drift.step(server.residual / server.residuals)
            server.residual = server.residuals = 0.0
            if jump is not None:
                server.curve.shifted(jump, _FORGET)
        server.prefill.solve(server.curve.level, prompts)
        arm = server.arm
        accepted, lengths = self._published[arm.fingerprint], self._lengths[arm.target]
        table = server.curve.table(kin)
        server.steps = rising(table.tolist())
        steps = rising((table * by_load).tolist()) if arm.draft_tokens else server.steps
        server.model = ServerModel(
            fingerprint=arm.fingerprint,
            steps_per_token=self._steps_per_token(server) if arm.draft_tokens else {},
            other_steps_per_token=accepted.other_steps_per_token if arm.draft_tokens else 1.0,
            step_seconds=steps,
            crowding=crowding(steps),
            prefill_seconds=server.prefill.seconds,
            start_steps=server.prefill.start_steps,
            stretch=server.prefill.stretch(now),
            output_tokens=lengths.output_tokens,
            other_output_tokens=lengths.other,
            prompt_tokens=lengths.prompt_tokens,
            mean_steps=lengths.mean_steps(backend),
            usual=server.usual,
            max_running=arm.max_running,
            chars_per_token=lengths.chars_per_token,
            evidence=accepted.evidence,
            spread=accepted.spread if arm.draft_tokens else {},
            other_spread=accepted.other_spread if arm.draft_tokens else 0.0,
            request_spread=accepted.request_spread if arm.draft_tokens else 0.0,
            measured=server.curve.evidence * fresh(now - server.seen),
        )


def _kin(arm: Arm) -> object:
    """Servers that lend each other step times: replicas, and all of a target of which nothing is known."""
    return arm.fingerprint if arm.prior is not None else (arm.target,)
