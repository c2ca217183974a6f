"""Mistakes in what a fleet file says of hosted models."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.core.fleet import Backend
    from gateway.core.policy import Policy
    from gateway.policy.problems import Path, Problem
    from gateway.policy.schema import BackendSection
    from gateway.policy.source import Source
    from gateway.policy.validate import Checked

_OWN: Final = frozenset({"name", "url", "model", "max_in_flight", "api_key_env"})
"""What may be said of a hosted model."""


def stand_in_problems(
    section: BackendSection, here: Path, backends: Sequence[Checked[BackendSection]], source: Source
) -> Iterator[Problem]:
    """Mistakes in the section of a hosted model.

    Args:
        section: The section.
        here: Where it stands.
        backends: All sections of the file.
        source: Where the positions are.
    """
    for key in type(section).model_fields:
        if key in section.model_fields_set - _OWN:
            wrong = f"a hosted model has no {key!r}: it is no server of this fleet"
            yield source.problem((*here, key), wrong, "remove it", key=True)
    served = {one.value.model for one in backends if one.value is not None and not one.value.stands_in}
    if section.model not in served:
        wrong = f"no server of the fleet has the model {section.model!r}, so there is nothing to stand in for"
        yield source.problem((*here, "model"), wrong, suggest(section.model, served, "models"))


def unasked(stand_ins: Sequence[Backend], policy: Policy, source: Source) -> Iterator[Problem]:
    """That hosted models of the fleet are never asked.

    Args:
        stand_ins: They.
        policy: The policy.
        source: Where the positions are.
    """
    if stand_ins and not any(route.stand_ins for route in policy.routes):
        wrong = f"no route asks for stand-ins, so {stand_ins[0].name!r} never answers"
        right = "add stand_ins: true to defaults or to routes whose prompts may leave the house"
        yield source.problem(("routes",), wrong, right, key=True, warning=True)


def missing_library(
    backends: Sequence[Checked[BackendSection]], source: Source, env: Mapping[str, str] | None
) -> Iterator[Problem]:
    """That hosted models cannot be asked, as LiteLLM is not installed.

    Args:
        backends: The sections.
        source: Where the positions are.
        env: The environment of the gateway; None to check for a gateway that runs elsewhere.
    """
    if env is None or find_spec("litellm") is not None:
        return
    for index, checked in enumerate(backends):
        if checked.value is not None and checked.value.stands_in:
            wrong = "hosted models are asked through LiteLLM, which is not installed"
            yield source.problem(
                ("backends", index, "url"), wrong, "install it: pip install 'specroute[litellm]'"
            )
