"""Keeps what tests see of real servers in backends/evidence, where the documentation is made from it."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import backends

if TYPE_CHECKING:
    from collections.abc import Mapping

CPU: Final = Path(backends.__file__).parent / "evidence" / "cpu.json"


def keep(version: str, *, runs: Mapping[str, Any] = {}, parameters: Mapping[str, Any] = {}) -> None:
    """Write what was seen on the CPU build, if SPECROUTE_EVIDENCE=write asks for it.

    What another version or another day left is dropped: a file is of one day. The difference is read before it is
    committed.
    """
    if os.environ.get("SPECROUTE_EVIDENCE") != "write":
        return
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    head = {"version": version, "device": "CPU", "date": today, "command": "make test-vllm"}
    found = json.loads(CPU.read_bytes()) if CPU.exists() else {}
    if {key: found.get(key) for key in head} != head:
        found = {**head, "runs": {}, "parameters": {}}
    found["runs"] |= runs
    found["parameters"] |= parameters
    CPU.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
