from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), ("{", "is not JSON"), ("[]", "holds no object")],
)
def test_a_folder_without_a_usable_config_is_refused(
    tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableCheckpointError, match=message):
        find(str(tmp_path), {})


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpointError, match="there is no folder"):
        find(str(tmp_path / "no"), {})
