"""The few Prometheus samples of a server that tests compare with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAMPLE: Final = re.compile(r"^vllm:(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
_POSITION: Final = re.compile(r'position="(\d+)"')

DRAFTS: Final = "spec_decode_num_drafts_total"
DRAFTED: Final = "spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "spec_decode_num_accepted_tokens_total"
ACCEPTED_AT: Final = "spec_decode_num_accepted_tokens_per_pos_total"
GENERATED: Final = "generation_tokens_total"
RUNNING: Final = "num_requests_running"


def samples(url: str) -> dict[str, int]:
    """Values by name without ``vllm:``; those by draft position have ``@POSITION`` behind the name."""
    page = httpx.get(f"{url}/metrics", timeout=10, trust_env=False).text
    found: dict[str, int] = {}
    for name, labels, value in _SAMPLE.findall(page):
        if name in {DRAFTS, DRAFTED, ACCEPTED, ACCEPTED_AT, GENERATED, RUNNING}:
            position = _POSITION.search(labels)
            found[name + (f"@{position[1]}" if position else "")] = int(float(value))
    return found


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each sample grew."""
    return {name: value - before[name] for name, value in after.items()}
