"""Reading the files that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

if TYPE_CHECKING:
    from gateway.policy.compile import Fleet
    from gateway.policy.load import Config, Invalid, Loaded, Value

FLEET: Final = Path("fleet.yaml")
POLICY: Final = Path("policy.yaml")
BAD_INPUT: Final = 2
"""Exit code where a command cannot work with what it was given."""


def refuse(message: str) -> NoReturn:
    """Say on stderr what is wrong with the input, and end."""
    typer.echo(message, err=True)
    raise typer.Exit(BAD_INPUT)


def read_bytes(path: Path) -> bytes:
    """Content of a file; the command ends with exit code 2 where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        refuse(f"{path}: {error.strerror}")


def read_text(path: Path) -> str:
    """Content of a text file; the command ends with exit code 2 where it cannot be read."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        refuse(f"{path}: not UTF-8 text, at byte {error.start}")


def load_config(fleet: Path, policy: Path) -> Config:
    """Both files as they would be in force; the command ends with exit code 2 where they are not right.

    What works but is probably not meant is said on stderr.
    """
    from gateway.policy.load import load

    texts = read_text(fleet), read_text(policy)
    return _right(load(*texts, fleet_file=str(fleet), policy_file=str(policy), folder=policy.parent))


def load_backends(fleet: Path) -> Fleet:
    """A fleet file by itself; the command ends with exit code 2 where it is not right."""
    from gateway.policy.load import load_fleet

    return _right(load_fleet(read_text(fleet), str(fleet)))


def _right(loaded: Loaded[Value] | Invalid) -> Value:
    from gateway.policy.load import Invalid

    for warning in loaded.warnings:
        typer.echo(str(warning), err=True)
    if isinstance(loaded, Invalid):
        refuse("\n".join(map(str, loaded.problems)))
    return loaded.value
