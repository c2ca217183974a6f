"""A stateless tokenizer: text to pieces of a few characters, pieces to ids, ids back to text."""

from __future__ import annotations

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
_PLAIN: Final = len(SPECIAL)
_PAIR: Final = _PLAIN + 128
_SPACES: Final = _PAIR + 128 * 128
_MAX_SPACES: Final = 16
_WORDS: Final = _SPACES + _MAX_SPACES - 1
_SPACED: Final = _SHORTER[_WORD + 1]
_WIDE: Final = _WORDS + 2 * _SPACED
VOCABULARY: Final = _WIDE + 0x110000 - 128
"""Number of ids; the first one out of vocabulary."""

_PIECES: Final = re.compile(
    "|".join(re.escape(token) for token in SPECIAL)
    + rf"| ?[a-z]{{1,{_WORD}}}| {{2,{_MAX_SPACES}}}|[\x00-\x7f]{{1,2}}|[^\x00-\x7f]"
)


def split(text: str) -> list[str]:
    """Cut a text into its pieces; joined they are the text again."""
    return [found[0] for found in _PIECES.finditer(text)]


def count(text: str) -> int:
    """Number of tokens in a text, without keeping them."""
    return sum(1 for _ in _PIECES.finditer(text))


def identify(piece: str) -> int:
    """The id of one piece as made by :func:`split`.

    A lone surrogate, which no UTF-8 can carry, becomes U+FFFD.
    """
    if piece in SPECIAL:
        return SPECIAL.index(piece)
    first = ord(piece[0])
    if first >= 128:
        return _WIDE + (0xFFFD if 0xD800 <= first < 0xE000 else first) - 128
    letters = piece.removeprefix(" ")
    if letters.isalpha() and letters.islower():
        value = 0
        for letter in letters:
            value = value * _LETTERS + ord(letter) - ord("a")
        return _WORDS + (_SPACED if len(letters) < len(piece) else 0) + _SHORTER[len(letters)] + value
    if len(piece) > 1 and not piece.strip(" "):
        return _SPACES + len(piece) - 2
    return _PLAIN + first if len(piece) == 1 else _PAIR + first * 128 + ord(piece[1])


def piece_of(token: int) -> str:
    """The piece with an id.

    Raises:
        ValueError: The id is out of vocabulary.
    """
    if not 0 <= token < VOCABULARY:
        raise ValueError(f"Token id {token} is out of vocabulary")
    if token < _PLAIN:
        return SPECIAL[token]
    if token < _PAIR:
        return chr(token - _PLAIN)
    if token < _SPACES:
        first, second = divmod(token - _PAIR, 128)
        return chr(first) + chr(second)
    if token < _WORDS:
        return " " * (token - _SPACES + 2)
    if token >= _WIDE:
        point = token - _WIDE + 128
        return "\ufffd" if 0xD800 <= point < 0xE000 else chr(point)
    spaced, rest = divmod(token - _WORDS, _SPACED)
    length = next(k for k in range(_WORD, 0, -1) if rest >= _SHORTER[k])
    rest -= _SHORTER[length]
    letters = ""
    for _ in range(length):
        rest, letter = divmod(rest, _LETTERS)
        letters = chr(ord("a") + letter) + letters
    return " " * spaced + letters


def encode(text: str) -> list[int]:
    """Ids of a text."""
    return [identify(piece) for piece in split(text)]


def decode(tokens: Iterable[int]) -> str:
    """Text of ids.

    Raises:
        ValueError: An id is out of vocabulary.
    """
    return "".join(map(piece_of, tokens))


def render(messages: Sequence[tuple[str, str]]) -> str:
    """The prompt of a conversation: each turn between its marks, then the start of the answer's."""
    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{turns}<|im_start|>assistant\n"
