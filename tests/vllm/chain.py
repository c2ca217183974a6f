"""The made-up language of the tiny checkpoints: the next token depends on the last one alone.

So a test knows every greedy answer, and every draft's acceptance, without asking a server. Tokens below
:data:`LOOPS_END` go round in loops of 16, which prompt lookup predicts perfectly; those above make one loop of
1,024, in which nothing repeats and prompt lookup never drafts. A draft errs after a quarter of the latter.
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>")
END_OF_TURN: Final = 2
MASK: Final = 3
VOCABULARY: Final = 2048
LOOPS_END: Final = 1024
LOOP: Final = 16

LOOPING: Final = 36
"""A word in a loop of 16 words."""
MULTIBYTE: Final = 4
"""A word in a loop of seven words and nine bytes: the characters below come in pieces."""
UNREPEATED: Final = 1500
"""A word in the long loop."""

_MULTIBYTE_BYTES: Final = "é😀日".encode()
_SYLLABLES: Final = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]


def spellings() -> list[bytes]:
    """What each token id stands for, as UTF-8 or pieces of it; special tokens by their names."""
    words = (f" {first}{second}".encode() for first, second in itertools.product(_SYLLABLES, repeat=2))
    rest = [bytes((byte,)) for byte in range(256) if byte not in _MULTIBYTE_BYTES]
    head = [name.encode() for name in SPECIAL]
    head += itertools.islice(words, LOOP - len(_MULTIBYTE_BYTES))
    head += [bytes((byte,)) for byte in _MULTIBYTE_BYTES]
    head += itertools.islice(words, LOOPS_END - len(rest) - len(head))
    return [*head, *rest, *itertools.islice(words, VOCABULARY - LOOPS_END)]


def successors(*, faulty: bool = False) -> list[int]:
    """The next token by the last one; ``faulty`` gives what a draft believes."""
    first = len(SPECIAL)
    following = [LOOPS_END + token for token in range(first)]
    for token in range(first, LOOPS_END):
        start = first + (token - first) // LOOP * LOOP
        following.append(start + (token - start + 1) % min(LOOP, LOOPS_END - start))
    following += [
        LOOPS_END + (token + 1) % (VOCABULARY - LOOPS_END) for token in range(VOCABULARY - LOOPS_END)
    ]
    if faulty:
        # Faults are spread by a hash: at a fixed distance they could hide behind each step's bonus token.
        faults = (t for t in range(LOOPS_END, VOCABULARY) if zlib.crc32(t.to_bytes(2, "big")) % 4 == 0)
        for wrong, token in enumerate(faults, start=first):
            following[token] = wrong
    return following


def few_faults() -> dict[int, int]:
    """What a draft believes that can only err after so many tokens as its hidden state is wide allows.

    Its 32 faults are the first of the other draft's after :data:`UNREPEATED`.
    """
    believed, right = successors(faulty=True), successors()
    faults = [token for token in range(UNREPEATED, VOCABULARY) if believed[token] != right[token]]
    # It takes one token for another of a loop, a different one each time.
    return {token: len(SPECIAL) + LOOP * number for number, token in enumerate(faults[:32])}


def mostly_right() -> list[int]:
    """The next token by the last one as a draft with :func:`few_faults` believes."""
    right, mistaken = successors(), few_faults()
    return [right[mistaken.get(token, token)] for token in range(VOCABULARY)]


def tokens_after(token: int) -> Iterator[int]:
    """The greedy answer to a prompt that ends in this token, without end."""
    following = successors()
    while True:
        token = following[token]
        yield token


def text(tokens: list[int]) -> str:
    """What these tokens spell."""
    spelling = spellings()
    return b"".join(spelling[token] for token in tokens).decode(errors="replace")


def answer(token: int, length: int) -> str:
    """The text of a greedy answer of so many tokens to a prompt that ends in this token."""
    return text(list(itertools.islice(tokens_after(token), length)))


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a drafting model brings to one greedy answer."""

    steps: int
    drafted: int
    accepted: int
    histogram: tuple[int, ...]


def acceptance(
    token: int,
    length: int,
    draft_tokens: int,
    *,
    believed: Sequence[int] | None = None,
    depth: int | None = None,
) -> Acceptance:
    """Acceptance of a draft over an answer of so many tokens.

    Args:
        token: Last token of the prompt.
        length: ``max_tokens`` of the request.
        draft_tokens: N.
        believed: The next token by the last one as the draft sees it; the faulty one's if left out.
        depth: Tokens of a draft that can be right at most; N if left out.
    """
    right = successors()
    believed = successors(faulty=True) if believed is None else believed
    depth = draft_tokens if depth is None else depth
    histogram = [0] * (draft_tokens + 1)
    token, written = right[token], 1  # the prefill's own token comes without a draft
    while written < length:
        accepted, draft = 0, token
        while accepted < depth and believed[draft] == right[draft]:
            draft = right[draft]
            accepted += 1
        histogram[accepted] += 1
        token = right[draft]
        written += accepted + 1
    steps = sum(histogram)
    accepted = sum(count * times for count, times in enumerate(histogram))
    return Acceptance(steps, steps * draft_tokens, accepted, tuple(histogram))
