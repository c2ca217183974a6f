from __future__ import annotations

from dataclasses import replace

import pytest

from backends.fleet_file import write_fleet
from backends.recipes import recipes
from backends.spec import LaunchSpec, UnknownMethodError, from_recipe, from_section
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
        ("mtp:x", "'mtp:x' is not a method with its draft tokens; write mtp:3"),
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


def test_adaptive_verification_refuses_more() -> None:
    spec = LaunchSpec("a", "t", "t", "dspark", 7, "d")
    assert spec.refuses == ("logit_bias", "min_p")
    adaptive = replace(spec, speculative={"enable_adaptive_verification": True})
    assert adaptive.refuses == ("logit_bias", "logprobs", "min_p", "top_logprobs")
    assert "refuses: [logit_bias, logprobs, min_p, top_logprobs]" in write_fleet([adaptive])
    assert "refuses" not in write_fleet([spec])


@pytest.mark.parametrize(("url", "port"), [("https://x", 443), ("http://x", 80)])
def test_a_url_without_a_port_has_that_of_its_scheme(url: str, port: int) -> None:
    assert from_section(BackendSection(name="a", url=url, model="m")).port == port
