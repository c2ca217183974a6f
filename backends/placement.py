"""Which server gets which GPUs of a machine."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backends.spec import LaunchSpec


def place(specs: Sequence[LaunchSpec], free: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """GPUs of each server by its name, in the order of the servers.

    Args:
        specs: The servers; those that name their GPUs get these.
        free: Numbers of the others, lowest first, without end where the machine is not known.

    Returns:
        Fewer for the last ones where there are too few; the preflight says so in words.
    """
    named = {index for spec in specs for index in spec.gpus or ()}
    rest = (index for index in free if index not in named)
    return {
        spec.name: spec.gpus if spec.gpus is not None else tuple(islice(rest, spec.gpu_count))
        for spec in specs
    }
