from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.checkpoint import UnreadableCheckpointError, find, parse

if TYPE_CHECKING:
    from pathlib import Path

QWEN = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "num_hidden_layers": 36,
}


def test_a_multimodal_target_keeps_its_numbers_one_level_down() -> None:
    found = parse(
        "x",
        {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "text_config": {**QWEN, "mtp_num_hidden_layers": 1},
        },
    )
    assert (found.vocabulary, found.layers, found.mtp_layers) == (151_936, 36, 1)
    assert found.architectures == ("Qwen3_5ForConditionalGeneration",)


def test_a_speculator_says_its_kind_and_keeps_its_numbers_one_level_down() -> None:
    found = parse(
        "x",
        {
            "architectures": ["Eagle3DraftModel"],
            "speculators_model_type": "eagle3",
            "transformer_layer_config": {"hidden_size": 4096},
            "eagle_aux_hidden_state_layer_ids": [2, 18, 33],
        },
    )
    assert found.architectures == ("Eagle3DraftModel", "eagle3")
    assert (found.hidden_size, found.target_layers) == (4096, (2, 18, 33))


def test_a_block_draft_says_its_block_and_layers() -> None:
    found = parse("x", {"block_size": 16, "dflash_config": {"target_layer_ids": [1, 9, 17]}})
    assert (found.block_size, found.target_layers) == (16, (1, 9, 17))


def test_what_is_odd_counts_as_not_said() -> None:
    found = parse("x", {"vocab_size": "many", "hidden_size": True, "text_config": [], "dflash_config": 3})
    assert (found.vocabulary, found.hidden_size, found.architectures, found.target_layers) == (
        None,
        None,
        (),
        (),
    )


def test_an_id_is_found_in_the_hugging_face_cache(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--Qwen--Qwen3-8B"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc\n", encoding="utf-8")
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(QWEN), encoding="utf-8")
    for env in ({"HF_HOME": str(tmp_path)}, {"HF_HUB_CACHE": str(tmp_path / "hub")}):
        found = find("Qwen/Qwen3-8B", env)
        assert found is not None
        assert found.layers == 36
    assert find("Qwen/Qwen3-4B", {"HF_HOME": str(tmp_path)}) is None
    assert find("Qwen/Qwen3-8B", {"HOME": str(tmp_path)}) is None
    (snapshot / "config.json").unlink()
    assert find("Qwen/Qwen3-8B", {"HF_HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("\ud83d".encode("utf-8", "surrogatepass"), "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is not JSON"),
        ("[]", "holds no object"),
        ("null", "holds no object"),
    ],
)
def test_a_folder_without_a_usable_config_is_refused(
    tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnreadableCheckpointError, match=message):
        find(str(tmp_path), {})


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpointError, match="there is no folder"):
        find(str(tmp_path / "no"), {})


def test_a_config_that_is_no_file_or_no_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder" / "config.json").mkdir(parents=True)
    os.mkfifo(tmp_path / "config.json")
    for folder in (tmp_path / "folder", tmp_path):
        with pytest.raises(UnreadableCheckpointError, match="is no file"):
            find(str(folder), {})
    large = tmp_path / "large"
    large.mkdir()
    with (large / "config.json").open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(UnreadableCheckpointError, match="is larger than a config is"):
        find(str(large), {})


@pytest.mark.parametrize(
    "name", ["./a\0b", "~nobody-of-that-name", "./" + "a" * 5000, "a" * 5000, "/dev/null/x", "../\ud83d"]
)
def test_a_name_that_no_file_system_takes_is_refused(name: str) -> None:
    with pytest.raises(UnreadableCheckpointError):
        find(name, {})


@pytest.mark.parametrize("name", ["a\0b/c", "s3://bucket/a", "acme/model"])
def test_a_name_that_no_cache_holds_is_not_here(tmp_path: Path, name: str) -> None:
    assert find(name, {"HF_HOME": str(tmp_path)}) is None


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = (
    "architectures", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "kv_lora_rank", "max_position_embeddings", "num_nextn_predict_layers", "block_size", "dflash_config", "text_config",
    "transformer_layer_config", "speculators_model_type", "target_layer_ids", "rope_scaling", "rope_parameters",
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=8))
def test_no_config_is_too_odd(config: dict[str, Any]) -> None:
    found = parse("x", config)
    assert all(isinstance(one, str) for one in (*found.architectures, *found.odd))
    assert all(type(one) is int for one in found.target_layers)
