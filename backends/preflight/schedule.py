"""Whether a schedule of draft lengths by batch size is one that vLLM follows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backends.spec import LaunchSpec

KEY: Final = "num_speculative_tokens_per_batch_size"
_SHAPE: Final = "write [[1, 64, 3], [65, 512, 0]]: first and last batch size, draft tokens"


def check_schedule(spec: LaunchSpec) -> Iterator[Finding]:
    """Findings about ``num_speculative_tokens_per_batch_size``. The method must exist.

    vLLM sorts the ranges, goes on with the draft length before a gap, and cuts lengths above N down to N.
    """
    schedule = spec.options.get(KEY)
    if schedule is None:
        return
    if not _is_schedule(schedule):
        yield Finding(spec.name, f"{KEY} is no list of three whole numbers each", _SHAPE)
        return
    yield from _ranges(spec, sorted(schedule))
    if not spec.known.schedule:
        wrong = f"vLLM is not tested with a schedule for {spec.method}"
        yield Finding(spec.name, wrong, "watch its acceptance, or remove the schedule", warning=True)
    if spec.flags.get("data-parallel-size", 1) not in (1, "1"):
        wrong = "vLLM silently ignores a schedule with data parallelism"
        yield Finding(spec.name, wrong, "remove data-parallel-size or the schedule")


def _ranges(spec: LaunchSpec, schedule: Sequence[Sequence[int]]) -> Iterator[Finding]:
    """Findings about ranges, ordered by where they begin."""
    for first, last, tokens in schedule:
        if last < first:
            yield Finding(spec.name, f"the schedule ends a range at {last} that begins at {first}", _SHAPE)
            return
        if not 0 <= tokens <= spec.draft_tokens:
            wrong = f"the schedule asks for {tokens} draft tokens at batch size {first}"
            yield Finding(spec.name, wrong, f"write 0 to {spec.draft_tokens}, or raise draft_tokens")
    if (begin := schedule[0][0]) != 1:
        yield Finding(spec.name, f"the schedule begins at batch size {begin}", "begin at 1")
    for (_, last, tokens), (first, *_) in pairwise(schedule):
        if first <= last:
            wrong = f"the schedule has batch size {first} twice"
            yield Finding(spec.name, wrong, f"begin the later range at {last + 1}")
        elif first > last + 1:
            wrong = f"the schedule says nothing of batch sizes {last + 1} to {first - 1}"
            right = f"say it, unless {tokens} draft tokens are meant, with which vLLM goes on"
            yield Finding(spec.name, wrong, right, warning=True)


def _is_schedule(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(row, list) and len(row) == 3 and all(type(one) is int for one in row) for row in value
        )
    )
