"""Rounds and samples for tests."""

from __future__ import annotations

from backends.sweep.model import BASELINE, Candidate, Cell, Condition, Round, Sample
from backends.sweep.results import Results

CODE = Condition("code", 8)
MTP2 = Candidate("mtp", 2)


def sample(cell: Cell, place: int = 0, *, tokens: int = 100, seconds: float = 2.0, **more) -> Sample:
    return Sample(
        cell,
        **{
            "round": 0,
            "prompt_id": f"p{place}",
            "seconds": seconds,
            "ttft": 0.1,
            "prompt_tokens": 50,
            "output_tokens": tokens,
            "decode_tokens": tokens - 1,
            "decode_seconds": seconds - 0.1,
            "digest": f"text {place}",
            "finish": "stop",
            **more,
        },
    )


def measured_round(
    candidate: Candidate = BASELINE,
    condition: Condition = CODE,
    *,
    number: int = 0,
    rate: float = 50.0,
    requests: int = 16,
    spread: float = 0.05,
    accepted: tuple[int, ...] = (),
    **more,
) -> tuple[Round, list[Sample]]:
    """A round whose clients each get ``rate`` tokens a second, give or take ``spread``."""
    cell = Cell(candidate, condition)
    samples = []
    for place in range(requests):
        seconds = 100 / rate * (1 + spread * (1 if place % 2 else -1))
        told = {}
        if accepted:
            steps = sum(accepted)
            told = {
                "steps": steps,
                "drafted": steps * candidate.draft_tokens,
                "accepted": sum(place * count for place, count in enumerate(accepted)),
                "histogram": accepted,
            }
        samples.append(sample(cell, place, seconds=seconds, round=number, **{**told, **more}))
    return Round(cell, number, 10.0), samples


def results(*rounds: tuple[Round, list[Sample]]) -> Results:
    found = Results()
    for one in rounds:
        found.add(*one)
    return found
