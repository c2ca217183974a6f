"""A sweep says of one real server what other benchmarks say of it.

Tokens are compared always. Times are, within the intervals of both, where the machine does nothing else:
SPECROUTE_TIMES says so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.vllm import agreement
from tests.vllm.test_real_text import CHECKPOINT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

PROGRAM = "SPECROUTE_GUIDELLM"
TIMES = "SPECROUTE_TIMES"
ROUNDS = 10
FEW_ROUNDS = 2
DIFFERENCE = 0.03
TIMED = {agreement.ALONE: ("of_requests", "ttft", "tpot"), agreement.TOGETHER: ("of_requests", "tpot")}


@pytest.fixture(scope="module")
def server(vllm_python: Path, checkpoints: Path) -> Iterator[agreement.Server]:
    with agreement.serving(Path(os.environ.get(CHECKPOINT) or checkpoints / "slow"), vllm_python) as server:
        yield server


@pytest.mark.parametrize("load", TIMED, ids=["alone", "together"])
def test_figures_agree_with_those_of_other_benchmarks(
    server: agreement.Server, vllm_python: Path, load: agreement.Load
) -> None:
    program, timed = os.environ.get(PROGRAM), TIMED[load] if os.environ.get(TIMES) else ()
    rounds = ROUNDS if timed else FEW_ROUNDS
    found = agreement.take_turns(server, load, rounds, vllm_python, Path(program) if program else None)
    told = agreement.table(found)
    print(told)
    ours = found.pop(agreement.OURS)
    assert agreement.VLLM in found
    lengths = {(one.prompt_tokens, one.output_tokens) for one in ours}
    for name, theirs in found.items():
        assert {(one.prompt_tokens, one.output_tokens) for one in theirs} == lengths
        for quantity in timed:
            both = [[getattr(one, quantity) for one in figures] for figures in (ours, theirs)]
            over = agreement.ratio(*both)
            assert over.low <= 1.0 + DIFFERENCE, (name, quantity, told)
            assert over.high >= 1.0 - DIFFERENCE, (name, quantity, told)
