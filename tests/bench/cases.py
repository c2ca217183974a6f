"""The cases: what the load does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of traffic.

    Attributes:
        name: As on the command line.
        title: As in the tables.
        connections: Kept open, one request at a time on each.
        seconds: For which requests are begun; those begun are awaited.
        stream: Ask for a stream; otherwise a JSON answer.
        chunks: Chunks with text in a stream.
        pause_us: Microseconds between two chunks of a stream.
        stagger_us: Microseconds between the first requests of two connections.
        prompt_bytes: Size of the prompt.
        burst: All connections begin at once, and again when the last answer has come.
        requests: After so many the load ends before its time; 0 for no limit.
    """

    name: str
    title: str
    connections: int
    seconds: float = 2.0
    stream: bool = False
    chunks: int = 128
    pause_us: int = 0
    stagger_us: int = 0
    prompt_bytes: int = 500
    burst: bool = False
    requests: int = 0


CASES: Final = {
    case.name: case
    for case in (
        *(
            Case(
                f"small{connections}",
                f"small, {connections} connection{'s' if connections > 1 else ''}",
                connections,
            )
            for connections in (1, 16, 64, 256)
        ),
        Case("prompt200k", "200 kB prompts, 16 connections", 16, prompt_bytes=200_000),
        Case("unpaced16", "16 streams without pause", 16, stream=True),
        # Starts are spread over one pause, so that hardly two chunks travel together.
        Case(
            "paced64", "64 streams, a chunk each 10 ms", 64, 2.7, stream=True, pause_us=10_000, stagger_us=156
        ),
        Case(
            "paced512",
            "512 streams, a chunk each 10 ms",
            512,
            2.7,
            stream=True,
            pause_us=10_000,
            stagger_us=19,
        ),
        # An answer as long as answers are: what a stream costs to set up hardly counts.
        Case(
            "long64",
            "64 streams of 512 chunks, one each 10 ms",
            64,
            1.0,
            stream=True,
            chunks=512,
            pause_us=10_000,
            stagger_us=156,
        ),
        Case("burst64", "bursts of 64 starts", 64, stream=True, chunks=16, pause_us=10_000, burst=True),
    )
}

QUICK: Final = ("small64", "prompt200k", "paced64", "burst64")
"""Cases of a short run."""
