"""Whether the flags, the environment and the keys of the speculative config are legal for the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from backends.methods import COMMON_KEYS, OWN_KEYS
from backends.preflight.finding import Finding
from backends.preflight.schedule import check_schedule
from backends.render import OWN_ARGS, REQUEST_METRICS_SINCE, VISIBLE
from backends.versions import at_least
from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_OWNERS: Final = {"method": "method", "model": "draft", "num_speculative_tokens": "draft_tokens"}
_CHOICES: Final = {
    "draft_sample_method": ("greedy", "probabilistic"),
    "rejection_sample_method": ("standard", "block"),
}


def check_options(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about what is written beyond method, draft and N. The method must exist."""
    yield from _keys(spec)
    if spec.speculates:
        yield from _values(spec)
        yield from check_schedule(spec)
        yield from _adaptive(spec, machine)
        yield from _attention(spec, machine)
    yield from _flags(spec, machine)


def _keys(spec: LaunchSpec) -> Iterator[Finding]:
    method = spec.known
    if not spec.speculates:
        if spec.speculative:
            yield Finding(
                spec.name, "a server without speculation has no speculative config", "remove 'speculative'"
            )
        return
    known = {*COMMON_KEYS, *method.keys}
    for key in spec.speculative:
        if key in OWN_KEYS:
            yield Finding(
                spec.name, f"{key} is written twice", f"remove it from 'speculative' and set '{_OWNERS[key]}'"
            )
        elif key == "tensor_parallel_size":
            yield Finding(
                spec.name, "vLLM refuses tensor_parallel_size in the speculative config",
                "write draft_tensor_parallel_size",
            )  # fmt: skip
        elif key.startswith("synthetic_"):
            yield Finding(
                spec.name,
                f"{key} makes acceptance up, and with it the text",
                f"remove {key}: it is for benchmarks of engines",
            )
        elif key not in known:
            yield Finding(
                spec.name,
                f"{method.name} takes no {key} in its speculative config",
                suggest(key, known, "keys"),
            )


def _values(spec: LaunchSpec) -> Iterator[Finding]:
    values: dict[str, Any] = {**spec.known.speculative, **spec.speculative}
    for key, choices in _CHOICES.items():
        if key in values and values[key] not in choices:
            wrong = f"{key} cannot be {values[key]!r}"
            if values[key] == "synthetic":
                wrong = "synthetic rejection makes acceptance up, and with it the text"
            yield Finding(spec.name, wrong, f"write {' or '.join(choices)}")
    parallel = values.get("draft_tensor_parallel_size")
    if parallel not in (None, 1, spec.tensor_parallel):
        wrong = f"the draft cannot be spread over {parallel} GPUs beside a target on {spec.tensor_parallel}"
        legal = "1" if spec.tensor_parallel == 1 else f"1 or {spec.tensor_parallel}"
        yield Finding(spec.name, wrong, f"set draft_tensor_parallel_size to {legal}")
    if values.get("use_heterogeneous_vocab") and values.get("draft_sample_method", "greedy") != "greedy":
        wrong = "drafts of another vocabulary are sampled greedily only"
        yield Finding(spec.name, wrong, "remove draft_sample_method")
    yield from _lookup(spec, values)
    yield from _suffix(spec, values)


def _lookup(spec: LaunchSpec, values: dict[str, Any]) -> Iterator[Finding]:
    low, high = values.get("prompt_lookup_min"), values.get("prompt_lookup_max")
    if low is None or high is None:
        return
    for key, value in (("prompt_lookup_min", low), ("prompt_lookup_max", high)):
        if not isinstance(value, int) or value < 1:
            yield Finding(spec.name, f"{key} is {value!r}", "write a whole number from 1 on")
            return
    if low > high:
        wrong = f"prompt_lookup_min {low} is above prompt_lookup_max {high}"
        yield Finding(spec.name, wrong, "make prompt_lookup_max the larger one")


_SUFFIX: Final = {
    "max_tree_depth": (1, float("inf"), "1 or more"),
    "max_cached_requests": (0, float("inf"), "0 or more"),
    "max_spec_factor": (0, float("inf"), "0 or more"),
    "min_token_prob": (0, 1, "a number from 0 to 1"),
}


def _suffix(spec: LaunchSpec, values: dict[str, Any]) -> Iterator[Finding]:
    for name, (low, high, legal) in _SUFFIX.items():
        value = values.get(f"suffix_decoding_{name}")
        if value is not None and not (isinstance(value, int | float) and low <= value <= high):
            yield Finding(spec.name, f"suffix_decoding_{name} is {value!r}", f"write {legal}")


def _adaptive(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    if not spec.speculative.get("enable_adaptive_verification") or spec.known.adaptive is None:
        return
    if machine.engine and not at_least(machine.engine.version, since := spec.known.adaptive.since):
        wrong = f"adaptive verification needs vLLM {since}, and this is {machine.engine.version}"
        yield Finding(spec.name, wrong, f"use vLLM {since} or newer, or remove enable_adaptive_verification")
    if "num_speculative_tokens_per_batch_size" in spec.speculative:
        wrong = "adaptive verification and a schedule by batch size both set the draft length"
        yield Finding(spec.name, wrong, "keep one of them")
    if spec.args.get("enable-lora"):
        yield Finding(spec.name, "adaptive verification does not go with LoRA", "remove enable-lora")
    if str(spec.args.get("pipeline-parallel-size", 1)) != "1":
        wrong = "adaptive verification does not go with pipeline parallelism"
        yield Finding(spec.name, wrong, "remove pipeline-parallel-size")


def _attention(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    needed = spec.known.attention_backend(spec.target, machine.platform)
    if needed is None:
        return
    given = (spec.args.get("attention-backend"), spec.speculative.get("attention_backend"))
    if any(str(one).lower() != needed for one in given):
        wrong = f"{spec.method} on {spec.target} needs the attention backend {needed} on {machine.platform}"
        right = f"set args attention-backend and speculative attention_backend to {needed}"
        yield Finding(spec.name, wrong, right)


def _flags(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    for flag, owner in OWN_ARGS.items():
        if flag in spec.args:
            yield Finding(spec.name, f"the flag {flag} is written by specroute", f"remove it and set {owner}")
    for flag in spec.args:
        if flag.startswith("-"):
            yield Finding(spec.name, f"the flag {flag} begins with dashes", f"write {flag.lstrip('-')}")
    for variable in VISIBLE.values():
        if variable in spec.env:
            right = "remove it from env and set launch.gpus"
            yield Finding(spec.name, f"{variable} is set by specroute", right)
    yield from _readable(spec, machine)


def _readable(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Whether the gateway can read from the server what it needs."""
    metrics = "per-request-spec-decode-metrics"
    if metrics in spec.args and not spec.speculates:
        yield Finding(spec.name, f"vLLM refuses to start with {metrics} and no speculation", "remove it")
    elif spec.speculates and spec.args.get(metrics) == "none":
        wrong = "acceptance of each request is switched off, so it is only known from counters"
        yield Finding(spec.name, wrong, f"remove {metrics}", warning=True)
    elif spec.speculates and machine.engine and not at_least(machine.engine.version, REQUEST_METRICS_SINCE):
        wrong = f"vLLM {machine.engine.version} does not tell the acceptance of each request"
        yield Finding(spec.name, wrong, f"use vLLM {REQUEST_METRICS_SINCE} or newer", warning=True)
    if spec.args.get("disable-log-stats"):
        wrong = "without log statistics there are no counters to read load and acceptance from"
        yield Finding(spec.name, wrong, "remove disable-log-stats")
