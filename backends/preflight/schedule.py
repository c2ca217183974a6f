"""Whether a schedule of draft lengths by batch size is one that vLLM follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backends.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.spec import LaunchSpec

KEY: Final = "num_speculative_tokens_per_batch_size"
_SHAPE: Final = "write [[1, 64, 3], [65, 512, 0]]: first and last batch size, draft tokens"


def check_schedule(spec: LaunchSpec) -> Iterator[Finding]:
    """Findings about ``num_speculative_tokens_per_batch_size``."""
    schedule = spec.speculative.get(KEY)
    if schedule is None:
        return
    if not _is_schedule(schedule):
        yield Finding(spec.name, f"{KEY} is no list of three whole numbers each", _SHAPE)
        return
    expected = 1
    for first, last, tokens in schedule:
        if first != expected:
            wrong = f"the schedule has {first} where batch size {expected} is next"
            yield Finding(spec.name, wrong, f"begin at {expected}: from 1 on, without gaps and overlaps")
            break
        if last < first:
            yield Finding(spec.name, f"the schedule ends a range at {last} that begins at {first}", _SHAPE)
            break
        expected = last + 1
        if not 0 <= tokens <= spec.draft_tokens:
            wrong = f"the schedule asks for {tokens} draft tokens at batch size {first}"
            yield Finding(spec.name, wrong, f"write 0 to {spec.draft_tokens}, or raise draft_tokens")
    if not spec.known.schedule:
        wrong = f"vLLM is not tested with a schedule for {spec.method}"
        yield Finding(spec.name, wrong, "watch its acceptance, or remove the schedule", warning=True)
    if spec.args.get("data-parallel-size", 1) not in (1, "1"):
        wrong = "vLLM silently ignores a schedule with data parallelism"
        yield Finding(spec.name, wrong, "remove data-parallel-size or the schedule")


def _is_schedule(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(row, list) and len(row) == 3 and all(isinstance(one, int) for one in row)
            for row in value
        )
    )
