"""What a checkpoint says of its model in config.json, in the terms on which draft and target must agree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnreadableCheckpointError(ValueError):
    """A folder was named that holds no usable config.json; the text says why."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One model; None where its config does not say.

    Attributes:
        name: As it was asked for.
        layers: Transformer layers.
        heads: Attention heads.
        positions: Longest context it was made for, tokens.
        mtp_layers: Layers of multi-token prediction.
        draft_heads: Medusa heads.
        block_size: Tokens of a DFlash or DSpark block.
        target_layers: Layers of the target whose hidden states it reads, from 0.
        target_hidden_size: Width of the target it was made for.
    """

    name: str
    architectures: tuple[str, ...]
    vocabulary: int | None = None
    hidden_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    positions: int | None = None
    mtp_layers: int | None = None
    draft_heads: int | None = None
    block_size: int | None = None
    target_layers: tuple[int, ...] = ()
    target_hidden_size: int | None = None


def find(name: str, env: Mapping[str, str]) -> Checkpoint | None:
    """Read a checkpoint that is on this machine: a folder, or a Hugging Face id in its cache.

    Args:
        name: Folder or id.
        env: Where ``HF_HUB_CACHE``, ``HF_HOME`` and ``HOME`` say where that cache is.

    Returns:
        The checkpoint; None for an id that is not in the cache.

    Raises:
        UnreadableCheckpointError: The name is a path, or is in the cache, but there is nothing to read.
    """
    if is_path(name):
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise UnreadableCheckpointError(f"there is no folder {name}")
        return _read(name, folder)
    snapshot = _cached(name, env)
    return None if snapshot is None else _read(name, snapshot)


def is_path(name: str) -> bool:
    """Whether a model is named by its folder, not by its id."""
    return name.startswith(("/", "./", "../", "~")) or name.count("/") > 1


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    folder = Path(env.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    main = folder / "refs" / "main"
    try:
        return folder / "snapshots" / main.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _read(name: str, folder: Path) -> Checkpoint:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableCheckpointError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise UnreadableCheckpointError(f"{path} is not JSON") from None
    if not isinstance(config, dict):
        raise UnreadableCheckpointError(f"{path} holds no object")
    return parse(name, config)


def parse(name: str, config: Mapping[str, Any]) -> Checkpoint:
    """Read a config as Transformers or the speculators library writes it; what is odd counts as not said."""
    # Multi-modal models keep the language model's numbers one level down, speculators their draft's.
    inner: Mapping[str, Any] = next(
        (
            config[key]
            for key in ("text_config", "transformer_layer_config")
            if isinstance(config.get(key), dict)
        ),
        {},
    )
    nested = config.get("dflash_config")
    places = (config, inner, nested if isinstance(nested, dict) else {})

    def number(*keys: str) -> int | None:
        found = (place.get(key) for key in keys for place in places)
        return next((one for one in found if isinstance(one, int) and not isinstance(one, bool)), None)

    def numbers(*keys: str) -> tuple[int, ...]:
        found = (place.get(key) for key in keys for place in places)
        listed = next((one for one in found if isinstance(one, list)), [])
        return tuple(one for one in listed if isinstance(one, int))

    architectures = config.get("architectures") or inner.get("architectures") or ()
    kind = config.get("speculators_model_type")
    return Checkpoint(
        name=name,
        architectures=tuple(map(str, architectures)) + ((str(kind),) if kind else ()),
        vocabulary=number("vocab_size"),
        hidden_size=number("hidden_size"),
        layers=number("num_hidden_layers"),
        heads=number("num_attention_heads"),
        positions=number("max_position_embeddings"),
        mtp_layers=number("num_nextn_predict_layers", "mtp_num_hidden_layers", "n_predict"),
        draft_heads=number("num_heads"),
        block_size=number("block_size", "dspark_block_size"),
        target_layers=numbers(
            "target_layer_ids", "dspark_target_layer_ids", "eagle_aux_hidden_state_layer_ids",
            "aux_hidden_state_layer_ids",
        ),
        target_hidden_size=number("target_hidden_size"),
    )  # fmt: skip
