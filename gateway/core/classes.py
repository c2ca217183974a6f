"""Service classes: what answers of a kind of request must keep, and which requests are of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from gateway.core.plan import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from re import Pattern

    from gateway.core.features import Features, RequestView

HEADER: Final = b"x-specroute-class"
"""Request header that names the class, where the policy trusts callers."""

_BEARER: Final = b"bearer "

_PATIENCE: Final = 0.5
"""Part of the limit on the time to the first token that a request may wait for a server of its class: the
rest is for its prompt, and for the steps that are under way."""


@dataclass(frozen=True, slots=True)
class ClassMatch:
    """Which requests are of a class. Empty fields match everything; all given ones must match.

    Attributes:
        keys: SHA-256 digests of API keys.
        headers: Patterns that headers must match as a whole, by lower-cased name.
        tenants: Tenant names.
        endpoints: Names from :data:`gateway.core.features.ENDPOINTS`.
        models: Model names as clients send them.
        stream: Only streams (True), only whole answers (False).
        min_max_tokens: Least ``max_tokens`` that is asked for, inclusive; a request without has no limit.
        max_max_tokens: Most ``max_tokens``, inclusive; a request without is not matched.
    """

    keys: frozenset[bytes] = frozenset()
    headers: Mapping[bytes, Pattern[bytes]] = field(default_factory=dict, hash=False)
    tenants: frozenset[str] = frozenset()
    endpoints: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    stream: bool | None = None
    min_max_tokens: int | None = None
    max_max_tokens: int | None = None

    def fits(self, view: RequestView) -> bool:
        """Whether a request is of the class."""
        most = view.max_tokens
        return (
            (self.stream is None or self.stream == view.stream)
            and (not self.endpoints or view.endpoint in self.endpoints)
            and (not self.models or view.model in self.models)
            and (not self.tenants or view.hints.tenant in self.tenants)
            and (self.max_max_tokens is None or (most is not None and most <= self.max_max_tokens))
            and (self.min_max_tokens is None or most is None or most >= self.min_max_tokens)
            and all(pattern.fullmatch(view.headers.get(name, b"")) for name, pattern in self.headers.items())
            and (not self.keys or digest(_key(view.headers)) in self.keys)
        )


def digest(key: bytes) -> bytes:
    """What is kept of an API key."""
    return sha256(key).digest()


def _key(headers: Mapping[bytes, bytes]) -> bytes:
    value = headers.get(b"authorization", b"")
    if value[: len(_BEARER)].lower() == _BEARER:
        return value[len(_BEARER) :].strip()
    return headers.get(b"x-api-key", b"")


@dataclass(frozen=True, slots=True)
class ServiceClass:
    """A service class.

    Attributes:
        name: What it is called; headers, metrics and logs have it.
        match: Which requests are of it.
        limits: What its answers must keep.
        priority: Who gets room first where requests wait, higher first.
        wait: Seconds that its requests may wait for room; None for the policy's own limit.
        stand_ins: Whether hosted models may answer its requests, where the route lets them.
    """

    name: str
    match: ClassMatch = field(default_factory=ClassMatch)
    limits: Limits = field(default_factory=Limits)
    priority: int = 0
    wait: float | None = None
    stand_ins: bool = True

    @property
    def patience(self) -> float:
        """Seconds after its arrival until which a request may wait for a server of its class."""
        return _PATIENCE * (self.limits.ttft or 0.0)


DEFAULT: Final = ServiceClass("default")
"""The class of requests that no class of the policy takes."""


def service_of(view: RequestView, classes: Sequence[ServiceClass], *, trust: bool) -> ServiceClass:
    """The class of a request: the one that it names, else the first that fits.

    Args:
        view: The request.
        classes: Those of the policy, in order.
        trust: Whether callers may name a class.
    """
    if trust and classes and (named := view.headers.get(HEADER)) is not None:
        name = named.decode("latin-1").strip()
        if (found := next((one for one in classes if one.name == name), None)) is not None:
            return found
    return next((one for one in classes if one.match.fits(view)), DEFAULT)


def kept_in(
    features: Features, view: RequestView, service: ServiceClass, classes: Sequence[ServiceClass]
) -> Features:
    """The facts of a request, with the word of classes that no hosted model may have it.

    A class whose match fits has a say also where the caller names another one: nobody gets out by a header.

    Args:
        features: Facts of the request; what the caller said of it stays.
        view: The request.
        service: Its class.
        classes: Those of the policy.
    """
    if service.stand_ins and not any(not one.stand_ins and one.match.fits(view) for one in classes):
        return features
    return replace(features, hints=replace(features.hints, stays=True))
