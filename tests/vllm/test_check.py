"""The checks before a launch held to vLLM: its flags, its parser, its rules for schedules and for configs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from backends import engine
from backends.flags import LISTED_OF, Kind, listed
from backends.machine import Machine
from backends.methods import COMMON_KEYS, OWN_KEYS, methods
from backends.preflight import preflight
from tests.vllm import servers

if TYPE_CHECKING:
    from pathlib import Path

    from backends.spec import LaunchSpec

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]

SCHEDULE: Final = "num_speculative_tokens_per_batch_size"
TAKEN: Final[dict[str, dict[str, Any]]] = {
    "schedule": {"speculative": {SCHEDULE: [[1, 2, 3], [3, 16, 0]]}},
    "schedule-out-of-order": {"speculative": {SCHEDULE: [[3, 16, 0], [1, 2, 3]]}},
    "schedule-with-a-gap": {"speculative": {SCHEDULE: [[1, 2, 3], [9, 16, 0]]}},
    "dashes": {"speculative": {"enforce-eager": True, "max-model-len": 1024}},
    "texts": {"speculative": {"enforce_eager": "true", "draft_tensor_parallel_size": "1"}},
    "underscores": {"args": {"max_num_batched_tokens": 4096, "enable_prefix_caching": False}},
    "dotted": {"args": {"attention-config.backend": "CPU_ATTN", "compilation_config.cudagraph_mode": "NONE"}},
}
"""What our checks let pass, and vLLM must take."""

REFUSED: Final[dict[str, dict[str, Any]]] = {
    "schedule-that-begins-late": {"speculative": {SCHEDULE: [[2, 16, 3]]}},
    "schedule-with-an-overlap": {"speculative": {SCHEDULE: [[1, 4, 3], [4, 16, 1]]}},
    "schedule-the-wrong-way-round": {"speculative": {SCHEDULE: [[4, 1, 3]]}},
    "schedule-below-zero": {"speculative": {SCHEDULE: [[1, 16, -1]]}},
    "schedule-of-pairs": {"speculative": {SCHEDULE: [[1, 16]]}},
    "empty-schedule": {"speculative": {SCHEDULE: []}},
    "switch-that-is-none": {"speculative": {"enforce_eager": "maybe"}},
    "count-that-is-none": {"speculative": {"draft_tensor_parallel_size": 0}},
    "longer-than-its-server": {"speculative": {"max_model_len": 4096}},
    "other-choice": {"speculative": {"draft_sample_method": "random"}},
    "text-that-is-none": {"speculative": {"moe_backend": 3}},
    "no-such-key": {"speculative": {"enforce_eagre": True}},
    "no-such-flag": {"args": {"max-nun-seqs": 4}},
    "flag-without-its-value": {"args": {"max-num-seqs": True}},
    "stages-that-are-none": {"args": {"pipeline-parallel-size": "two"}},
    "heads-that-cannot-be-spread": {"tensor_parallel": 7},
}
"""What our checks refuse, and vLLM does too."""

TOGETHER: Final[dict[str, dict[str, Any]]] = {
    "balancer-without-its-number": {"args": {"data-parallel-hybrid-lb": True}},
    "experts-on-a-cpu": {"args": {"enable-eplb": True}},
}
"""Flags that vLLM takes one by one and not together, or not here: it alone knows."""

LET_PASS: Final[dict[str, dict[str, Any]]] = {
    "schedule-above-n": {"speculative": {SCHEDULE: [[1, 16, 9]]}},
    # vLLM takes the value for the name of the model.
    "switch-with-a-value": {"args": {"enable-prefix-caching": "yes"}},
    "owned": {"args": {"max_model_len": 64}},
}
"""What our checks refuse, and vLLM reads as something else than was written."""


def variants(base: LaunchSpec, changes: dict[str, dict[str, Any]], first_port: int) -> list[LaunchSpec]:
    return [
        replace(
            base, name=name, port=first_port + place,
            **{**change, "args": {**base.args, **change.get("args", {})}},
        )
        for place, (name, change) in enumerate(changes.items())
    ]  # fmt: skip


async def test_vllm_and_our_checks_agree(vllm_python: Path, checkpoints: Path) -> None:
    all_of_them = {one.name: one for one in servers.specs(checkpoints, "http://127.0.0.1:1", suffix=False)}
    taken = variants(all_of_them["draft-model"], TAKEN, 21_000)
    refused = variants(all_of_them["draft-model"], REFUSED, 22_000)
    let_pass = variants(all_of_them["draft-model"], LET_PASS, 23_000)
    together = variants(all_of_them["baseline"], TOGETHER, 24_000)
    answer = await engine.ask(str(vllm_python), [*taken, *refused, *let_pass, *together])
    told = {one.server: one.wrong for one in answer.findings if not one.warning}
    assert set(told) == {*REFUSED, *TOGETHER}, told
    assert [*map(str, answer.findings)] == [str(one) for one in answer.findings if not one.unchecked]

    ours = preflight([*taken, *refused, *let_pass, *together], Machine("cpu", answer.engine))
    assert {one.server for one in ours if not one.warning} == {*REFUSED, *LET_PASS}, [*map(str, ours)]

    if answer.engine.version == LISTED_OF:
        assert {**answer.engine.flags} == {**listed(), "help": Kind.BARE}
        known = {*COMMON_KEYS, *OWN_KEYS, *(key for one in methods().values() for key in one.keys)}
        internal = {
            "target_model_config",
            "target_parallel_config",
            "draft_model_config",
            "draft_parallel_config",
        }
        left_out = {"tensor_parallel_size", "synthetic_acceptance_rates", "synthetic_acceptance_length"}
        assert known == answer.engine.options - internal - left_out
