"""The checks before a launch, with vLLM's own opinion of real checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from backends import engine
from backends.machine import Machine
from backends.preflight import preflight
from tests.vllm import servers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


async def test_vllm_takes_what_passes_our_checks_and_refuses_what_we_refuse(
    vllm_python: Path, checkpoints: Path
) -> None:
    all_of_them = servers.specs(checkpoints, "http://127.0.0.1:1", suffix=False)
    good = {
        one.name: one for one in all_of_them if one.name in ("baseline", "ngram", "draft-model", "dflash")
    }
    bad = {
        "no layers for it": replace(good["ngram"], method="mtp", draft_tokens=1),
        "two GPUs for the draft": replace(good["draft-model"], speculative={"draft_tensor_parallel_size": 2}),
        "a key that is none": replace(good["ngram"], speculative={"prompt_lookup_mx": 3}),
        "bounds the wrong way round": replace(
            good["ngram"], speculative={"prompt_lookup_min": 5, "prompt_lookup_max": 2}
        ),
    }
    past_the_block = replace(good["dflash"], name="past the block", draft_tokens=9, port=22_000)
    named = [replace(spec, name=name, port=21_000 + place) for place, (name, spec) in enumerate(bad.items())]
    answer = await engine.ask(str(vllm_python), [*good.values(), *named, past_the_block])
    assert answer.engine.platform == "cpu"
    assert {"ngram", "eagle3", "dflash", "dspark", "mtp"} <= answer.engine.methods

    placed = [replace(spec, port=20_000 + place) for place, spec in enumerate(good.values())]
    assert list(map(str, preflight(placed, Machine("cpu", answer.engine)))) == []
    # What vLLM lets pass and should not: it does not compare N with DFlash's block.
    assert {one.server for one in answer.refusals} == set(bad)
    wrong = {
        one.server: one.wrong for one in preflight([*named, past_the_block], Machine("cpu", answer.engine))
    }
    assert {*bad, "past the block"} <= set(wrong)
    assert wrong["past the block"] == "9 draft tokens do not fit a block of 4, of which one is the anchor"
