from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

import backends
from backends.recipes import Recipe, recipes

PROFILES = Path(backends.__file__).parent / "sim" / "profiles"

TARGETS = {
    "google/gemma-4-26B-A4B-it", "google/gemma-4-31B-it", "Qwen/Qwen3-8B", "Qwen/Qwen3.5-27B",
    "Qwen/Qwen3.5-122B-A10B", "Qwen/Qwen3.6-27B", "Qwen/Qwen3.6-35B-A3B", "moonshotai/Kimi-K2.5",
    "MiniMaxAI/MiniMax-M3-MXFP8",
}  # fmt: skip


def test_every_published_target_has_a_recipe() -> None:
    assert {recipe.target for recipe in recipes().values()} == TARGETS


@pytest.mark.parametrize("name", list(recipes()))
def test_every_kind_of_value_names_its_source(name: str) -> None:
    recipe = recipes()[name]
    kinds = {"parallelism", "env", "args", "draft", "draft_tokens"}
    kinds |= {"block_size"} if any(one.block_size for one in recipe.methods.values()) else set()
    assert set(recipe.origins) == kinds
    assert recipe.source.startswith("https://")
    assert recipe.name == name


def measured(recipe: Recipe) -> list[dict[str, Any]]:
    """The published cells of a target, one entry a method and N."""
    profile = json.loads((PROFILES / f"{recipe.name}.json").read_bytes())
    assert profile["target"] == recipe.target
    return [one for one in profile["configurations"] if one["method"] != "none"]


def speedup(entry: dict[str, Any]) -> float:
    return geometric_mean(cell["speedup"] for cell in entry["cells"].values())


@pytest.mark.parametrize("name", list(recipes()))
def test_a_recipe_has_the_methods_that_were_measured_with_the_fastest_n(name: str) -> None:
    recipe = recipes()[name]
    fastest: dict[str, dict[str, Any]] = {}
    for entry in sorted(measured(recipe), key=speedup):
        fastest[entry["method"]] = entry
    assert set(recipe.methods) == {"none", *fastest}
    for method, entry in fastest.items():
        assert recipe.methods[method].draft_tokens == entry["draft_tokens"]
        assert (recipe.methods[method].draft or "built-in") == entry["draft"]
