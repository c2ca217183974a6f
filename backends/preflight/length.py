"""Whether N is one that the draft can fill, by what is known of the draft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.methods import Rule
from backends.preflight.finding import Finding, unchecked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.checkpoint import Checkpoint
    from backends.spec import LaunchSpec

_WHOLE_BLOCK: Final = "Qwen3Omni"
"""Targets whose DSpark draft must draft its whole block."""


def check_length(spec: LaunchSpec, target: Checkpoint | None, draft: Checkpoint | None) -> Iterator[Finding]:
    """Findings about N; models that could not be read are None. The method must exist."""
    rule = spec.known.draft_tokens.rule
    if rule is Rule.MULTIPLE:
        yield from _multiple(spec, target if spec.draft is None else draft)
    elif rule is Rule.HEADS and draft is not None and draft.draft_heads:
        heads, tokens = draft.draft_heads, spec.draft_tokens
        if tokens != heads:
            wrong = f"the draft has {heads} heads, one a token, and {tokens} tokens are asked for"
            yield Finding(spec.name, wrong, f"set draft_tokens to {heads}")
    elif rule in (Rule.BELOW_BLOCK, Rule.WITHIN_BLOCK):
        yield from _block(spec, target, draft)


def _multiple(spec: LaunchSpec, model: Checkpoint | None) -> Iterator[Finding]:
    tokens, layers = spec.draft_tokens, model.mtp_layers if model is not None else None
    if layers and tokens > layers and tokens % layers:
        below = tokens - tokens % layers
        wrong = f"{tokens} draft tokens are no multiple of the target's {layers} prediction layers"
        yield Finding(spec.name, wrong, f"set draft_tokens to {below} or {below + layers}")


def _block(spec: LaunchSpec, target: Checkpoint | None, draft: Checkpoint | None) -> Iterator[Finding]:
    holder = draft if spec.draft else target
    said = holder.block_size if holder is not None else None
    published = spec.known.block_size(spec.draft) if spec.draft else None
    block = said or spec.block_size or published
    if spec.block_size and (other := said or published) and other != spec.block_size:
        holds = spec.draft or spec.target
        wrong = f"launch.block_size is {spec.block_size}, and the block of {holds} has {other}"
        if said is None:
            wrong += ", as far as is known"
        yield Finding(spec.name, wrong, "remove launch.block_size", warning=said is None)
    if block:
        yield from _within(spec, block, target)
        return
    tokens, most = spec.draft_tokens, spec.known.draft_tokens.most
    if tokens > most:
        wrong = f"{tokens} draft tokens are more than any published draft of {spec.method} has in its block"
        right = f"set draft_tokens to {most} at most, or write the draft's block in launch.block_size"
        yield Finding(spec.name, wrong, right)
    elif tokens:
        wrong = f"the block of the draft is not known, so {tokens} draft tokens may not fit it"
        yield unchecked(spec.name, wrong, "write it in launch.block_size")


def _within(spec: LaunchSpec, block: int, target: Checkpoint | None) -> Iterator[Finding]:
    tokens = spec.draft_tokens
    if spec.known.draft_tokens.rule is Rule.BELOW_BLOCK:
        if tokens >= block:
            wrong = f"{tokens} draft tokens do not fit a block of {block}, of which one is the anchor"
            yield Finding(spec.name, wrong, f"set draft_tokens to {block - 1} at most")
    elif tokens > block:
        wrong = f"{tokens} draft tokens are past the block of {block} that the draft was trained with"
        yield Finding(spec.name, wrong, f"set draft_tokens to {block} at most")
    elif (
        tokens != block
        and target is not None
        and any(one.startswith(_WHOLE_BLOCK) for one in target.architectures)
    ):
        wrong = f"a DSpark draft of Qwen3-Omni drafts its whole block, and {tokens} tokens are asked for"
        yield Finding(spec.name, wrong, f"set draft_tokens to {block}")
