"""A sweep says of one real server what other benchmarks say of it, within the intervals of both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vllm import agreement
from tests.vllm.test_real_text import CHECKPOINT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3000)]

BESIDE = "SPECROUTE_BENCH"
PROGRAM = "SPECROUTE_GUIDELLM"
ROUNDS = 4


def test_figures_agree_with_those_of_other_benchmarks(vllm_python: Path) -> None:
    model, beside, program = (os.environ.get(name, "") for name in (CHECKPOINT, BESIDE, PROGRAM))
    if not (model and beside):
        pytest.skip(
            f"{CHECKPOINT} names no language model, or {BESIDE} no folder with pandas (see agreement.py)"
        )
    found = agreement.measure(Path(model), ROUNDS, vllm_python, beside, Path(program) if program else None)
    ours = found.pop(agreement.OURS)
    for name, theirs in found.items():
        for quantity in ("tokens_per_second", "tpot"):
            both = [[getattr(one, quantity) for one in figures] for figures in (ours, theirs)]
            over = agreement.ratio(*both)
            assert over.low <= 1.05, (name, quantity, over)
            assert over.high >= 0.95, (name, quantity, over)
