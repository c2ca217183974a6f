"""A stateless byte-level tokenizer: text to ids of a few characters each, ids back to text."""

from __future__ import annotations

import codecs
import functools
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TURN: Final = 2
"""Id of the token that ends an answer."""

_LETTERS: Final = 26
_WORD: Final = 4  # letters in a word piece at most: all of them have an id, so no table is needed
_SHORTER: Final[tuple[int, ...]] = tuple(
    sum(_LETTERS**k for k in range(1, length)) for length in range(_WORD + 2)
)
_BYTES: Final = len(SPECIAL)
_PAIR: Final = _BYTES + 256
_SPACES: Final = _PAIR + 128 * 128
_MAX_SPACES: Final = 16
LONGEST: Final = _MAX_SPACES
"""Characters of a token at most."""
_WORDS: Final = _SPACES + _MAX_SPACES - 1
_SPACED: Final = _SHORTER[_WORD + 1]
_WIDE: Final = _WORDS + 2 * _SPACED
VOCABULARY: Final = _WIDE + 0x10000 - 128
"""Number of ids; the first one out of vocabulary."""

_PIECES: Final = re.compile(
    "|".join(re.escape(token) for token in SPECIAL)
    + rf"| ?[a-z]{{1,{_WORD}}}| {{2,{_MAX_SPACES}}}|[\x00-\x7f]{{1,2}}|[^\x00-\x7f]"
)
_SPLIT: Final = [*range(0x1EA1, 0x1F00, 8), *range(0x3000, 0xD800, 8)]
"""Characters of three bytes that are three tokens: some letters of Vietnamese, Chinese, Japanese, Korean."""
_THREE_BYTES: Final = re.compile(f"[{''.join(map(chr, _SPLIT))}]")
_FOUR_BYTES: Final = re.compile("[\U00010000-\U0010ffff]")
_CHARACTER: Final = 4  # bytes of one at most
_CACHED: Final = 1 << 16  # pieces: more than texts have, and few megabytes
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """A text with U+FFFD for every lone surrogate, which no UTF-8 can carry."""
    return _SURROGATE.sub("\ufffd", text)


def encode(text: str) -> list[int]:
    """Ids of a well-formed text; :func:`decode` makes the same text of them."""
    return [token for found in _PIECES.finditer(text) for token in _identify(found[0])]


def count(text: str) -> int:
    """Number of tokens in a text, without keeping them."""
    number = sum(1 for _ in _PIECES.finditer(text))
    if text.isascii():
        return number
    return number + 2 * len(_THREE_BYTES.findall(text)) + 3 * len(_FOUR_BYTES.findall(text))


@functools.lru_cache(_CACHED)
def _identify(piece: str) -> Sequence[int]:
    """The id of a piece, or the ids of its bytes."""
    if _FOUR_BYTES.match(piece) or _THREE_BYTES.match(piece):
        return [_BYTES + byte for byte in piece.encode()]
    if piece in SPECIAL:
        return (SPECIAL.index(piece),)
    first = ord(piece[0])
    if first >= 128:
        return (_WIDE + first - 128,)
    letters = piece.removeprefix(" ")
    if letters.isalpha() and letters.islower():
        value = 0
        for letter in letters:
            value = value * _LETTERS + ord(letter) - ord("a")
        return (_WORDS + (_SPACED if len(letters) < len(piece) else 0) + _SHORTER[len(letters)] + value,)
    if len(piece) > 1 and not piece.strip(" "):
        return (_SPACES + len(piece) - 2,)
    return (_BYTES + first if len(piece) == 1 else _PAIR + first * 128 + ord(piece[1]),)


@functools.lru_cache(_CACHED)
def spelling(token: int) -> bytes:
    """What a token stands for: UTF-8, or a byte of it.

    Raises:
        ValueError: The id is out of vocabulary.
    """
    if not 0 <= token < VOCABULARY:
        raise ValueError(f"Token id {token} is out of vocabulary")
    if token < _BYTES:
        return SPECIAL[token].encode()
    if token < _PAIR:
        return bytes((token - _BYTES,))
    if token < _SPACES:
        return bytes(divmod(token - _PAIR, 128))
    if token < _WORDS:
        return b" " * (token - _SPACES + 2)
    if token >= _WIDE:
        return well_formed(chr(token - _WIDE + 128)).encode()
    spaced, rest = divmod(token - _WORDS, _SPACED)
    length = next(k for k in range(_WORD, 0, -1) if rest >= _SHORTER[k])
    rest -= _SHORTER[length]
    letters = b""
    for _ in range(length):
        rest, letter = divmod(rest, _LETTERS)
        letters = bytes((ord("a") + letter,)) + letters
    return b" " * spaced + letters


def decode(tokens: Iterable[int]) -> str:
    """Text of ids, with U+FFFD for bytes that are none.

    Raises:
        ValueError: An id is out of vocabulary.
    """
    return b"".join(map(spelling, tokens)).decode(errors="replace")


def pieces(tokens: Iterable[int], before: Sequence[int] = ()) -> list[str]:
    """What each of some tokens adds to the text, as vLLM tells it.

    The bytes of an incomplete character add nothing until the last of them comes; what never becomes one
    is left out. If the tokens before end within a character, the first text is everything from their very
    start, special tokens left out: vLLM 0.32 does that to an answer that it goes on with there.

    Args:
        tokens: The tokens to tell.
        before: The tokens they follow.

    Raises:
        ValueError: An id is out of vocabulary.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start = ""
    if decode(before[-_CHARACTER:]).endswith("\ufffd"):
        start = decoder.decode(b"".join(spelling(token) for token in before if token >= _BYTES))
    found = []
    for token in tokens:
        piece = decoder.decode(spelling(token))
        found.append(start + piece if piece else "")
        start = "" if piece else start
    return found
