"""Whether flags that are legal by themselves go together, and leave requests answered and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.checkpoint import UnreadableCheckpointError, default_min_p, find
from backends.preflight.finding import Finding
from backends.spec import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_TOKENS: Final = "max-num-batched-tokens"
_SEQUENCES: Final = "max-num-seqs"
_OVERRIDE: Final = "override-generation-config"
_NOTHING: Final = 1e-5
"""A min_p below which vLLM takes it for none."""


def check_serving(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about the further flags together. The method must exist."""
    yield from _batches(spec, machine)
    yield from _sampling(spec, machine)
    interval = whole(spec.flags.get("stream-interval"))
    if spec.speculates and interval is not None and interval > 1:
        wrong = f"with stream-interval {interval} the events of a stream do not tell its steps"
        right = "remove stream-interval, or do without acceptance from streams"
        yield Finding(spec.name, wrong, right, warning=True)


def _batches(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    flags = spec.flags
    tokens, sequences = whole(flags.get(_TOKENS)), whole(flags.get(_SEQUENCES))
    active = whole(flags.get("max-num-active-seqs"))
    if tokens and sequences and tokens < sequences:
        wrong = f"vLLM refuses {_TOKENS} {tokens} below {_SEQUENCES} {sequences}"
        yield Finding(spec.name, wrong, f"set {_TOKENS} to {sequences} or more")
    if active and sequences and active > sequences:
        wrong = f"vLLM refuses max-num-active-seqs {active} above {_SEQUENCES} {sequences}"
        yield Finding(spec.name, wrong, f"set it to {sequences} at most")
    longest = _longest(spec, machine)
    in_parts = flags.get("enable-chunked-prefill") is not False and not flags.get("no-enable-chunked-prefill")
    if tokens and longest and tokens < longest and not in_parts:
        wrong = f"without chunked prefill vLLM refuses {_TOKENS} {tokens} below max_model_len {longest}"
        yield Finding(spec.name, wrong, f"set {_TOKENS} to {longest} or more, or max_model_len to {tokens}")
    threshold = whole(flags.get("long-prefill-token-threshold"))
    if threshold and longest and threshold > longest:
        wrong = f"vLLM refuses long-prefill-token-threshold {threshold} above max_model_len {longest}"
        yield Finding(spec.name, wrong, f"set it to {longest} at most")


def _longest(spec: LaunchSpec, machine: Machine) -> int | None:
    """Its context in tokens; None where that is not known."""
    if spec.max_model_len is not None:
        return spec.max_model_len
    try:
        target = find(spec.target, {**machine.env, **spec.env})
    except UnreadableCheckpointError:  # which is told elsewhere
        return None
    return target.positions if target is not None else None


def _sampling(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Whether requests that ask for nothing special are given a min_p, which it then refuses."""
    if "min_p" not in spec.known.refuses:
        return
    given = spec.setting(f"{_OVERRIDE}.min_p", _OVERRIDE, "min_p")
    said = _OVERRIDE
    if given is None and (source := spec.flags.get("generation-config", "auto")) != "vllm":
        folder = spec.target if source == "auto" else str(source)
        given = default_min_p(folder, {**machine.env, **spec.env})
        said = f"the generation_config.json of {folder}"
    if isinstance(given, int | float) and given > _NOTHING:
        wrong = f"{said} gives every request min_p {given}, which it answers with 400 as it speculates"
        yield Finding(spec.name, wrong, f"set {_OVERRIDE}.min_p to 0")
