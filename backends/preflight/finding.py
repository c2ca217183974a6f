"""What a check before a launch found: which server, what is wrong, what would be right."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found.

    Attributes:
        server: Name of the server.
        wrong: What is wrong, in words.
        right: What would be right; an instruction.
        warning: The server can be started all the same.
        unchecked: A warning of another kind: something could not be looked at.
    """

    server: str
    wrong: str
    right: str
    warning: bool = False
    unchecked: bool = False

    def __str__(self) -> str:
        """One line, whatever the values in it hold."""
        kind = "not checked: " if self.unchecked else "warning: " if self.warning else ""
        return _plain(f"{self.server}: {kind}{self.wrong}; {self.right}")

    def as_json(self) -> dict[str, object]:
        """The fields by name, for JSON."""
        return asdict(self)


def _plain(text: str) -> str:
    """Text without what would move the cursor, begin a line or turn the direction of writing."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def unchecked(server: str, wrong: str, right: str) -> Finding:
    """Something that could not be looked at, and what would let it be."""
    return Finding(server, wrong, right, warning=True, unchecked=True)
