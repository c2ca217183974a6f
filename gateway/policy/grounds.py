"""Whether the measurements that a policy rests on are of the servers that it routes to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.policy.beside import UnreadableError, read_beside
from gateway.policy.evidence import UnusableEvidenceError, parse
from gateway.policy.source import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway.policy.compile import Fleet
    from gateway.policy.evidence import Evidence
    from gateway.policy.problems import Problem

KEY: Final = "evidence"
_MAKE: Final = "measure here: specroute sweep"


def ground_problems(text: str, file: str, fleet: Fleet, folder: Path | None) -> Iterator[Problem]:
    """Warnings about the evidence that a policy file names, if it names some.

    Args:
        text: Of a policy file that is right.
        file: Its name for messages.
        fleet: What it routes to.
        folder: Of the policy file; None to read nothing.
    """
    source, _ = read(text, file)
    named = None if source is None else source.data.get(KEY)
    if source is None or folder is None or not isinstance(named, str):
        return
    try:
        evidence = parse(read_beside(folder, named))
    except (UnreadableError, UnusableEvidenceError) as error:
        wrong = f"{named!r} cannot be used: {error}"
        yield source.problem((KEY,), wrong, f"{_MAKE}, or remove the key", warning=True)
        return
    for wrong, right in _differences(evidence, fleet):
        yield source.problem((KEY,), f"{named!r} {wrong}", right, warning=True)


def _differences(evidence: Evidence, fleet: Fleet) -> Iterator[tuple[str, str]]:
    """What was measured and is not what there is: (what is wrong, what would be right)."""
    machine = evidence.machine
    if machine.simulated:
        yield "holds figures of a simulator, not of your servers", _MAKE
    own = [one for one in fleet.backends if one.target == evidence.target]
    if not own:
        targets = ", ".join(sorted({one.target for one in fleet.backends}))
        yield f"is of {evidence.target}, and the fleet serves {targets}", _MAKE
        return
    elsewhere: dict[str, list[str]] = {}
    for one in own:
        here = one.labels.get("hardware", "")
        if here and machine.hardware and not same_hardware(here, machine.hardware):
            elsewhere.setdefault(here, []).append(one.name)
    for here, names in elsewhere.items():
        wrong = f"was measured on {machine.hardware}, and {', '.join(names)} runs on {here}"
        yield wrong, f"speeds do not carry over from one accelerator to another; {_MAKE}"
    measured = {(one.method, one.draft_tokens) for one in evidence.measurements}
    new = [one.name for one in own if (one.method, one.draft_tokens) not in measured]
    if new:
        yield f"says nothing of {', '.join(new)}: no such method and draft length was measured", _MAKE


def same_hardware(one: str, other: str) -> bool:
    """Whether two names are of one accelerator: all words of the shorter one are in the longer one."""
    first, second = (set(re.findall(r"[a-z0-9.]+", name.lower())) for name in (one, other))
    return first <= second or second <= first
