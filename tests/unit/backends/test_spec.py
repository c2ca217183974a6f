from __future__ import annotations

import pytest

from backends.fleet_file import write_fleet
from backends.methods import methods
from backends.recipes import recipes
from backends.spec import LaunchSpec, UnknownMethodError, from_recipe, from_section
from gateway.core.fleet import REFUSED_WITH_DRAFT
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


@pytest.mark.parametrize(
    ("speculative", "adaptive"),
    [
        ({}, False),
        ({"enable_adaptive_verification": True}, True),
        ({"enable_adaptive_verification": False}, False),
        ({"enable-adaptive-verification": True}, True),
        ({"enable_adaptive_verification": "true"}, True),
        ({"enable_adaptive_verification": 1}, True),
        ({"enable_adaptive_verification": "off"}, False),
    ],
)
def test_adaptive_verification_is_seen_however_it_is_written(
    speculative: dict[str, object], *, adaptive: bool
) -> None:
    spec = LaunchSpec("a", "t", "t", "dspark", 7, "d", speculative=speculative)
    assert spec.adaptive is adaptive
    # It takes what the others take: the filter lets requests for log-probabilities through.
    loaded = load_fleet(write_fleet([spec]))
    assert isinstance(loaded, Loaded)
    assert loaded.value.backends[0].refuses == {"min_p", "logit_bias"} == set(spec.refuses)


def test_what_a_file_says_is_refused_is_refused() -> None:
    spec = LaunchSpec(
        "a", "t", "t", "dspark", 7, "d", refused=("seed",), speculative={"enable_adaptive_verification": True}
    )
    assert spec.refuses == ("seed",)
    loaded = load_fleet(write_fleet([spec]))
    assert isinstance(loaded, Loaded)
    assert loaded.value.backends[0].refuses == {"seed"}


def test_the_core_and_the_method_files_name_the_same_refusals() -> None:
    assert {frozenset(one.refuses) for one in methods().values()} == {frozenset(), REFUSED_WITH_DRAFT}
