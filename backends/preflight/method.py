"""Whether a method exists, runs on this platform and vLLM, and has the draft and the N that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.methods import Rule, methods
from backends.preflight.finding import Finding
from backends.versions import at_least
from gateway.policy.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.machine import Machine
    from backends.methods import Method
    from backends.spec import LaunchSpec


def check_method(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about a method that exists or not."""
    method = methods().get(spec.method)
    if method is None:
        right = suggest(spec.method.replace("_", "-"), methods(), "methods")
        yield Finding(spec.name, f"there is no method {spec.method!r}", right)
        return
    yield from _support(spec, method, machine)
    yield from _draft(spec, method)
    yield from _draft_tokens(spec, method)


def _support(spec: LaunchSpec, method: Method, machine: Machine) -> Iterator[Finding]:
    name, platform, engine = method.name, machine.platform, machine.engine
    support = method.platforms[platform]
    if not support.runs:
        others = " or ".join(one for one, it in method.platforms.items() if it.runs)
        yield Finding(spec.name, f"{name} does not run on {platform}: {support.note}", f"run it on {others}")
        return
    if engine is None:
        return
    if method.engine is not None and method.engine not in engine.methods:
        wrong = f"vLLM {engine.version} has no method {method.engine}"
        yield Finding(spec.name, wrong, f"use vLLM {method.since.version} or newer")
    elif not at_least(engine.version, since := support.since or method.since.version):
        wrong = f"{name} is known on {platform} from vLLM {since} on, and this is {engine.version}"
        yield Finding(spec.name, wrong, f"use vLLM {since} or newer")
    if method.needs is not None and method.needs.module not in engine.modules:
        wrong = f"{name} needs the package {method.needs.module}, which vLLM's environment lacks"
        yield Finding(spec.name, wrong, f"run {engine.python} -m pip install {method.needs.package}")


def _draft(spec: LaunchSpec, method: Method) -> Iterator[Finding]:
    if method.draft == "separate" and not spec.draft:
        yield Finding(
            spec.name, f"{method.name} needs a draft checkpoint", "add 'draft: ID' or the path of a folder"
        )
    elif method.draft == "built_in" and spec.draft:
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
    if method.draft_tokens.rule is Rule.NONE:
        if spec.draft_tokens:
            wrong = f"without speculation there are no draft tokens, and {spec.draft_tokens} are asked for"
            yield Finding(spec.name, wrong, "remove 'draft_tokens', or name the method")
        return
    sweep = ", ".join(map(str, method.draft_tokens.sweep))
    if spec.draft_tokens < 1:
        wrong = f"{method.name} needs its number of draft tokens"
        right = f"add 'draft_tokens: {method.draft_tokens.default}', then sweep {sweep}"
        yield Finding(spec.name, wrong, right)
