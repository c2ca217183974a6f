"""Whether the draft is one of the method, and of this target, by names, architectures and recipes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from backends.checkpoint import UnreadableCheckpointError, find
from backends.methods import methods
from backends.preflight.finding import Finding
from backends.recipes import recipes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.checkpoint import Checkpoint
    from backends.machine import Machine
    from backends.spec import LaunchSpec

_TAKEN_FOR: Final = (("eagle-", "eagle"), ("eagle3", "eagle3"), ("dflash", "dflash"), ("dspark", "dspark"))
"""What in a draft's name vLLM goes by, whatever the method, in its order."""
_KEPT: Final = ("eagle", "eagle3", "dflash", "dspark")
"""Methods that vLLM keeps whatever the draft is."""
_FURTHER: Final = {"gemma4-mtp": ("*Gemma4*Assistant*",), "mtp": ("*MTP*", "*NextN*")}
"""Architectures of drafts of methods, besides those of the method files."""
_OWN_LAYERS: Final = ("mtp", "gemma4-mtp")
"""Methods that only certain targets have."""


def check_drafts(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about which method and target a draft is for. The method must exist."""
    draft = spec.draft if spec.takes_draft else None
    here = {name: _found(name, machine, spec) for name in (spec.target, draft) if name}
    other = _taken_for(spec, draft, here.get(draft)) if draft else None
    if draft and other and spec.method in _KEPT:
        if here[draft] is None:
            wrong = f"{draft} is called as a draft of {other} is"
            yield Finding(spec.name, wrong, f"write 'method: {other}', or name another", warning=True)
    elif draft and other:
        wrong = f"the draft {draft} is one of {other}, which vLLM would use in place of {spec.method}"
        yield Finding(spec.name, wrong, f"write 'method: {other}', or name another draft")
    if None in here.values():
        yield from _by_recipes(spec, draft)
    elif draft:
        yield from _depth(spec, here[spec.target], here[draft])


def _found(name: str, machine: Machine, spec: LaunchSpec) -> Checkpoint | None:
    try:
        return find(name, {**machine.env, **spec.env})
    except UnreadableCheckpointError:  # which is told elsewhere
        return None


def _taken_for(spec: LaunchSpec, name: str, draft: Checkpoint | None) -> str | None:
    """Another method that a draft is for, if one is."""
    known = (method for part, method in _TAKEN_FOR if part in name.lower())
    by_name = next(known, None)
    if by_name is not None or draft is None or spec.known.draft_architectures:
        return None if by_name == spec.method else by_name
    for method in methods().values():
        patterns = () if method.name == "gemma4-mtp" else method.draft_architectures
        for pattern in (*patterns, *_FURTHER.get(method.name, ())):
            if method.name != spec.method and any(_fits(one, pattern) for one in draft.architectures):
                return method.name
    return None


def _fits(architecture: str, pattern: str) -> bool:
    return fnmatchcase(architecture.lower(), pattern.lower())


def _by_recipes(spec: LaunchSpec, draft: str | None) -> Iterator[Finding]:
    """What speaks against the ids, where checkpoints are not here to compare."""
    known = any(_of(recipe.target, spec.target) for recipe in recipes().values())
    for recipe in recipes().values():
        mine = _of(recipe.target, spec.target)
        if mine and spec.method in _OWN_LAYERS and spec.method not in recipe.methods:
            wrong = f"{spec.target} is not known to have {spec.method}"
            right = f"known to go with it: {', '.join(recipe.methods)}"
            yield Finding(spec.name, wrong, right, warning=True)
        drafts = {one.draft.lower() for one in recipe.methods.values() if one.draft}
        if known and not mine and draft and draft.lower() in drafts:
            wrong = f"{draft} is the draft of {recipe.target}, and the target is {spec.target}"
            yield Finding(spec.name, wrong, "name the draft that was trained for this target", warning=True)


def _of(target: str, name: str) -> bool:
    """Whether a name is that of a target, or of one made of it, such as a quantised one."""
    return target.rpartition("/")[2].lower() in name.lower()


def _depth(spec: LaunchSpec, target: Checkpoint | None, draft: Checkpoint | None) -> Iterator[Finding]:
    if target is None or draft is None or None in (target.layers, draft.target_depth):
        return
    if target.layers != draft.target_depth:
        wrong = f"the draft is for a target of {draft.target_depth} layers, and this one has {target.layers}"
        yield Finding(spec.name, wrong, "name the draft that was trained for this target")
