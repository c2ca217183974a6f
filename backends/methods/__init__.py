"""What is known of each speculative decoding method: how it is configured, and what it can and cannot do."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from backends.data_files import Data, read_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Scalar = bool | int | float | str
Platform = Literal["rocm", "cuda", "cpu"]

COMMON_KEYS: Final = (
    "attention_backend", "moe_backend", "kv_cache_dtype", "quantization", "max_model_len", "revision",
    "code_revision", "draft_tensor_parallel_size", "rejection_sample_method", "enforce_eager",
    "use_local_argmax_reduction", "draft_load_config", "num_speculative_tokens_per_batch_size",
)  # fmt: skip
"""Keys of ``--speculative-config`` that every method takes, besides those that the spec writes itself."""

OWN_KEYS: Final = ("method", "model", "num_speculative_tokens")
"""Keys of ``--speculative-config`` that are written from the backend's own fields."""


class Rule(StrEnum):
    """Which numbers of draft tokens are legal."""

    NONE = "none"
    ANY = "any"
    MULTIPLE = "multiple"
    """Up to the number of layers, or a multiple of it."""
    HEADS = "heads"
    """One token a head."""
    BELOW_BLOCK = "below_block"
    """At most the block less its anchor."""
    WITHIN_BLOCK = "within_block"


class DraftTokens(Data):
    """N: which are legal, where to begin, which to sweep.

    Attributes:
        most: More than this was never of use anywhere, as far as is known.
    """

    rule: Rule
    default: int = 0
    sweep: tuple[int, ...] = ()
    most: int = 0


class Since(Data):
    """The earliest version of vLLM known to have it, and how that is known."""

    version: str
    evidence: str


class Support(Data):
    """How it fares on one platform."""

    runs: bool = True
    since: str | None = None
    note: str = ""


class Draft(Data):
    """Published drafts whose block is known without their checkpoint.

    Attributes:
        draft: Pattern of their ids.
        source: How the size is known.
    """

    draft: str
    block_size: int
    source: str


class Adaptive(Data):
    """Adaptive verification.

    Attributes:
        since: The first version that has it.
        refuses: Request parameters that versions before ``until`` answer with an error where it is on.
        until: The first version seen to take them.
    """

    since: str
    refuses: tuple[str, ...] = ()
    until: str = ""


class Needs(Data):
    """A package that vLLM does not bring."""

    module: str
    package: str


class Attention(Data):
    """An attention backend that draft and target must use together for some targets.

    Attributes:
        target: Pattern of the target's id or of its architecture, in small letters.
    """

    target: str
    platform: Platform
    backend: str


class Method(Data):
    """One method.

    Attributes:
        engine: What ``--speculative-config`` calls it; None without speculation.
        draft: Where the draft comes from: ``none`` (needs no weights), ``built_in`` or ``separate``.
        draft_architectures: Patterns of the ``architectures`` of its drafts; empty where any will do.
        bare_architectures: Further ones that vLLM reads as its drafts, though their names do not say so.
        target_architectures: The same as of drafts for targets.
        target_holds_draft: Patterns of ids of targets whose checkpoints hold such a draft.
        drafts: Published drafts; the first whose pattern fits counts.
        speculative: What ``--speculative-config`` holds if nothing else is said.
        keys: Keys of ``--speculative-config`` that it takes besides the common ones.
        schedule: Whether vLLM is tested with an N that follows the batch size.
        adaptive: Adaptive verification; None where it has none.
        alias: A name of it alone that vLLM lists, where ``engine`` is that of others too.
        model_runner: The generation of vLLM's model runner that it needs; None where any will do.
        refuses: Request parameters that a server with it answers with 400.
        faults: What to know before using it.
    """

    name: str
    title: str
    about: str
    engine: str | None
    draft: Literal["none", "built_in", "separate"]
    draft_architectures: tuple[str, ...] = ()
    bare_architectures: tuple[str, ...] = ()
    target_architectures: tuple[str, ...] = ()
    target_holds_draft: tuple[str, ...] = ()
    drafts: tuple[Draft, ...] = ()
    draft_tokens: DraftTokens
    speculative: dict[str, Scalar] = Field(default_factory=dict)
    keys: tuple[str, ...] = ()
    since: Since
    schedule: bool = False
    adaptive: Adaptive | None = None
    alias: str | None = None
    model_runner: Literal[1, 2] | None = None
    needs: Needs | None = None
    refuses: tuple[str, ...]
    platforms: dict[Platform, Support]
    attention: tuple[Attention, ...] = ()
    faults: tuple[str, ...]

    def holds_draft(self, target: str) -> bool:
        """Whether the checkpoint of a target holds a draft of the method, as far as its id tells."""
        return any(fnmatchcase(target.lower(), one) for one in self.target_holds_draft)

    def block_size(self, draft: str) -> int | None:
        """Block size of a published draft; None where it is not known."""
        fitting = (one.block_size for one in self.drafts if fnmatchcase(draft.lower(), one.draft))
        return next(fitting, None)

    def attention_backend(self, names: Iterable[str], platform: Platform) -> str | None:
        """The attention backend that a target needs on a platform, if it needs a certain one.

        Args:
            names: Its id, and its architectures where they are known.
            platform: What it runs on.
        """
        known = [name.lower() for name in names]
        for one in self.attention:
            if one.platform == platform and any(fnmatchcase(name, one.target) for name in known):
                return one.backend
        return None


@cache
def methods() -> Mapping[str, Method]:
    """All methods by name."""
    return MappingProxyType(dict(read_folder("methods", Method)))
