from __future__ import annotations

import json

import pytest

from backends.fleet_file import write_fleet
from backends.methods import methods
from backends.recipes import recipes
from backends.spec import LaunchSpec, UnknownMethodError, from_recipe, from_section
from gateway.core.fleet import REFUSED_ADAPTIVE
from gateway.policy.load import Loaded, load_fleet
from gateway.policy.schema import BackendSection

RECIPE = recipes()["qwen3.6-35b-a3b"]


def test_a_recipe_makes_a_fleet() -> None:
    baseline, mtp, dflash = from_recipe(RECIPE, ["none", "mtp:3", "dflash"], first_port=9000)
    assert (baseline.name, baseline.port, baseline.draft_tokens) == ("qwen3.6-35b-a3b-none", 9000, 0)
    assert (mtp.name, mtp.url, mtp.draft_tokens) == ("qwen3.6-35b-a3b-mtp-n3", "http://127.0.0.1:9001", 3)
    assert (dflash.draft, dflash.block_size) == ("z-lab/Qwen3.6-35B-A3B-DFlash", 16)
    assert dflash.env == {"VLLM_ROCM_USE_AITER": "1"}
    assert dflash.hardware == "MI300X (gfx942)"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("dspark", "qwen3.6-35b-a3b has no method 'dspark'; methods: none, mtp, dflash"),
        ("mtp:x", "'mtp:x' is not a method with its draft tokens; write mtp:6"),
    ],
)
def test_what_a_recipe_lacks_is_said(asked: str, message: str) -> None:
    with pytest.raises(UnknownMethodError) as raised:
        list(from_recipe(RECIPE, [asked]))
    assert str(raised.value) == message


def test_three_lines_of_a_fleet_file_are_a_server() -> None:
    section = BackendSection.model_validate(
        {"name": "a", "url": "http://127.0.0.1:8000", "model": "Qwen/Qwen3-8B", "method": "dflash",
         "draft_tokens": 7, "draft": "z-lab/Qwen3-8B-DFlash-b16"}
    )  # fmt: skip
    assert from_section(section) == LaunchSpec(
        "a", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "dflash", 7, "z-lab/Qwen3-8B-DFlash-b16", port=8000
    )


ADAPTIVE = ("logit_bias", "logprobs", "min_p", "top_logprobs")


@pytest.mark.parametrize(
    ("speculative", "refuses"),
    [
        ({}, ADAPTIVE[::2]),
        ({"enable_adaptive_verification": True}, ADAPTIVE),
        ({"enable_adaptive_verification": False}, ADAPTIVE[::2]),
        ({"enable-adaptive-verification": True}, ADAPTIVE),
        ({"enable_adaptive_verification": "true"}, ADAPTIVE),
        ({"enable_adaptive_verification": 1}, ADAPTIVE),
        ({"enable_adaptive_verification": "off"}, ADAPTIVE[::2]),
    ],
)
def test_adaptive_verification_refuses_more_however_it_is_written(
    speculative: dict[str, object], refuses: tuple[str, ...]
) -> None:
    spec = LaunchSpec("a", "t", "t", "dspark", 7, "d", speculative=speculative)
    assert spec.refuses == refuses
    # The gateway reads the same from the file, whoever wrote it.
    for text in (write_fleet([spec]), HAND_WRITTEN.format(json.dumps(speculative))):
        loaded = load_fleet(text)
        assert isinstance(loaded, Loaded)
        assert loaded.value.backends[0].refuses == frozenset(refuses)


HAND_WRITTEN = """\
version: 1
backends:
  - {{name: a, url: "http://127.0.0.1:1", model: t, method: dspark, draft_tokens: 7, draft: d, launch: {{speculative: {}}}}}
"""


def test_what_a_file_says_is_refused_is_refused() -> None:
    spec = LaunchSpec(
        "a", "t", "t", "dspark", 7, "d", refused=("seed",), speculative={"enable_adaptive_verification": True}
    )
    assert spec.refuses == ("seed",)
    loaded = load_fleet(write_fleet([spec]))
    assert isinstance(loaded, Loaded)
    assert loaded.value.backends[0].refuses == {"seed"}


def test_the_core_and_the_method_files_name_the_same_refusals() -> None:
    assert {one.adaptive.refuses for one in methods().values() if one.adaptive} == {
        tuple(sorted(REFUSED_ADAPTIVE))
    }
