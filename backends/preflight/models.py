"""Whether draft and target fit each other, the N and the GPUs, by the config.json of both."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.checkpoint import UnreadableCheckpointError, find
from backends.preflight.finding import Finding, unchecked
from backends.preflight.length import check_length
from backends.preflight.spread import check_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from backends.checkpoint import Checkpoint
    from backends.machine import Machine
    from backends.spec import LaunchSpec

_MOST_DRAFT_LAYERS: Final = 8
"""More than any published draft over hidden states has."""
_READS_HIDDEN_STATES: Final = ("eagle", "eagle3", "medusa", "dflash", "dspark")
_LAYERS_UNSAID: Final = ("MiMo*", "Longcat*", "Step3p*", "MiniMaxM3*", "Dots3*")
"""Architectures of which vLLM knows the layers of multi-token prediction without being told."""


def check_models(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about the checkpoints, and about those that cannot be read. The method must exist."""
    if spec.draft == spec.target and spec.takes_draft and spec.method != "draft-model":
        right = "name a draft that was trained for it"
        yield Finding(spec.name, "the draft is the target itself", right)
    found: dict[str, Checkpoint | None] = {}
    for role, name in (("target", spec.target), ("draft", spec.draft if spec.takes_draft else None)):
        found[role] = None
        if not name:
            continue
        if name.startswith(machine.volumes) and not Path(name).exists():
            yield from _unread(spec, role, name)
            continue
        try:
            found[role] = checkpoint = find(name, {**machine.env, **spec.env})
        except UnreadableCheckpointError as error:
            right = "name a folder with a checkpoint, or an id"
            yield Finding(spec.name, f"the {role} cannot be read: {error}", right)
            continue
        yield from _unread(spec, role, name) if checkpoint is None else _odd(spec, role, checkpoint)
    target, draft = found["target"], found["draft"]
    if target is not None:
        yield from _target(spec, target)
    if draft is not None:
        yield from _draft(spec, draft)
    if target is not None and draft is not None:
        yield from _pair(spec, target, draft)
    yield from check_length(spec, target, draft)
    if spec.speculates:
        yield from _attention(spec, machine, () if target is None else target.architectures)


def _unread(spec: LaunchSpec, role: str, name: str) -> Iterator[Finding]:
    unseen = {"target": "layers, heads and context are", "draft": "fit to the target is"}[role]
    wrong = f"the {role} {name} has no config.json on this machine, so its {unseen} not known"
    yield unchecked(spec.name, wrong, "download it, or check where it lies")


def _odd(spec: LaunchSpec, role: str, checkpoint: Checkpoint) -> Iterator[Finding]:
    if checkpoint.odd:
        wrong = f"in the config.json of the {role} {checkpoint.name} {', '.join(checkpoint.odd)}"
        yield unchecked(
            spec.name, wrong, "write numbers as numbers and names in a list, to have them compared"
        )


def _target(spec: LaunchSpec, target: Checkpoint) -> Iterator[Finding]:
    yield from _architecture(spec, "target", target, spec.known.target_architectures)
    own = spec.known.draft == "built_in" and not spec.draft
    if own and not target.mtp_layers and not _fits(target, _LAYERS_UNSAID):
        wrong = f"{spec.target} has no layers of multi-token prediction"
        yield Finding(spec.name, wrong, "use a method with a draft of its own, or ngram")
    yield from check_spread(spec, "target", target, spec.tensor_parallel)
    if target.layers and spec.stages > target.layers:
        wrong = f"{target.layers} layers cannot be cut into {spec.stages} stages"
        yield Finding(spec.name, wrong, f"set pipeline-parallel-size to {target.layers} at most")
    stretched = "hf-overrides" in spec.flags or spec.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    if target.positions and spec.max_model_len and spec.max_model_len > target.positions and not stretched:
        wrong = f"max_model_len {spec.max_model_len} is above the target's {target.positions}"
        yield Finding(spec.name, wrong, f"set max_model_len to {target.positions} at most")


def _draft(spec: LaunchSpec, draft: Checkpoint) -> Iterator[Finding]:
    if _fits(draft, spec.known.bare_architectures):
        yield from _whole_model(spec, draft)
    else:
        yield from _architecture(spec, "draft", draft, spec.known.draft_architectures)
    yield from check_spread(spec, "draft", draft, spec.draft_parallel)
    if draft.positions and spec.max_model_len and spec.max_model_len > draft.positions:
        wrong = (
            f"max_model_len {spec.max_model_len} is above the {draft.positions} tokens the draft was made for"
        )
        right = "expect lower acceptance in longer ones, or lower max_model_len"
        yield Finding(spec.name, wrong, right, warning=True)


def _fits(checkpoint: Checkpoint, patterns: Sequence[str]) -> bool:
    names = checkpoint.architectures
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


def _architecture(
    spec: LaunchSpec, role: str, checkpoint: Checkpoint, patterns: Sequence[str]
) -> Iterator[Finding]:
    names = checkpoint.architectures
    if patterns and names and not _fits(checkpoint, patterns):
        wrong = f"the {role} {checkpoint.name} is a {names[0]}, which is none for {spec.method}"
        yield Finding(spec.name, wrong, f"name one whose architecture is {' or '.join(patterns)}")


def _whole_model(spec: LaunchSpec, draft: Checkpoint) -> Iterator[Finding]:
    """Whether what may be a draft by its architecture is one by its depth."""
    if draft.layers and draft.layers > _MOST_DRAFT_LAYERS:
        what = f"a {draft.architectures[0]} of {draft.layers} layers"
        wrong = f"the draft {draft.name} is {what}, a whole model and no draft of {spec.method}"
        yield Finding(spec.name, wrong, "name one that was trained as its draft")


def _pair(spec: LaunchSpec, target: Checkpoint, draft: Checkpoint) -> Iterator[Finding]:
    mixed = spec.options.get("use_heterogeneous_vocab")
    if (
        None not in (draft.vocabulary, target.vocabulary)
        and draft.vocabulary != target.vocabulary
        and not mixed
    ):
        wrong = f"the draft's vocabulary has {draft.vocabulary} tokens and the target's {target.vocabulary}"
        right = "name a draft of the same family"
        if spec.method == "draft-model":
            right += ", or set use_heterogeneous_vocab"
        yield Finding(spec.name, wrong, right)
    if spec.method in _READS_HIDDEN_STATES:
        width = draft.target_hidden_size or draft.hidden_size
        if None not in (width, target.hidden_size) and width != target.hidden_size:
            wrong = (
                f"the draft reads hidden states of {width} numbers and the target's have {target.hidden_size}"
            )
            yield Finding(spec.name, wrong, "name the draft that was trained for this target")
    # EAGLE-3 counts the embeddings as layer 0, so it may name one more.
    last = target.layers if spec.method == "eagle3" else (target.layers or 0) - 1
    beyond = [layer for layer in draft.target_layers if target.layers and not 0 <= layer <= (last or 0)]
    if beyond:
        wrong = f"the draft reads layer {beyond[0]} of a target that has {target.layers}"
        yield Finding(spec.name, wrong, "name the draft that was trained for this target")


def _attention(spec: LaunchSpec, machine: Machine, architectures: Iterable[str]) -> Iterator[Finding]:
    needed = spec.known.attention_backend((spec.target, *architectures), machine.platform)
    if needed is None:
        return
    given = (
        spec.setting("attention-backend", "attention-config", "backend"),
        spec.options.get("attention_backend"),
    )
    if any(str(one).lower() != needed for one in given):
        wrong = f"{spec.method} on {spec.target} needs the attention backend {needed} on {machine.platform}"
        right = f"set args attention-backend and speculative attention_backend to {needed}"
        yield Finding(spec.name, wrong, right)
