"""A request of a simulation: what it asks for, where it is, and what it has got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from backends.fleetsim.draws import Table

# How a request ended.
DONE: Final = 0
REFUSED: Final = 1
REJECTED: Final = 2
BROKEN: Final = 3
ENDINGS: Final = ("done", "refused", "rejected", "broken")
"""``refused``: the server answered 400. ``rejected``: the router had no server for it. ``broken``: the
server died after the first token."""


class Request:
    """One request. Plain attributes with slots: a simulation makes a million of them.

    Attributes:
        serial: Unique in the simulation, ascending.
        source: Index of the source that it came from.
        workload: What it is.
        label: What the classifier takes it for.
        confidence: How sure the classifier is, 0 to 1.
        prompt_tokens: Length of the prompt.
        output_tokens: Length of the answer; nobody knows it before the end.
        needs: Request parameters that some servers refuse.
        prefix: Names the conversation or system prompt that it shares its beginning with; None for none.
        shared_tokens: Prompt tokens in common with earlier requests of the same prefix.
        place: Its place in the sequence of draws.
        level: Its level of acceptance, see :meth:`backends.fleetsim.draws.Draws.factor`.
        arrived: When it reached the gateway, seconds.
        sent: When it was sent to the server that it is on.
        first: When its first token came; below 0 before.
        ended: When it ended; below 0 before.
        server: Index of the server it is on, or was last on; below 0 before.
        attempts: Servers tried.
        ending: One of the codes above, once it has ended.
        produced: Output tokens so far, without those of the stretch of steps under way.
        steps: Decode steps taken so far, with the same limit.
        drafted: Draft tokens proposed in them.
        accepted: Draft tokens accepted in them.
        cached_tokens: Prompt tokens found in the server's prefix cache.
        last_step: Seconds of the last decode step that it took part in.
        mark: Whatever the router wants to remember with it.
    """

    __slots__ = (
        "accepted", "arrived", "attempts", "cached_tokens", "confidence", "drafted", "end", "ended", "ending",
        "first", "label", "last_step", "level", "mark", "need", "needs", "output_tokens", "place", "prefix",
        "produced", "prompt_tokens", "rate", "sent", "serial", "server", "shared_tokens", "source", "started",
        "steps", "table", "to_prefill", "workload",
    )  # fmt: skip

    def __init__(
        self, serial: int, source: int, workload: str, prompt_tokens: int, output_tokens: int, arrived: float
    ) -> None:
        self.serial = serial
        self.source = source
        self.workload = self.label = workload
        self.confidence = 1.0
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.needs: frozenset[str] = frozenset()
        self.prefix: Hashable = None
        self.shared_tokens = 0
        self.place = 0
        self.level = 0
        self.arrived = self.sent = arrived
        self.first = self.ended = -1.0
        self.server = -1
        self.attempts = 0
        self.ending = DONE
        self.mark: object = None
        self.forget()

    def forget(self) -> None:
        """Start anew, as on another server."""
        self.first = -1.0
        self.produced = self.steps = self.drafted = self.accepted = self.cached_tokens = 0
        self.to_prefill = self.need = self.started = self.end = 0
        self.rate = 0.0
        self.last_step = 0.0
        self.table: Table | None = None
