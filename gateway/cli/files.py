"""Reading the files that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

import typer

FLEET: Final = Path("fleet.yaml")
POLICY: Final = Path("policy.yaml")
BAD_INPUT: Final = 2
"""Exit code where a command cannot work with what it was given."""


def refuse(message: str) -> NoReturn:
    """Say on stderr what is wrong with the input, and end."""
    typer.echo(message, err=True)
    raise typer.Exit(BAD_INPUT)


def read_text(path: Path) -> str:
    """Content of a text file; the command ends with exit code 2 where it cannot be read."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        refuse(f"{path}: {error.strerror}")
    except UnicodeDecodeError as error:
        refuse(f"{path}: not UTF-8 text, at byte {error.start}")
