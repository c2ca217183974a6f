"""What is in force, and how every backend is, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.core.filters import unavailable

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState
    from gateway.policy.problems import Problem
    from gateway.runtime.reload import Configuration


def told(problems: tuple[Problem, ...]) -> list[dict[str, object]]:
    """Problems of files, each with its words."""
    return [problem.as_json() | {"text": str(problem)} for problem in problems]


def policy_status(configuration: Configuration) -> dict[str, Any]:
    """The policy in force, and why the file on disk is not."""
    return {
        "revision": configuration.config.policy.revision,
        "fleet_revision": configuration.config.fleet.revision,
        "routes": [route.name for route in configuration.config.policy.routes],
        "warnings": told(configuration.warnings),
        "problems": told(configuration.problems),
    }


def backend_status(state: BackendState, now: float) -> dict[str, Any]:
    """What is known of a backend at a time, in monotonic seconds."""
    backend, load, why = state.backend, state.load, unavailable(state, now)
    return {
        "name": backend.name,
        "target": backend.target,
        "method": backend.method,
        "draft_tokens": backend.draft_tokens,
        "url": backend.url,
        "available": why is None,
        "healthy": state.healthy,
        "unavailable": why[0] if why else None,
        "reason": why[1] if why else "",
        "breaker": state.breaker.phase(now),
        "trips": state.breaker.trips,
        "back_in_seconds": round(max(0.0, state.back_at - now), 3),
        "in_flight": state.in_flight,
        "limit": state.limit(now),
        "max_in_flight": backend.max_in_flight,
        "running": load.running if load else None,
        "waiting": load.waiting if load else None,
        "kv_usage": load.kv_usage if load else None,
        "load_age_seconds": round(now - load.at, 3) if load else None,
    }
