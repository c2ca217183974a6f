"""Small valid objects of the core for tests; each test names only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gateway.core.classify import Classification
from gateway.core.curve import affine
from gateway.core.decide import Draw, NoCandidate
from gateway.core.examples import BITS, Head, LearntLabels
from gateway.core.features import WORKLOADS, Features, Hints
from gateway.core.fleet import Backend, BackendState, Guide, Load, Snapshot
from gateway.core.marks import Marks
from gateway.core.outcome import Attempt, Outcome, Record, Trace
from gateway.core.policy import ClassifierSettings, Match, Policy, Route, Selector, Timeouts, WeightedScorer
from gateway.core.predict import ServerModel

ALIAS = "tiny"
TARGET = "org/Tiny"
ANY = Selector()
SERVER_MODEL = ServerModel(
    "one",
    other_steps_per_token=0.4,
    step_seconds=affine(0.02, 1.0),
    prefill_seconds=1e-5,
    other_output_tokens=300.0,
    prompt_tokens={"chat": 300.0, "code": 300.0},
)
UNDRAWN = Draw(explore=0.999, tie=0.0)


def backend(name: str = "a", **given: Any) -> Backend:
    fields: dict[str, Any] = {"url": f"http://{name}.test:8000", "target": TARGET, "served_model": ALIAS}
    return Backend(name, **fields | given)


def state(name: str = "a", *, in_flight: int = 0, **given: Any) -> BackendState:
    known = ("since_load", "load", "healthy", "reason", "breaker", "retry_at", "model")
    own = {key: given.pop(key) for key in known if key in given}
    return BackendState(backend(name, **given), in_flight=in_flight, **own)


def load(running: int = 0, waiting: int = 0, kv_usage: float | None = None, at: float = 0.0) -> Load:
    return Load(running, waiting, kv_usage, at)


def snapshot(*states: BackendState, guide: Guide | None = None) -> Snapshot:
    found = Snapshot.of(states, "fleet-1")
    return found if guide is None else replace(found, guide=guide)


def features(**given: Any) -> Features:
    hints = Hints(
        **{
            key: given.pop(key)
            for key in ("workload", "backend", "session", "tenant", "previous", "held")
            if key in given
        }
    )
    fields: dict[str, Any] = {
        "endpoint": "chat", "model": ALIAS, "stream": True, "n": 1, "max_tokens": None, "temperature": None,
        "parameters": frozenset(), "response_format": "text", "tool_choice": "", "tools": 0, "turns": 1,
        "last_role": "user", "system_chars": 0, "prompt_chars": 40, "last_chars": 40, "language": "en",
        "output_language": "en", "marks": Marks(), "hints": hints,
    }  # fmt: skip
    return Features(**fields | given)


def classification(label: str = "math", confidence: float = 0.9) -> Classification:
    return Classification(label, confidence, "rule:test")


def route(name: str = "all", **given: Any) -> Route:
    fields: dict[str, Any] = {
        "match": Match(),
        "prefer": (ANY,),
        "scorers": (WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0)),
    }
    return Route(name, **fields | given)


def prefer(*names: str) -> tuple[Selector, ...]:
    return tuple(Selector(name) for name in names)


def policy(*routes: Route, **given: Any) -> Policy:
    fields: dict[str, Any] = {
        "aliases": {ALIAS: TARGET},
        "routes": routes or (route(),),
        "timeouts": Timeouts(),
        "classifier": ClassifierSettings(),
        "allow_pin": True,
        "stale_after": 15.0,
        "revision": "policy-1",
    }
    return Policy(**fields | given)


def attempt(backend: str = "a", error: str = "connect", status: int = 0, phase: str = "connect") -> Attempt:
    return Attempt(backend, phase, error, status, started=0.0, ended=1.0)


def record(outcome: Outcome, label: str = "math", *, at: float = 0.0, **request: Any) -> Record:
    """A request that ended at once, with no word of where it went; further arguments are of its features."""
    decision = NoCandidate("empty_pool", "", False, None, (), "policy-1", "fleet-1")
    return Record(
        "r", Trace("0" * 32, "0" * 16), at, 0, at, at, features(**request), classification(label), decision, (),
        outcome,
    )  # fmt: skip


def learnt_labels(bias: float, *names: str) -> LearntLabels:
    """Labels learnt from examples (``sql`` by default) that every request has with the same odds."""
    nothing = np.zeros(2**BITS, np.float32)
    head = Head(nothing, (0.0,) * len(WORKLOADS), bias)
    return LearntLabels(dict.fromkeys(names or ("sql",), head), nothing)
