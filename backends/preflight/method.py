"""Whether a method exists, runs on this platform and vLLM, and has the draft and the N that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.methods import Rule, methods
from backends.preflight.finding import Finding
from backends.versions import at_least, may_have
from gateway.policy.scalars import suggest_method

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.methods import Method
    from backends.spec import LaunchSpec

LONGEST: Final = 128
"""Draft tokens that vLLM's rejection sampler can take."""


def check_method(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about a method that exists or not."""
    method = methods().get(spec.method)
    if method is None:
        yield Finding(spec.name, f"there is no method {spec.method!r}", suggest_method(spec.method))
        return
    yield from _support(spec, method, machine)
    yield from _draft(spec, method)
    yield from _draft_tokens(spec, method)
    yield from _refuses(spec)


def _support(spec: LaunchSpec, method: Method, machine: Machine) -> Iterator[Finding]:
    name, platform, engine = method.name, machine.platform, machine.engine
    support = method.platforms[platform]
    if not support.runs:
        others = " or ".join(one for one, it in method.platforms.items() if it.runs)
        yield Finding(spec.name, f"{name} does not run on {platform}: {support.note}", f"run it on {others}")
        return
    if engine is None:
        if method.needs is not None and spec.image is None:
            wrong = f"{name} needs the package {method.needs.module}, which the usual image of vLLM may lack"
            right = f"add {method.needs.package} to an image of your own and name it in launch.image"
            yield Finding(spec.name, wrong, right, warning=True)
        return
    if method.engine is not None and method.engine not in engine.methods:
        wrong = f"vLLM {engine.version} has no method {method.engine}"
        yield Finding(spec.name, wrong, f"use vLLM {method.since.version} or newer")
    elif not at_least(engine.version, since := support.since or method.since.version) and not _shown(
        method, machine
    ):
        right = f"use vLLM {since} or newer"
        if may_have(engine.version, since):
            wrong = (
                f"{name} is known on {platform} from vLLM {since} on, and the number of the development build"
            )
            wrong += f" {engine.version} does not say whether it has it"
            yield Finding(spec.name, wrong, f"{right} to be sure", warning=True)
        else:
            wrong = f"{name} is known on {platform} from vLLM {since} on, and this is {engine.version}"
            yield Finding(spec.name, wrong, right)
    if method.needs is not None and method.needs.module not in engine.modules:
        wrong = f"{name} needs the package {method.needs.module}, which vLLM's environment lacks"
        yield Finding(spec.name, wrong, f"run {engine.python} -m pip install {method.needs.package}")


def _shown(method: Method, machine: Machine) -> bool:
    """Whether vLLM itself lists the method, which says more than its number where no platform is late."""
    if machine.engine is None or method.platforms[machine.platform].since is not None:
        return False
    alone = [one for one in methods().values() if one.engine == method.engine] == [method]
    return (method.alias or (method.engine if alone else None)) in machine.engine.methods


def _draft(spec: LaunchSpec, method: Method) -> Iterator[Finding]:
    if method.draft == "separate" and not spec.draft and not method.holds_draft(spec.target):
        yield Finding(
            spec.name, f"{method.name} needs a draft checkpoint", "add 'draft: ID' or the path of a folder"
        )
    elif method.draft == "built_in" and spec.draft and not spec.takes_draft:
        wrong = f"{method.name} drafts with the target's own layers, and a draft is named"
        right = "remove 'draft'"
        if "assistant" in spec.draft:
            right = "for a Gemma 4 assistant write 'method: gemma4-mtp'"
        yield Finding(spec.name, wrong, right)
    elif method.draft == "none" and spec.draft:
        yield Finding(
            spec.name, f"{method.name} has no draft, and one is named", "remove 'draft', or name the method"
        )


def _draft_tokens(spec: LaunchSpec, method: Method) -> Iterator[Finding]:
    tokens, legal = spec.draft_tokens, method.draft_tokens
    if legal.rule is Rule.NONE:
        if tokens:
            wrong = f"without speculation there are no draft tokens, and {tokens} are asked for"
            yield Finding(spec.name, wrong, "remove 'draft_tokens', or name the method")
        return
    then = f"then sweep {', '.join(map(str, legal.sweep))}"
    if legal.rule is Rule.HEADS:
        then = "if the draft has so many heads: one token each"
    if tokens < 1:
        wrong = f"{method.name} needs its number of draft tokens"
        yield Finding(spec.name, wrong, f"add 'draft_tokens: {legal.default}', {then}")
    elif tokens > LONGEST:
        wrong = f"{tokens} draft tokens are more than the {LONGEST} that vLLM can verify"
        yield Finding(spec.name, wrong, f"set draft_tokens to {legal.default}, {then}")
    elif tokens > legal.most and legal.rule not in (Rule.BELOW_BLOCK, Rule.WITHIN_BLOCK):
        wrong = f"{tokens} draft tokens are more than was ever of use with {method.name}"
        yield Finding(spec.name, wrong, f"begin with {legal.default}, {then}", warning=True)


def _refuses(spec: LaunchSpec) -> Iterator[Finding]:
    """Whether the fleet file lets requests through that the server answers with 400."""
    if spec.refused is None:
        return
    if lacking := sorted({*spec.known.refuses} - {*spec.refused}):
        wrong = f"it answers requests with {' or '.join(lacking)} with 400, and its 'refuses' lacks that"
        yield Finding(spec.name, wrong, "remove 'refuses', or name them there", warning=True)
