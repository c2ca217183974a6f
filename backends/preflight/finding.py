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
    """

    server: str
    wrong: str
    right: str
    warning: bool = False

    def __str__(self) -> str:
        """One line."""
        return f"{self.server}: {'warning: ' if self.warning else ''}{self.wrong}; {self.right}"

    def as_json(self) -> dict[str, object]:
        """The fields by name, for JSON."""
        return asdict(self)
