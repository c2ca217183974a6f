"""Whether draft and target fit each other and the N, by the config.json of both."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from backends.checkpoint import UnreadableCheckpointError, find
from backends.methods import Rule
from backends.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.checkpoint import Checkpoint
    from backends.machine import Machine
    from backends.spec import LaunchSpec

_READS_HIDDEN_STATES: Final = ("eagle", "eagle3", "medusa", "dflash", "dspark")
_WHOLE_BLOCK: Final = "Qwen3Omni"
"""Targets whose DSpark draft must draft its whole block."""


def check_models(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about the checkpoints. The method must exist."""
    found: dict[str, Checkpoint | None] = {}
    for role, name in (("target", spec.target), ("draft", spec.draft)):
        try:
            found[role] = find(name, machine.env) if name else None
        except UnreadableCheckpointError as error:
            found[role] = None
            yield Finding(
                spec.name, f"the {role} cannot be read: {error}", "name a folder with a checkpoint, or an id"
            )
    target, draft = found["target"], found["draft"]
    if target is not None:
        yield from _target(spec, target)
    if draft is not None:
        yield from _draft(spec, draft)
    if target is not None and draft is not None:
        yield from _pair(spec, target, draft)
    yield from _length(spec, target, draft)


def _target(spec: LaunchSpec, target: Checkpoint) -> Iterator[Finding]:
    yield from _architecture(spec, "target", target, spec.known.target_architectures)
    if spec.known.draft == "built_in" and not target.mtp_layers:
        wrong = f"{spec.target} has no layers of multi-token prediction"
        yield Finding(spec.name, wrong, "use a method with a draft of its own, or ngram")
    if target.heads and target.heads % spec.tensor_parallel:
        legal = [str(one) for one in range(1, target.heads + 1) if target.heads % one == 0]
        wrong = f"{target.heads} attention heads cannot be spread over {spec.tensor_parallel} GPUs"
        yield Finding(spec.name, wrong, f"set launch.tensor_parallel to one of {', '.join(legal)}")
    if target.positions and spec.max_model_len and spec.max_model_len > target.positions:
        wrong = f"max_model_len {spec.max_model_len} is above the target's {target.positions}"
        yield Finding(spec.name, wrong, f"set max_model_len to {target.positions} at most")


def _draft(spec: LaunchSpec, draft: Checkpoint) -> Iterator[Finding]:
    yield from _architecture(spec, "draft", draft, spec.known.draft_architectures)
    if draft.positions and spec.max_model_len and spec.max_model_len > draft.positions:
        wrong = (
            f"max_model_len {spec.max_model_len} is above the {draft.positions} tokens the draft was made for"
        )
        right = "expect lower acceptance in longer ones, or lower max_model_len"
        yield Finding(spec.name, wrong, right, warning=True)


def _architecture(
    spec: LaunchSpec, role: str, checkpoint: Checkpoint, patterns: Sequence[str]
) -> Iterator[Finding]:
    names = checkpoint.architectures
    fits = any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)
    if patterns and names and not fits:
        wrong = f"the {role} {checkpoint.name} is a {names[0]}, which is none for {spec.method}"
        yield Finding(spec.name, wrong, f"name one whose architecture is {' or '.join(patterns)}")


def _pair(spec: LaunchSpec, target: Checkpoint, draft: Checkpoint) -> Iterator[Finding]:
    mixed = spec.speculative.get("use_heterogeneous_vocab")
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


def _length(spec: LaunchSpec, target: Checkpoint | None, draft: Checkpoint | None) -> Iterator[Finding]:
    """Whether N is legal, by what is known of the draft."""
    tokens, rule = spec.draft_tokens, spec.known.draft_tokens.rule
    block = draft.block_size if draft is not None and draft.block_size else spec.block_size
    if rule is Rule.MULTIPLE and target is not None and target.mtp_layers:
        layers = target.mtp_layers
        if tokens > layers and tokens % layers:
            below = tokens - tokens % layers
            wrong = f"{tokens} draft tokens are no multiple of the target's {layers} prediction layers"
            yield Finding(spec.name, wrong, f"set draft_tokens to {below} or {below + layers}")
    elif rule is Rule.BELOW_BLOCK and block and tokens >= block:
        wrong = f"{tokens} draft tokens do not fit a block of {block}, of which one is the anchor"
        yield Finding(spec.name, wrong, f"set draft_tokens to {block - 1} at most")
    elif rule is Rule.WITHIN_BLOCK and block:
        whole = target is not None and any(name.startswith(_WHOLE_BLOCK) for name in target.architectures)
        if tokens > block:
            wrong = f"{tokens} draft tokens are past the block of {block} that the draft was trained with"
            yield Finding(spec.name, wrong, f"set draft_tokens to {block} at most")
        elif whole and tokens != block:
            wrong = f"a DSpark draft of Qwen3-Omni drafts its whole block, and {tokens} tokens are asked for"
            yield Finding(spec.name, wrong, f"set draft_tokens to {block}")
    elif rule is Rule.HEADS and draft is not None and draft.draft_heads and tokens != draft.draft_heads:
        wrong = f"the draft has {draft.draft_heads} heads, one a token, and {tokens} tokens are asked for"
        yield Finding(spec.name, wrong, f"set draft_tokens to {draft.draft_heads}")
