"""What is simulated: everything but the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.fleetsim.faults import Event
    from backends.fleetsim.model import Model
    from backends.fleetsim.traffic import Source, Traced

ATTEMPTS: Final = 3
"""Servers tried for one request."""

REFUSAL_SECONDS: Final = 0.005
"""A server's answer that it does not take a parameter; nobody's measurement, only above 0."""

RETRY_SECONDS: Final = 1.0
"""After which a client of a closed loop that was turned away asks anew."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything about a simulation but its policy.

    Attributes:
        models: What each server runs.
        sources: Who sends requests.
        warm_up: Virtual seconds before the window.
        window: Virtual seconds measured.
        drain: Virtual seconds after the window in which its requests may still end; sources go on.
        seed: Of all that is random.
        events: What happens to servers.
        scrape_seconds: How often the router learns a server's own load; 0 for never.
        probe_seconds: After which a server that did not answer is tried again.
        kv_limit: Whether the KV cache limits the batch.
        cache_tokens: Size of each server's prefix cache; 0 for none.
        max_batched_tokens: Prompt tokens computed in one step at most.
        trace: Recorded requests, sent in addition to the sources' at their times.
    """

    models: Sequence[Model]
    sources: Sequence[Source]
    warm_up: float = 60.0
    window: float = 180.0
    drain: float = 0.0
    seed: int = 0
    events: Sequence[Event] = ()
    scrape_seconds: float = 0.0
    probe_seconds: float = 5.0
    kv_limit: bool = False
    cache_tokens: int = 0
    max_batched_tokens: int = 2048
    trace: Sequence[Traced] = ()
