"""Log probabilities for made-up tokens: the same token always has the same ones."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_OTHERS: Final = (
    " the", " a", " of", ",", " and", " to", ".", "\n", " in", " is", " it", " that", " for", " so", " we",
    " be", " as", " on", " with", " by", " at",
)  # fmt: skip


def chat(pieces: Sequence[str], top: int) -> dict[str, Any]:
    """``choices[].logprobs`` of a chat completion, for the tokens given.

    Args:
        pieces: Text of each token.
        top: Alternatives to list, the token itself first; 0 for none.
    """
    content = []
    for piece in pieces:
        ranked = _ranked(piece, top)
        own = _entry(*ranked[0])
        content.append(own | {"top_logprobs": [_entry(*pair) for pair in ranked[:top]]})
    return {"content": content}


def text(pieces: Sequence[str], top: int, offset: int, *, echo: bool = False) -> dict[str, Any]:
    """``choices[].logprobs`` of a text completion, for the tokens given.

    Args:
        pieces: Text of each token.
        top: Alternatives to list beside the token itself.
        offset: Characters before these tokens.
        echo: Whether the prompt is said first: its first token has no probability.
    """
    offsets = []
    for piece in pieces:
        offsets.append(offset)
        offset += len(piece)
    ranked = [_ranked(piece, top + 1) for piece in pieces]
    own: list[float | None] = [pairs[0][1] for pairs in ranked]
    others: list[dict[str, float] | None] = [dict(pairs) for pairs in ranked]
    if echo and offsets[:1] == [0]:
        own[0] = others[0] = None
    return {
        "text_offset": offsets,
        "token_logprobs": own,
        "tokens": list(pieces),
        "top_logprobs": others,
    }


def _ranked(piece: str, number: int) -> list[tuple[str, float]]:
    """The token and its nearest alternatives, the likeliest first."""
    own = -0.01 - zlib.crc32(piece.encode("utf-8", "replace")) % 1000 / 2000
    others = [other for other in _OTHERS if other != piece][: max(0, number - 1)]
    return [(piece, own)] + [(other, own - 1.5 - 0.25 * rank) for rank, other in enumerate(others)]


def _entry(piece: str, logprob: float) -> dict[str, Any]:
    return {"token": piece, "logprob": logprob, "bytes": list(piece.encode("utf-8", "replace"))}
