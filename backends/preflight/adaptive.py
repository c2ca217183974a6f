"""Whether a server can verify adaptively, where it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding
from backends.preflight.schedule import KEY as SCHEDULE
from backends.versions import at_least, may_have

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_KEY: Final = "enable_adaptive_verification"
_NOT_WITH: Final = {
    "enable-lora": "LoRA",
    "enforce-eager": "eager mode, as it needs full CUDA graphs",
    "enable-return-routed-experts": "routed experts in answers",
    "enable-batch-sharded-sampling": "sampling that is spread over GPUs",
    "return-sampling-mask": "sampling masks in answers",
}
_FULL_GRAPHS: Final = ("FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


def check_adaptive(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about adaptive verification. The method must exist."""
    adaptive = spec.known.adaptive
    if adaptive is None or not spec.adaptive:
        return
    if machine.engine:
        yield from _known(spec, adaptive.since, machine.engine.version)
        yield from check_answers(spec, machine.engine.version)
    if SCHEDULE in spec.options:
        wrong = "adaptive verification and a schedule by batch size both set the draft length"
        yield Finding(spec.name, wrong, "keep one of them")
    for flag, words in _NOT_WITH.items():
        if spec.flags.get(flag) is True:
            yield Finding(spec.name, f"adaptive verification does not go with {words}", f"remove {flag}")
    if spec.stages > 1:
        wrong = "adaptive verification does not go with pipeline parallelism"
        yield Finding(spec.name, wrong, "remove pipeline-parallel-size")
    graphs = spec.setting("cudagraph-mode", "compilation-config", "cudagraph_mode")
    if graphs is not None and str(graphs).upper() not in _FULL_GRAPHS:
        wrong = f"adaptive verification needs full CUDA graphs, and cudagraph_mode is {graphs!r}"
        yield Finding(spec.name, wrong, f"set it to {' or '.join(_FULL_GRAPHS)}, or leave it out")
    if spec.method != "dspark" and spec.options.get("use_local_argmax_reduction"):
        wrong = "adaptive verification does not go with use_local_argmax_reduction"
        yield Finding(spec.name, wrong, "remove use_local_argmax_reduction")
    if machine.platform == "cpu":
        yield Finding(
            spec.name, "adaptive verification needs CUDA graphs, and a CPU has none", f"remove {_KEY}"
        )


def _known(spec: LaunchSpec, since: str, version: str) -> Iterator[Finding]:
    if not at_least(version, since):
        wrong = f"adaptive verification of {spec.method} is known from vLLM {since} on, and this is {version}"
        right = f"use vLLM {since} or newer, or remove {_KEY}"
        yield Finding(spec.name, wrong, right, warning=may_have(version, since))


def check_answers(spec: LaunchSpec, version: str) -> Iterator[Finding]:
    """Whether a server of a version refuses what the gateway sends it, where it verifies adaptively."""
    adaptive = spec.known.adaptive
    if adaptive is None or not spec.adaptive or not adaptive.until or at_least(version, adaptive.until):
        return
    if lacking := [one for one in adaptive.refuses if one not in spec.refuses]:
        wrong = f"vLLM {version} may refuse {' and '.join(lacking)} beside adaptive verification"
        every = ", ".join(sorted({*spec.refuses, *lacking}))
        right = f"use vLLM {adaptive.until} or newer, or write 'refuses: [{every}]'"
        yield Finding(spec.name, wrong, right, warning=True)
