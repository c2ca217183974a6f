"""Whether the further flags of a server are flags, may be set, and leave the gateway what it reads."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from backends.flags import LISTED_OF, Kind, listed, name, shorts
from backends.preflight.finding import Finding, unchecked
from backends.render import METRICS, OWN_ARGS, REQUEST_METRICS_SINCE
from backends.spec import whole
from backends.versions import at_least, may_have

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from backends.machine import Machine
    from backends.methods import Scalar
    from backends.spec import LaunchSpec

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\..+)?", re.ASCII)
_HIDES: Final = {
    "uds": "it listens on a socket file and not at its url",
    "headless": "it has no HTTP server",
    "grpc": "it speaks gRPC and not HTTP",
    "help": "it prints its help and ends",
}
"""Flags with which the gateway cannot use a server."""
_COUNTS: Final = (
    "pipeline-parallel-size", "data-parallel-size", "data-parallel-size-local",
    "prefill-context-parallel-size",
)  # fmt: skip
_SIZES: Final = ("max-num-seqs", "max-num-batched-tokens")
_JSON: Final = ("config", "kwargs", "overrides")
"""How names of flags end that take JSON; a chat template may begin with a brace too."""
_MEMORY: Final = "gpu-memory-utilization"
_NODES: Final = "nnodes"


def check_flags(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Findings about ``launch.args``, and about the flags that are needed beside them."""
    seen: dict[str, str] = {}
    for whole_key, value in spec.args.items():
        read = name(whole_key)
        # What follows is a value, and may be a secret.
        written, sign, _ = whole_key.partition("=")
        yield from _spelling(spec, written, read, value, machine, holds=bool(sign))
        if other := seen.get(read):
            yield Finding(spec.name, f"the flags {other} and {written} are one", "keep one of them")
        seen.setdefault(read, written)
    yield from _counts(spec)
    yield from _forms(spec)
    if spec.speculates or METRICS in spec.flags:
        yield from _acceptance(spec, machine)
    if "config" in spec.flags:
        wrong = f"the flags in {spec.flags['config']} were not looked at"
        yield unchecked(spec.name, wrong, "write them in launch.args")
    if spec.flags.get("disable-log-stats"):
        wrong = "without log statistics there are no counters to read load and acceptance from"
        yield Finding(spec.name, wrong, "remove disable-log-stats")


def _spelling(
    spec: LaunchSpec, written: str, read: str, value: Scalar, machine: Machine, *, holds: bool
) -> Iterator[Finding]:
    head, dot, _ = read.partition(".")
    bare = written.lstrip("-")
    if not _NAME.fullmatch(bare):
        yield Finding(spec.name, f"{written!r} cannot be a flag", "write the name of a flag of vllm serve")
    elif owner := OWN_ARGS.get(head):
        yield Finding(spec.name, f"the flag {written} is written by specroute", f"remove it and set {owner}")
    elif head in _HIDES:
        yield Finding(spec.name, f"with the flag {written} {_HIDES[head]}", "remove it")
    elif holds:
        yield Finding(
            spec.name, f"the flag {written} holds its value", f"write {read!r} as key and the rest as value"
        )
    elif written != bare:
        yield Finding(spec.name, f"the flag {written} begins with dashes", f"write {read}")
    elif bare.partition(".")[0] in shorts():
        yield Finding(spec.name, f"the flag {written} is the short form of another", f"write {read}")
    elif bare.partition(".")[0].replace("_", "-") != head:
        yield Finding(spec.name, f"vLLM reads the flag {written} as {read}", f"write {read}", warning=True)
    elif dot:
        yield from _known(spec, written, head, machine)
    else:
        yield from _known(spec, written, head, machine)
        yield from _followed(spec, written, head, value, machine)


def _flags(machine: Machine) -> tuple[Mapping[str, Kind], str, bool]:
    """Flags that there are, of which version, and whether that is the one that is here."""
    engine = machine.engine
    if engine is not None and engine.flags:
        return engine.flags, engine.version, True
    return listed(), LISTED_OF, False


def _known(spec: LaunchSpec, written: str, head: str, machine: Machine) -> Iterator[Finding]:
    known, version, here = _flags(machine)
    if head in known or known.get(head.removeprefix("no-")) is Kind.SWITCH:
        return
    near = get_close_matches(head, known, n=1, cutoff=0.6)
    right = f"did you mean {near[0]!r}?" if near else "see vllm serve --help=all for those that there are"
    yield Finding(spec.name, f"vLLM {version} has no flag {written}", right, warning=not here)


def _followed(
    spec: LaunchSpec, written: str, head: str, value: Scalar, machine: Machine
) -> Iterator[Finding]:
    """Whether a flag has a value where it takes one, and none where it does not."""
    known, _, here = _flags(machine)
    kind = known.get(head)
    if kind is None:
        kind = Kind.BARE if known.get(head.removeprefix("no-")) is Kind.SWITCH else Kind.OPTIONAL
    if kind is Kind.VALUE and isinstance(value, bool):
        right = f"write '{written}: VALUE', or remove it"
        yield Finding(spec.name, f"the flag {written} has no value", right, warning=not here)
    elif kind in (Kind.SWITCH, Kind.BARE) and not isinstance(value, bool):
        wrong = f"the flag {written} takes no value, and {value!r} is given"
        yield Finding(spec.name, wrong, "write true or false", warning=not here)


def _counts(spec: LaunchSpec) -> Iterator[Finding]:
    for flag in (*_COUNTS, *_SIZES):
        value = spec.flags.get(flag)
        if value is not None and value is not True and whole(value) is None:
            yield Finding(spec.name, f"{flag} is {value!r}", "write a whole number from 1 on")
    memory = spec.flags.get(_MEMORY)
    if memory is not None and not _is_share(memory):
        yield Finding(spec.name, f"{_MEMORY} is {memory!r}", "write a number above 0, 1 at most")
    if (nodes := spec.flags.get(_NODES, 1)) not in (1, "1"):
        wrong = f"it is spread over {nodes} machines, and only what runs on one is started"
        yield Finding(spec.name, wrong, f"remove {_NODES}, or start it by other means")


def _is_share(value: Scalar) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) <= 1
    except ValueError:
        return False


def _forms(spec: LaunchSpec) -> Iterator[Finding]:
    """Values that vLLM reads on, and flags that it refuses without another."""
    for flag, value in spec.flags.items():
        if flag.endswith(_JSON) and str(value).lstrip().startswith("{"):
            try:
                json.loads(str(value))
            except (ValueError, RecursionError):
                wrong = f"the value of {flag} begins like JSON and is none"
                yield Finding(spec.name, wrong, "write it as one JSON object")
    if spec.flags.get("enable-auto-tool-choice") is True and "tool-call-parser" not in spec.flags:
        wrong = "vLLM refuses enable-auto-tool-choice without tool-call-parser"
        yield Finding(spec.name, wrong, "name the parser of the model's family")


def _acceptance(spec: LaunchSpec, machine: Machine) -> Iterator[Finding]:
    """Whether it tells the acceptance of each request."""
    engine = machine.engine
    if not spec.speculates:
        yield Finding(spec.name, f"vLLM refuses to start with {METRICS} and no speculation", "remove it")
    elif spec.flags.get(METRICS) == "none":
        wrong = "acceptance of each request is switched off, so it is only known from counters"
        yield Finding(spec.name, wrong, f"remove {METRICS}", warning=True)
    elif engine is None or METRICS in engine.flags or at_least(engine.version, REQUEST_METRICS_SINCE):
        return
    elif not engine.flags and may_have(engine.version, REQUEST_METRICS_SINCE):
        wrong = (
            f"the number of the development build {engine.version} does not say whether it tells acceptance"
        )
        right = f"use vLLM {REQUEST_METRICS_SINCE} or newer to be sure"
        yield Finding(spec.name, wrong, right, warning=True)
    else:
        wrong = f"vLLM {engine.version} does not tell the acceptance of each request"
        yield Finding(spec.name, wrong, f"use vLLM {REQUEST_METRICS_SINCE} or newer", warning=True)
