"""What a route asks of a request and what the request is, condition by condition and in words."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from gateway.core.policy import Match
from gateway.core.selectors import CHARS_PER_TOKEN, matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.policy import Selector

_EVERYTHING: Final = Match()


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a route's match.

    Attributes:
        wanted: What the route asks for, such as ``workload math or code``.
        actual: What the request is.
        met: Whether the one is the other.
    """

    wanted: str
    actual: str
    met: bool


def _any_of(noun: str) -> Callable[[Any], str]:
    return lambda names: f"{noun} {' or '.join(sorted(names))}"


def _tokens(features: Features) -> str:
    return f"about {features.prompt_chars // CHARS_PER_TOKEN} prompt tokens"


_WANTED: Final[dict[str, Callable[[Any], str]]] = {
    "models": _any_of("model"),
    "workloads": _any_of("workload"),
    "min_confidence": lambda share: f"confidence at least {share:g}",
    "languages": _any_of("language"),
    "endpoints": _any_of("endpoint"),
    "stream": lambda stream: "a stream" if stream else "no stream",
    "tenants": _any_of("tenant"),
    "min_prompt_tokens": lambda count: f"at least {count} prompt tokens",
    "max_prompt_tokens": lambda count: f"at most {count} prompt tokens",
}
_ACTUAL: Final[dict[str, Callable[[Features, Classification], str]]] = {
    "models": lambda features, _: f"model {features.model or '(none named)'}",
    "workloads": lambda _, classification: f"workload {classification.label}",
    "min_confidence": lambda _, classification: f"confidence {classification.confidence:g}",
    "languages": lambda features, _: f"language {features.output_language}",
    "endpoints": lambda features, _: f"endpoint {features.endpoint}",
    "stream": lambda features, _: "a stream" if features.stream else "no stream",
    "tenants": lambda features, _: f"tenant {features.hints.tenant or '(none)'}",
    "min_prompt_tokens": lambda features, _: _tokens(features),
    "max_prompt_tokens": lambda features, _: _tokens(features),
}


def _given(match: Match) -> list[str]:
    names = (one.name for one in fields(Match))
    return [name for name in names if getattr(match, name) != getattr(_EVERYTHING, name)]


def describe(match: Match) -> str:
    """What a route takes, in words."""
    return ", ".join(_WANTED[name](getattr(match, name)) for name in _given(match)) or "every request"


def conditions(match: Match, features: Features, classification: Classification) -> tuple[Condition, ...]:
    """The conditions a route sets, each held against a request."""
    return tuple(
        Condition(
            wanted=_WANTED[name](getattr(match, name)),
            actual=_ACTUAL[name](features, classification),
            met=matches(replace(_EVERYTHING, **{name: getattr(match, name)}), features, classification),
        )
        for name in _given(match)
    )


def spell_selector(selector: Selector) -> str:
    """A preference as it may stand in a file."""
    rest = {"method": selector.method, "draft_tokens": selector.draft_tokens, **selector.labels}
    given = [f"{key}: {value}" for key, value in rest.items() if value is not None]
    if selector.name is not None:
        given.insert(0, f"name: {selector.name}" if given else selector.name)
    if selector.max_in_flight is not None:
        given = [*(given or ["any"]), f"max_in_flight: {selector.max_in_flight}"]
    return ", ".join(given) or "any"
