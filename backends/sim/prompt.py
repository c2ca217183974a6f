"""What a request wants an answer to: text, and the ids of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backends.sim import tokens
from backends.sim.fields import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

ANSWER: Final = "<|im_start|>assistant\n"
"""What a conversation ends with: the answer begins here."""
_USER: Final = "<|im_start|>user\n"
_END: Final = tokens.SPECIAL[tokens.END_OF_TURN]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    Attributes:
        text: As well-formed Unicode.
        count: Its tokens.
        given: Its ids, where it came as ids.
    """

    text: str
    count: int
    given: tuple[int, ...] | None = None

    @classmethod
    def read(cls, prompt: str | tuple[int, ...]) -> Prompt:
        """A prompt from text or ids.

        Raises:
            RefusalError: An id is out of vocabulary, there is none, or a text is not well-formed.
        """
        if isinstance(prompt, str):
            if tokens.well_formed(prompt) != prompt:
                text = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
                raise RefusalError(text)
            return cls(prompt, tokens.count(prompt))
        if not prompt:
            raise RefusalError("The decoder prompt cannot be empty")
        try:
            return cls(tokens.decode(prompt), len(prompt), prompt)
        except ValueError as error:
            raise RefusalError(str(error)) from None

    def ids(self) -> Sequence[int]:
        """Ids of its tokens."""
        return tokens.encode(self.text) if self.given is None else self.given


def render(messages: Sequence[tuple[str, str]]) -> str:
    """The prompt of a conversation: each turn between its marks, then the start of the answer's."""
    turns = "".join(f"<|im_start|>{role}\n{text}{_END}\n" for role, text in messages)
    return turns + ANSWER


def asked(text: str) -> str:
    """The last user turn of a rendered conversation; a text that is none, or has no such turn, itself."""
    _, mark, rest = text.rpartition(_USER)
    turn, end, _ = rest.partition(_END)
    return turn if mark and turn and end else text
