"""Servers to be started from and to fleet.yaml, the file that the gateway routes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.manifests import to_yaml
from backends.spec import from_section
from gateway.core.fleet import REFUSED_WITH_DRAFT
from gateway.policy.load import Invalid, load_fleet
from gateway.policy.schema import BackendSection
from gateway.policy.source import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backends.spec import LaunchSpec


def read_fleet(text: str, file: str) -> tuple[LaunchSpec, ...] | Invalid:
    """The servers that a fleet file describes, or everything that is wrong with it.

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
    return tuple(from_section(BackendSection.model_validate(one)) for one in source.data["backends"])


def write_fleet(specs: Iterable[LaunchSpec]) -> str:
    """The fleet file of these servers."""
    return to_yaml({"version": 1, "backends": [_backend(spec) for spec in specs]})


def _backend(spec: LaunchSpec) -> dict[str, Any]:
    launch = {
        "tensor_parallel": spec.tensor_parallel if spec.tensor_parallel != 1 else None,
        "gpus": None if spec.gpus is None else list(spec.gpus),
        "args": dict(spec.args),
        "env": dict(spec.env),
        "speculative": dict(spec.speculative),
        "block_size": spec.block_size,
        "image": spec.image,
        "hardware": spec.hardware,
    }
    refuses = list(spec.refuses)
    usual = sorted(REFUSED_WITH_DRAFT) if spec.speculates else []
    backend = {
        "name": spec.name,
        "url": spec.url,
        "model": spec.target,
        "served_model": spec.served_model if spec.served_model != spec.target else None,
        "method": spec.method if spec.speculates else None,
        "draft_tokens": spec.draft_tokens,
        "draft": spec.draft,
        "max_model_len": spec.max_model_len,
        "labels": {"hardware": spec.hardware.partition(" ")[0]} if spec.hardware else None,
        "launch": _written(launch),
    }
    written = _written(backend)
    return written if refuses == usual else written | {"refuses": refuses}


def _written(section: dict[str, Any]) -> dict[str, Any]:
    """A section without what is left out or empty."""
    return {key: value for key, value in section.items() if value not in (None, {}, [], "", 0)}
