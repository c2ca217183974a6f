"""What a checkpoint says of its model in config.json, in the terms on which draft and target must agree."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_LARGEST: Final = 16 << 20
"""Bytes of a config.json; the largest known have some hundred thousand."""
_SHOWN: Final = 30
"""Characters of a value in a message."""
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII)


Item = TypeVar("Item")


class UnreadableCheckpointError(ValueError):
    """A folder was named that holds no usable config.json; the text says why."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One model; None where its config does not say.

    Attributes:
        name: As it was asked for.
        layers: Transformer layers.
        heads: Attention heads.
        kv_heads: Heads of keys and values; None too where they are not spread over GPUs.
        positions: Longest context it was made for, tokens.
        mtp_layers: Layers of multi-token prediction.
        draft_heads: Medusa heads.
        block_size: Tokens of a DFlash or DSpark block.
        target_layers: Layers of the target whose hidden states it reads, from 0.
        target_hidden_size: Width of the target it was made for.
        target_depth: Layers of that.
        odd: What its config holds where something else is expected, in words.
    """

    name: str
    architectures: tuple[str, ...]
    vocabulary: int | None = None
    hidden_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    positions: int | None = None
    mtp_layers: int | None = None
    draft_heads: int | None = None
    block_size: int | None = None
    target_layers: tuple[int, ...] = ()
    target_hidden_size: int | None = None
    target_depth: int | None = None
    odd: tuple[str, ...] = ()


def find(name: str, env: Mapping[str, str]) -> Checkpoint | None:
    """Read a checkpoint that is on this machine: a folder, or a Hugging Face id in its cache.

    Args:
        name: Folder or id.
        env: Where ``HF_HUB_CACHE``, ``HF_HOME`` and ``HOME`` say where that cache is.

    Returns:
        The checkpoint; None for an id that is not in the cache or not yet with its config.json, and for what
        is read otherwise, such as a GGUF file.

    Raises:
        UnreadableCheckpointError: The name is a path, or is in the cache, but there is nothing to read.
    """
    try:
        folder = None if _ELSEWHERE.match(name) else _folder(name, env)
    except UnreadableCheckpointError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        # A zero byte, a name too long for the file system, a user without a home.
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableCheckpointError(f"{name}: {why}") from None
    return None if folder is None else _read(name, folder)


def default_min_p(name: str, env: Mapping[str, str]) -> float | None:
    """The min_p that a checkpoint's generation_config.json gives requests; None where it gives none.

    Args:
        name: Folder or id.
        env: As of :func:`find`.
    """
    try:
        folder = None if _ELSEWHERE.match(name) else _folder(name, env)
        text = None if folder is None else (folder / "generation_config.json").read_bytes()[:_LARGEST]
        given = None if text is None else json.loads(text)
    except (OSError, ValueError, RuntimeError, RecursionError):
        return None
    found = given.get("min_p") if isinstance(given, dict) else None
    return found if isinstance(found, int | float) else None


def _folder(name: str, env: Mapping[str, str]) -> Path | None:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if not is_path(name):
        return _cached(name, env)
    if folder.is_file():  # GGUF: vLLM reads it, and it has no config.json
        return None
    raise UnreadableCheckpointError(f"there is no folder {name}")


def is_path(name: str) -> bool:
    """Whether a model is named by its folder, not by its id."""
    if _ELSEWHERE.match(name):
        return False
    return name.startswith(("/", "./", "../", "~")) or name in {".", ".."} or name.count("/") > 1


def _cached(name: str, env: Mapping[str, str]) -> Path | None:
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    folder = Path(env.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    main = folder / "refs" / "main"
    if not main.is_file():
        return None
    snapshot = folder / "snapshots" / main.read_text(encoding="utf-8").strip()
    # vLLM downloads what a cache lacks.
    return snapshot if (snapshot / "config.json").exists() else None


def _read(name: str, folder: Path) -> Checkpoint:
    path = folder / "config.json"
    try:
        if path.exists() and not path.is_file():
            why = "is no file"
        elif path.stat().st_size > _LARGEST:
            why = "is larger than a config is"
        elif isinstance(config := json.loads(path.read_bytes()), dict):
            return parse(name, config)
        else:
            why = "holds no object"
    except OSError as error:
        raise UnreadableCheckpointError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        why = "is not JSON"
    raise UnreadableCheckpointError(f"{path} {why}")


class _Config:
    """A config as Transformers or the speculators library writes it; what is odd counts as not said."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        nested = (config.get(key) for key in ("text_config", "transformer_layer_config"))
        # Multi-modal models keep the language model's numbers one level down, speculators their draft's.
        inner = next((one for one in nested if isinstance(one, dict)), {})
        own = [one for key in ("dflash_config", "eagle_config") if isinstance(one := config.get(key), dict)]
        self._places = (config, inner, *own)
        self.odd: list[str] = []

    def given(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """What stands under the keys, in their order; null is as if it were left out."""
        return ((key, place[key]) for key in keys for place in self._places if place.get(key) is not None)

    def number(self, *keys: str) -> int | None:
        """The first whole number under the keys."""
        for key, value in self.given(*keys):
            if type(value) is int and value >= 0:
                return value
            self._odd(key, value)
        return None

    def listed(self, kind: type[Item], *keys: str) -> tuple[Item, ...]:
        """The first list under the keys that holds one kind of things."""
        for key, value in self.given(*keys):
            if isinstance(value, list) and all(type(one) is kind for one in value):
                return tuple(value)
            self._odd(key, value)
        return ()

    def _odd(self, key: str, value: object) -> None:
        text = repr(value)
        self.odd.append(f"{key} is {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'}")


def parse(name: str, config: Mapping[str, Any]) -> Checkpoint:
    """What a config.json says."""
    read = _Config(config)
    number = read.number
    kind = config.get("speculators_model_type")
    heads = number("num_attention_heads")
    # With multi-head latent attention there is one latent for all heads.
    kv_heads = None if number("kv_lora_rank") else number("num_key_value_heads") or heads
    return Checkpoint(
        name=name,
        architectures=read.listed(str, "architectures") + ((kind,) if isinstance(kind, str) else ()),
        vocabulary=number("vocab_size"),
        hidden_size=number("hidden_size"),
        layers=number("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        positions=_stretched(
            number("max_position_embeddings"), read.given("rope_scaling", "rope_parameters")
        ),
        mtp_layers=number(
            "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "n_predict"
        ),
        draft_heads=number("num_heads", "medusa_num_heads"),
        block_size=number("block_size", "dspark_block_size"),
        target_layers=read.listed(
            int, "target_layer_ids", "dspark_target_layer_ids", "eagle_aux_hidden_state_layer_ids",
            "aux_hidden_state_layer_ids",
        ),
        target_hidden_size=number("target_hidden_size"),
        target_depth=number("num_target_layers"),
        odd=tuple(dict.fromkeys(read.odd)),
    )  # fmt: skip


def _stretched(positions: int | None, ropes: Iterable[tuple[str, Any]]) -> int | None:
    """The context that rotary embeddings are stretched to, which is what vLLM goes by."""
    for _, rope in ropes:
        factor = rope.get("factor") if isinstance(rope, dict) else None
        if positions and isinstance(factor, int | float) and factor > 1:
            first = rope.get("original_max_position_embeddings")
            own = first if type(first) is int else positions
            return max(positions, int(own * min(factor, _LARGEST)))
    return positions
