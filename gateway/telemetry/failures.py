"""Failures that can happen to a fleet: their classes, and counters that stand at 0 before the first."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gateway.core import outcome as statuses
from gateway.core import reasons
from gateway.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.core.fleet import Backend
    from gateway.telemetry.tally import Values

_OF_BACKENDS: Final = (statuses.UPSTREAM_ERROR, statuses.TIMEOUT, statuses.TRUNCATED)
_OF_ATTEMPTS: Final = (
    "connect", "reset", "timeout:connect", "timeout:first_byte",
    "status:429", "status:500", "status:502", "status:503",
)  # fmt: skip
"""The usual errors of attempts that go on elsewhere."""

_STATUS: Final = "status:"
_ALL: Final = frozenset(names.ERRORS)


@lru_cache(1024)
def error_class(error: str) -> str:
    """One of :data:`.names.ERRORS` or ``other``: a server may answer with any status."""
    if error in _ALL:
        return error
    rough = f"{error[: len(_STATUS) + 1]}xx"
    return rough if error.startswith(_STATUS) and rough in _ALL else names.OTHER


@lru_cache(1024)
def error_type(error: str) -> str:
    """The same as the value of ``error.type``, empty where there was no error."""
    if not error:
        return ""
    known = error_class(error)
    return "_OTHER" if known == names.OTHER else known.removeprefix(_STATUS)


class Failures:
    """Label values of failures.

    Args:
        backends: The fleet as it is.
        workloads: Labels that requests can have.
    """

    def __init__(
        self, backends: Callable[[], Iterable[Backend]], workloads: Callable[[], Iterable[str]]
    ) -> None:
        self._backends = backends
        self._workloads = workloads

    def requests(self) -> Iterator[Values]:
        """Of :data:`.names.REQUESTS`: those of each backend, and those that reached none."""
        for workload in (*self._workloads(), names.OTHER):
            yield workload, "", "", statuses.REJECTED
            for backend in self._backends():
                for status in _OF_BACKENDS:
                    yield workload, backend.name, backend.method, status

    def tool_calls(self) -> Iterator[Values]:
        """Of :data:`.names.TOOL_CALLS`: those for kinds of work that have tools to call."""
        for backend in self._backends():
            yield "tool_use", backend.name, backend.method, "invalid"

    def failovers(self) -> Iterator[Values]:
        """Of :data:`.names.FAILOVERS`."""
        for backend in self._backends():
            for error in _OF_ATTEMPTS:
                yield backend.name, error

    def refusals(self) -> Iterator[Values]:
        """Of :data:`.names.DECISIONS`: those without a route."""
        for reason in reasons.REFUSALS:
            yield "", reason
