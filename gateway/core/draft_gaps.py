"""What has to be seen of a server and its baselines before it can be told how long it drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.draft_latency import LEAST_WINDOWS, NEAR, estimates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.core.draft_latency import StepTimes

_NAMED: Final = 3
_ROUND_FROM: Final = 9.95


def wanting(drafting: StepTimes, baselines: Sequence[StepTimes], seconds: float) -> str:
    """Say in words what is missing; "" where what drafting takes is known at a batch.

    Args:
        drafting: Of the server.
        baselines: Of servers of the same target and hardware without speculation.
        seconds: Length of a window.
    """
    if any(one.seconds is not None for one in estimates(drafting, baselines)):
        return ""
    if not baselines:
        return "the fleet has no server without speculation of the same model on the same hardware"
    if too_short := _too_short([drafting], seconds):
        return f"it {too_short}"
    if too_short := _too_short(baselines, seconds):
        return f"its baseline {too_short}"
    batches = [(one.batch / one.windows, one.width / one.windows) for one in drafting.known()]
    seen = sorted(one.batch / one.windows for each in baselines for one in each.known())
    within = [batch for batch, width in batches if seen[0] / NEAR <= width * batch <= seen[-1] * NEAR]
    if within:
        return (
            f"at a batch of {_several(within)} a step of its baseline over as many tokens takes longer than "
            "its own whole step, so the two cannot be compared"
        )
    return (
        f"at a batch of {_several(batch for batch, _ in batches)} it computes "
        f"{_several(width * batch for batch, width in batches)} tokens a step, and its baseline was seen "
        f"with {_number(seen[0])} to {_number(seen[-1])} sequences at a time, not with as many as that: a "
        "larger baseline_share gives it more"
    )


def _too_short(servers: Sequence[StepTimes], seconds: float) -> str:
    """What is wrong where no batch was seen often enough; "" where one was."""
    bins = [one for each in servers for one in each.bins.values()]
    if not bins:
        return f"has not decoded through a window of {seconds:g} s"
    most = max(bins, key=lambda one: one.windows)
    if most.windows >= LEAST_WINDOWS:
        return ""
    return (
        f"has to be at about the same batch in more than {LEAST_WINDOWS:g} windows of {seconds:g} s; so far "
        f"it was {most.windows:.0f} times at {_number(most.batch / most.windows)}"
    )


def _several(numbers: Iterable[float]) -> str:
    """Numbers in words, each or, of more than three, the least and the greatest."""
    said = list(dict.fromkeys(_number(one) for one in sorted(numbers)))
    if len(said) > _NAMED:
        return f"{said[0]} to {said[-1]}"
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= _ROUND_FROM else f"{value:.1f}".removesuffix(".0")
