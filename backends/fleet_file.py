"""Servers to be started from and to fleet.yaml, the file that the gateway routes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.manifests import to_yaml
from backends.spec import from_section, to_section
from gateway.policy.load import Invalid, load_fleet
from gateway.policy.schema import BackendSection
from gateway.policy.source import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backends.spec import LaunchSpec


def read_fleet(text: str, file: str) -> tuple[LaunchSpec, ...] | Invalid:
    """The servers that a fleet file describes, or everything that is wrong with it; stand-ins are none.

    Args:
        text: Content of the file.
        file: Its name for messages.
    """
    loaded = load_fleet(text, file)
    if isinstance(loaded, Invalid):
        return loaded
    source, _ = read(text, file)
    if source is None:
        raise AssertionError("what can be loaded can be read")
    sections = map(BackendSection.model_validate, source.data["backends"])
    return tuple(from_section(one) for one in sections if not one.stands_in)


def write_fleet(specs: Iterable[LaunchSpec]) -> str:
    """The fleet file of these servers."""
    return to_yaml({"version": 1, "backends": [_backend(spec) for spec in specs]})


def _backend(spec: LaunchSpec) -> dict[str, Any]:
    """A backend without what is as if it were left out."""
    written = to_section(spec).model_dump(exclude_defaults=True)
    if spec.served_model == spec.target:
        del written["served_model"]
    return {key: value for key, value in written.items() if key not in {"labels", "launch"} or value}
