from __future__ import annotations

import pytest

from gateway.core.draft_gaps import wanting
from gateway.core.draft_latency import StepTimes
from tests.unit.core.test_draft_latency import BASELINE, drafting, plain, seen

NOTHING = StepTimes()
DRAFTS = seen(drafting, 1, 4, width=4.0)


@pytest.mark.parametrize(
    ("own", "baselines", "words"),
    [
        (DRAFTS, [NOTHING, BASELINE], ""),
        (DRAFTS, [], "the fleet has no server without speculation of the same model on the same hardware"),
        (NOTHING, [BASELINE], "it has not decoded through a window of 10 s"),
        (
            seen(drafting, 4, width=4.0, windows=2), [BASELINE],
            "it has to be at about the same batch in more than 5 windows of 10 s; so far it was 2 times at 4",
        ),
        (DRAFTS, [NOTHING], "its baseline has not decoded through a window of 10 s"),
        (
            DRAFTS, [NOTHING, seen(plain, 1.3, windows=3)],
            ("its baseline has to be at about the same batch in more than 5 windows of 10 s; so far it was "
            "3 times at 1.3"),
        ),
        (
            DRAFTS, [seen(plain, 1, 2)],
            ("at a batch of 1 and 4 it computes 4 and 16 tokens a step, and its baseline was seen with 1 to 2 "
            "sequences at a time, not with as many as that: a larger baseline_share gives it more"),
        ),
        (
            seen(drafting, 4, 8, 16, 32, width=4.0), [seen(plain, 1, 2)],
            ("at a batch of 4 to 32 it computes 16 to 128 tokens a step, and its baseline was seen with 1 to 2 "
            "sequences at a time, not with as many as that: a larger baseline_share gives it more"),
        ),
        (
            seen(lambda _batch: 0.001, 2, width=4.0), [BASELINE],
            ("at a batch of 2 a step of its baseline over as many tokens takes longer than its own whole step, so "
            "the two cannot be compared"),
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(own: StepTimes, baselines: list[StepTimes], words: str) -> None:
    assert wanting(own, baselines, 10.0) == words
