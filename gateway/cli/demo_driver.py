"""Sends the prompts of the demo through the OpenAI SDK and prints one JSON line for each that has ended.

Runs as a process of its own, as any client of a gateway does: ``python -m gateway.cli.demo_driver URL COUNT
CONCURRENCY MODEL...``
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI, OpenAIError

from backends import prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.prompts import Prompt

WHOLE_EVERY = 10
"""One request in this many asks for its answer whole instead of streamed."""


def schedule(count: int, models: Sequence[str]) -> Iterator[tuple[str, str, Prompt]]:
    """Request id, model and prompt of each request: workloads and models take turns."""
    by_workload: dict[str, list[Prompt]] = {}
    for prompt in prompts.load():
        by_workload.setdefault(prompt.workload, []).append(prompt)
    workloads = list(by_workload.values())
    for number in range(count):
        turn, workload = divmod(number, len(workloads))
        turn, model = divmod(turn, len(models))
        prompt = workloads[workload][turn % len(workloads[workload])]
        yield f"demo-{number}", models[model], prompt


async def ask(client: AsyncOpenAI, identity: str, model: str, prompt: Prompt, *, stream: bool) -> str:
    """Send one prompt. Returns what went wrong, ``""`` if it was answered to its end."""
    # A model answers in the kind of what it was asked; the simulated servers have to be told. The gateway
    # takes no notice of this header.
    headers = {"x-request-id": identity, "x-sim-workload": prompt.workload}
    request: dict[str, Any] = {"model": model, **prompt.request, "extra_headers": headers}
    try:
        if not stream:
            answer = await client.chat.completions.create(**request)
            return "" if answer.choices[0].finish_reason else "no finish reason"
        finish = None
        async with await client.chat.completions.create(stream=True, **request) as chunks:
            async for chunk in chunks:
                for choice in chunk.choices:
                    finish = choice.finish_reason or finish
    except OpenAIError as error:
        return f"{type(error).__name__}: {error}"
    return "" if finish else "the stream ended without a finish reason"


async def drive(url: str, count: int, concurrency: int, models: Sequence[str]) -> None:
    """Keep ``concurrency`` requests open until ``count`` have ended."""
    waiting = schedule(count, models)

    async def worker(client: AsyncOpenAI) -> None:
        for number, (identity, model, prompt) in waiting_numbers:
            error = await ask(client, identity, model, prompt, stream=number % WHOLE_EVERY != 0)
            print(json.dumps({"id": identity, "workload": prompt.workload, "error": error}), flush=True)

    waiting_numbers = enumerate(waiting, start=1)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="not-needed", max_retries=0, timeout=600) as client:
        await asyncio.gather(*(worker(client) for _ in range(concurrency)))


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
