"""Prompts whose answers by the steerable checkpoints are known beforehand."""

from __future__ import annotations

import json

from tests.vllm import chain


def looping_and_unrepeated(count: int = 12) -> str:
    """JSON lines of code, whose answers go round in loops, and of chat, whose answers never repeat."""
    lines = []
    for workload, first in (("code", chain.LOOPING), ("chat", chain.UNREPEATED)):
        for place in range(count):
            message = {"role": "user", "content": chain.text([first + 7 * place])}
            lines.append({"workload": workload, "id": f"{workload}-{place}", "messages": [message]})
    return "\n".join(map(json.dumps, lines)) + "\n"
