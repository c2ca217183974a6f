from __future__ import annotations

import pytest

from backends.methods import COMMON_KEYS, OWN_KEYS, Rule, methods
from backends.versions import release
from gateway.core.fleet import METHODS, REFUSED_WITH_DRAFT


def test_every_method_that_a_fleet_may_name_is_described() -> None:
    assert set(methods()) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_description_is_whole(name: str) -> None:
    method = methods()[name]
    assert method.name == name
    assert set(method.platforms) == {"rocm", "cuda", "cpu"}
    assert release(method.since.version) is not None
    assert (method.engine is None) == (name == "none")
    assert (method.draft_tokens.rule is Rule.NONE) == (name == "none")
    assert set(method.refuses) == (set() if name == "none" else set(REFUSED_WITH_DRAFT))
    assert not {*method.keys} & {*COMMON_KEYS, *OWN_KEYS}
    assert {*method.speculative} <= {*method.keys}
    assert all(support.note for support in method.platforms.values() if not support.runs)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "none"])
def test_the_first_n_is_one_of_those_to_sweep(name: str) -> None:
    tokens = methods()[name].draft_tokens
    assert tokens.default in tokens.sweep
    assert list(tokens.sweep) == sorted(tokens.sweep)


@pytest.mark.parametrize(
    ("method", "target", "platform", "backend"),
    [
        ("dflash", "google/gemma-4-31B-it", "rocm", "triton_attn"),
        ("dspark", "google/Gemma-4-26B-A4B-it", "rocm", "triton_attn"),
        ("dflash", "google/gemma-4-31B-it", "cuda", None),
        ("dflash", "Qwen/Qwen3-8B", "rocm", None),
        ("eagle3", "google/gemma-4-31B-it", "rocm", None),
    ],
)
def test_some_targets_need_a_certain_attention(
    method: str, target: str, platform: str, backend: str | None
) -> None:
    assert methods()[method].attention_backend((target,), platform) == backend
