"""A sweep says of one real server what other benchmarks say of it.

Tokens are compared always. Times are, within the intervals of both, where the machine does nothing else:
SPECROUTE_TIMES says so.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vllm import agreement
from tests.vllm.test_real_text import CHECKPOINT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

PROGRAM = "SPECROUTE_GUIDELLM"
TIMES = "SPECROUTE_TIMES"
ROUNDS = 10
FEW_ROUNDS = 2
DIFFERENCE = 0.03


def test_figures_agree_with_those_of_other_benchmarks(vllm_python: Path, checkpoints: Path) -> None:
    model = Path(os.environ.get(CHECKPOINT) or checkpoints / "slow")
    program = os.environ.get(PROGRAM)
    with agreement.serving(model, vllm_python) as server:
        rounds = ROUNDS if os.environ.get(TIMES) else FEW_ROUNDS
        found = agreement.take_turns(server, rounds, vllm_python, Path(program) if program else None)
    told = agreement.table(found)
    print(told)
    ours = found.pop(agreement.OURS)
    assert agreement.VLLM in found
    lengths = {(one.prompt_tokens, one.output_tokens) for one in ours}
    for name, theirs in found.items():
        assert {(one.prompt_tokens, one.output_tokens) for one in theirs} == lengths
        for quantity in ("of_requests", "tpot") if os.environ.get(TIMES) else ():
            both = [[getattr(one, quantity) for one in figures] for figures in (ours, theirs)]
            over = agreement.ratio(*both)
            assert over.low <= 1.0 + DIFFERENCE, (name, quantity, told)
            assert over.high >= 1.0 - DIFFERENCE, (name, quantity, told)
