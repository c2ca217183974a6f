"""Whether the keys of the speculative config, and their values, are legal for the method."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from backends.methods import COMMON_KEYS, OWN_KEYS, methods
from backends.preflight.adaptive import check_adaptive
from backends.preflight.finding import Finding
from backends.preflight.schedule import check_schedule
from backends.spec import whole
from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backends.machine import Machine
    from backends.spec import LaunchSpec

_OWNERS: Final = {"method": "method", "model": "draft", "num_speculative_tokens": "draft_tokens"}
_CHOICES: Final = {
    "draft_sample_method": ("greedy", "probabilistic"),
    "rejection_sample_method": ("standard", "block"),
}
_SWITCHES: Final = (
    "enforce_eager", "use_local_argmax_reduction", "parallel_drafting", "disable_padded_drafter_batch",
    "disable_eagle_block_drop", "use_heterogeneous_vocab", "index_share_for_mtp_iteration",
    "enable_adaptive_verification",
)  # fmt: skip
_SWITCHED: Final = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"})
"""What vLLM reads as true or false."""
_COUNTS: Final = ("draft_tensor_parallel_size", "max_model_len", "dspark_draft_topk")
_TEXTS: Final = (
    "attention_backend", "moe_backend", "kv_cache_dtype", "quantization", "revision", "code_revision",
)  # fmt: skip
_SUFFIX: Final = {
    "max_tree_depth": (1, float("inf"), "1 or more"),
    "max_cached_requests": (0, float("inf"), "0 or more"),
    "max_spec_factor": (0, float("inf"), "0 or more"),
    "min_token_prob": (0, 1, "a number from 0 to 1"),
}


def check_options(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about the speculative config beyond method, draft and N. The method must exist."""
    if not spec.speculates:
        if spec.speculative:
            wrong = "a server without speculation has no speculative config"
            yield Finding(spec.name, wrong, "remove 'speculative'")
        return
    yield from _keys(spec, machine)
    yield from _kinds(spec)
    yield from _values(spec)
    yield from _lookup(spec)
    yield from _suffix(spec)
    yield from check_schedule(spec)
    yield from check_adaptive(spec, machine)


def _keys(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for written in spec.speculative:
        key = written.replace("-", "_")
        if other := seen.get(key):
            yield Finding(spec.name, f"{other} and {written} are one key", "keep one of them")
        seen.setdefault(key, written)
        if key in OWN_KEYS:
            right = f"remove it from 'speculative' and set '{_OWNERS[key]}'"
            yield Finding(spec.name, f"{written} is written twice", right)
        elif key == "tensor_parallel_size":
            wrong = "vLLM refuses tensor_parallel_size in the speculative config"
            yield Finding(spec.name, wrong, "write draft_tensor_parallel_size")
        elif key.startswith("synthetic_"):
            wrong = f"{key} makes acceptance up, and with it the text"
            yield Finding(spec.name, wrong, f"remove {key}: it is for benchmarks of engines")
        else:
            yield from _key(spec, key, machine)


def _key(spec: LaunchSpec, key: str, machine: Machine) -> Iterator[Finding]:
    known = {*COMMON_KEYS, *spec.known.keys}
    if key in known:
        return
    wrong = f"{spec.method} takes no {key} in its speculative config"
    of_others = any(key in one.keys for one in methods().values())
    of_engine = machine.engine is not None and key in machine.engine.options
    if of_engine and not of_others:
        wrong = f"nothing is known here of {key}, which vLLM has"
        yield Finding(spec.name, wrong, "see its documentation for whether it suits the method", warning=True)
    elif of_others or get_close_matches(key, known, n=1) or (machine.engine and machine.engine.options):
        yield Finding(spec.name, wrong, suggest(key, known, "keys"))
    else:
        wrong = f"{key} is no key of the speculative config that is known here"
        yield Finding(spec.name, wrong, "remove it, unless your vLLM is newer and has it", warning=True)


def _kinds(spec: LaunchSpec) -> Iterator[Finding]:
    """Whether values are switches, counts and texts where they must be; null leaves a key out."""
    options = {key: value for key, value in spec.options.items() if value is not None}
    for key, value in options.items():
        if key in _SWITCHES and str(value).lower() not in _SWITCHED:
            yield Finding(spec.name, f"{key} is {value!r}", "write true or false")
        elif key in _COUNTS and whole(value) is None:
            yield Finding(spec.name, f"{key} is {value!r}", "write a whole number from 1 on")
        elif key in _TEXTS and not (isinstance(value, str) and value.strip()):
            yield Finding(spec.name, f"{key} is {value!r}", "write a text")
        elif key == "draft_load_config" and not isinstance(value, dict):
            yield Finding(spec.name, f"{key} is {value!r}", "write keys with values")


def _values(spec: LaunchSpec) -> Iterator[Finding]:
    options = spec.options
    for key, choices in _CHOICES.items():
        if key in options and options[key] not in choices:
            wrong = f"{key} cannot be {options[key]!r}"
            if options[key] == "synthetic":
                wrong = "synthetic rejection makes acceptance up, and with it the text"
            yield Finding(spec.name, wrong, f"write {' or '.join(choices)}")
    parallel = whole(options.get("draft_tensor_parallel_size"))
    if parallel not in (None, 1, spec.tensor_parallel):
        wrong = f"the draft cannot be spread over {parallel} GPUs beside a target on {spec.tensor_parallel}"
        legal = "1" if spec.tensor_parallel == 1 else f"1 or {spec.tensor_parallel}"
        yield Finding(spec.name, wrong, f"set draft_tensor_parallel_size to {legal}")
    elif options.get("dspark_draft_topk") and (parallel or spec.tensor_parallel) != 1:
        wrong = f"dspark_draft_topk needs a draft on one GPU, and it is on {parallel or spec.tensor_parallel}"
        yield Finding(spec.name, wrong, "set draft_tensor_parallel_size to 1, or remove dspark_draft_topk")
    if _on(options, "use_heterogeneous_vocab") and options.get("draft_sample_method", "greedy") != "greedy":
        wrong = "drafts of another vocabulary are sampled greedily only"
        yield Finding(spec.name, wrong, "remove draft_sample_method")
    own, all_of_it = whole(options.get("max_model_len")), spec.max_model_len
    if own and all_of_it and own > all_of_it:
        wrong = f"the draft's max_model_len {own} is above the server's {all_of_it}"
        yield Finding(spec.name, wrong, f"set it to {all_of_it} at most, or remove it from 'speculative'")


def _on(options: Mapping[str, Any], key: str) -> bool:
    return str(options.get(key, False)).lower() in _SWITCHED - {"false", "0", "no", "off", "f", "n"}


def _lookup(spec: LaunchSpec) -> Iterator[Finding]:
    keys = ("prompt_lookup_min", "prompt_lookup_max")
    given = {key: spec.options[key] for key in keys if spec.options.get(key) is not None}
    for key, value in given.items():
        if whole(value) is None:
            yield Finding(spec.name, f"{key} is {value!r}", "write a whole number from 1 on")
            return
    low, high = (whole(given.get(key)) for key in keys)
    if low and high and low > high:
        wrong = f"prompt_lookup_min {low} is above prompt_lookup_max {high}"
        yield Finding(spec.name, wrong, "make prompt_lookup_max the larger one")


def _suffix(spec: LaunchSpec) -> Iterator[Finding]:
    for name, (low, high, legal) in _SUFFIX.items():
        value = spec.options.get(f"suffix_decoding_{name}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and low <= value <= high):
            yield Finding(spec.name, f"suffix_decoding_{name} is {value!r}", f"write {legal}")
