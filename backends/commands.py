"""What is run for a server of a fleet, and what happens to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Command:
    """What is run for one server.

    Attributes:
        name: Of the server.
        argv: The command line.
        env: The whole environment.
        url: Where it answers once it is ready.
        served_model: What it then lists as a model.
        log: File that its output is appended to.
        key: Its API key; empty for none.
        certificate: File of its certificate, where its URL is ``https``; empty if an authority's is known.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    url: str
    served_model: str
    log: Path
    key: str = field(default="", repr=False)
    certificate: str = ""


class Event(StrEnum):
    """What happens to a server."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """It ended or fell silent before it was ever ready: not tried again."""
    ENDED = "ended"
    """It was ready once; it is started again after a while."""
    STOPPED = "stopped"
    UNLOGGED = "not logged"
    """Its output is no longer written into its log; it runs on."""
