from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from backends import manifests, render
from backends.fleet_file import read_fleet, write_fleet
from backends.methods import methods
from backends.recipes import recipes
from backends.spec import LaunchSpec, from_recipe
from gateway.policy.load import Invalid, Loaded, load_fleet

GOLDEN = Path(__file__).parent / "golden"
DRAFTS = {name: "drafts/of-its-own" for name, method in methods().items() if method.draft == "separate"}
FLEET = [
    LaunchSpec(
        name=name, target="acme/model", served_model="model", method=name, draft_tokens=method.draft_tokens.default,
        draft=DRAFTS.get(name), port=8000 + place, tensor_parallel=2, max_model_len=8192,
        args={"enforce-eager": True, "language-model-only": False, "gpu-memory-utilization": 0.8},
        env={"VLLM_ROCM_USE_AITER": "1"},
    )
    for place, (name, method) in enumerate(methods().items())
]  # fmt: skip


def argv() -> str:
    """One word a line, so that a difference is read at a glance."""
    servers = []
    for spec in FLEET:
        env = render.environment(spec, "rocm", (0, 1))
        words = [*(f"{key}={value}" for key, value in env.items()), *render.argv(spec, "python")]
        servers.append("\n".join(words))
    return "\n\n".join(servers) + "\n"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("argv.txt", argv),
        ("compose-rocm.yaml", lambda: manifests.compose(FLEET, "rocm")),
        ("compose-cuda.yaml", lambda: manifests.compose(FLEET, "cuda")),
        ("kubernetes-rocm.yaml", lambda: manifests.kubernetes(FLEET, "rocm")),
        ("fleet.yaml", lambda: write_fleet(FLEET)),
    ],
)
def test_what_is_written_is_what_was_written_before(name: str, made: object) -> None:
    # SPECROUTE_GOLDEN=write writes the files anew; the difference is then read before it is committed.
    text = made()  # type: ignore[operator]
    if os.environ.get("SPECROUTE_GOLDEN") == "write":
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("spec", FLEET, ids=lambda spec: spec.method)
def test_acceptance_is_asked_of_servers_that_speculate_alone(spec: LaunchSpec) -> None:
    flag = "--per-request-spec-decode-metrics"
    assert (flag in render.argv(spec, "python")) == spec.speculates
    assert flag not in render.argv(spec, "python", version="0.28.0")


@pytest.mark.parametrize("spec", FLEET, ids=lambda spec: spec.method)
def test_a_speculative_config_names_method_draft_and_n(spec: LaunchSpec) -> None:
    config = render.speculative_config(spec)
    if not spec.speculates:
        assert config is None
        return
    assert config is not None
    assert config["method"] == methods()[spec.method].engine
    assert config.get("model") == spec.draft
    assert config["num_speculative_tokens"] == spec.draft_tokens


def test_what_a_spec_says_wins_over_what_is_usual() -> None:
    spec = LaunchSpec("a", "t", "t", "ngram", 4, speculative={"prompt_lookup_max": 9})
    config = render.speculative_config(spec)
    assert config == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 9,
    }


@pytest.mark.parametrize(
    ("platform", "env"),
    [("rocm", {"HIP_VISIBLE_DEVICES": "2,3"}), ("cuda", {"CUDA_VISIBLE_DEVICES": "2,3"}), ("cpu", {})],
)
def test_gpus_are_named_as_the_platform_does(platform: str, env: dict[str, str]) -> None:
    spec = LaunchSpec("a", "t", "t")
    assert render.environment(spec, platform, (2, 3)) == env  # type: ignore[arg-type]
    assert render.environment(spec, platform) == {}  # type: ignore[arg-type]


def test_a_platform_without_a_usual_image_needs_one_named() -> None:
    spec = LaunchSpec("a", "t", "t")
    with pytest.raises(manifests.NoImageError, match=r"no usual image for cpu; set launch\.image"):
        manifests.compose([spec], "cpu")
    assert "image: my/vllm" in manifests.kubernetes([LaunchSpec("a", "t", "t", image="my/vllm")], "cpu")


@pytest.mark.parametrize("name", list(recipes()))
def test_a_fleet_file_is_read_as_it_was_written(name: str) -> None:
    specs = tuple(from_recipe(recipes()[name], recipes()[name].methods))
    text = write_fleet(specs)
    assert read_fleet(text, "fleet.yaml") == specs
    loaded = load_fleet(text)
    assert isinstance(loaded, Loaded)
    assert not loaded.warnings
    for backend, spec in itertools.zip_longest(loaded.value.backends, specs):
        assert backend.refuses == frozenset(spec.known.refuses)


def test_a_bad_fleet_file_is_told() -> None:
    found = read_fleet("version: 1\nbackends: []\n", "fleet.yaml")
    assert isinstance(found, Invalid)
