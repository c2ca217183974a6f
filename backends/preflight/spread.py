"""Whether the attention heads of a model can be spread over GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.checkpoint import Checkpoint
    from backends.spec import LaunchSpec

_MOST: Final = 64
"""GPUs up to which legal numbers are listed."""


def check_spread(spec: LaunchSpec, role: str, model: Checkpoint, gpus: int) -> Iterator[Finding]:
    """Findings about a target or a draft whose layers are spread over a number of GPUs."""
    heads, kv_heads = model.heads, model.kv_heads
    if not heads or _even(heads, kv_heads, gpus):
        return
    what = f"{heads} attention heads"
    if heads % gpus == 0:
        what = f"{kv_heads} heads of keys and values"
    legal = ", ".join(str(one) for one in range(1, min(heads, _MOST) + 1) if _even(heads, kv_heads, one))
    if role == "target":
        wrong, right = (
            f"{what} cannot be spread over {gpus} GPUs",
            f"set launch.tensor_parallel to one of {legal}",
        )
    else:
        wrong = f"{what} of the draft cannot be spread over {gpus} GPUs"
        right = "set draft_tensor_parallel_size to 1"
    yield Finding(spec.name, wrong, right)


def _even(heads: int, kv_heads: int | None, gpus: int) -> bool:
    """Whether each GPU gets as many heads, or each head of keys and values as many GPUs."""
    if heads % gpus:
        return False
    return not kv_heads or kv_heads % gpus == 0 or gpus % kv_heads == 0
