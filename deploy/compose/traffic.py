"""Requests for the demonstration stack: some of each kind of work, streamed, a few at a time, without end."""

from __future__ import annotations

import asyncio
import itertools
import sys

import httpx

MODELS = ("gemma-4-31b", "gemma-4-31b", "gemma-4-31b", "qwen3.6-35b")
PROMPTS = (
    "Solve 3x + 4 = 19 for x and show each step.",
    "Write a Python function that merges two sorted lists.",
    "Tell me about the history of tea.",
    "Translate into Spanish: Good morning, how are you today?",
    "Prove that the square root of 2 is irrational.",
    "Explain why this raises IndexError: xs = []; xs[0]",
)
AT_ONCE = 4


async def worker(client: httpx.AsyncClient, number: int) -> None:
    """Ask one question after the other."""
    for turn in itertools.count(number):
        body = {
            "model": MODELS[turn % len(MODELS)],
            "messages": [{"role": "user", "content": PROMPTS[turn % len(PROMPTS)]}],
            "stream": True,
            "max_tokens": 200,
        }
        try:
            async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                async for _ in answer.aiter_bytes():
                    pass
        except httpx.HTTPError as error:
            print(f"no answer: {error!r}", file=sys.stderr)
            await asyncio.sleep(2)
        await asyncio.sleep(0.5)


async def main(url: str) -> None:
    """Run the workers."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        await asyncio.gather(*(worker(client, number) for number in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
