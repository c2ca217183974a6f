"""Owner of the configuration in force: loads both files, keeps the last good ones, reloads on change."""

from __future__ import annotations

import logging
import os
from asyncio import get_running_loop
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from watchfiles import awatch

from gateway.policy.compile import revision
from gateway.policy.load import Config, Invalid, Loaded, load
from gateway.policy.problems import Problem

if TYPE_CHECKING:
    from asyncio import Event
    from collections.abc import Callable, Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)


def load_files(fleet: Path, policy: Path, env: Mapping[str, str]) -> Loaded[Config] | Invalid:
    """Load both files; one that cannot be read is a problem like any other."""
    return _load(_Files(fleet, policy), (_read(fleet), _read(policy)), env)


class _Files(NamedTuple):
    fleet: Path
    policy: Path


def _read(path: Path) -> str | Problem:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        return Problem(str(path), 1, 1, "", f"cannot be read: {error.strerror}", "name a file that exists")
    except UnicodeDecodeError as error:
        return Problem(str(path), 1, 1, "", f"is not UTF-8: {error.reason}", "save it as UTF-8")


def _load(
    files: _Files, texts: tuple[str | Problem, str | Problem], env: Mapping[str, str]
) -> Loaded[Config] | Invalid:
    match texts:
        case str(fleet), str(policy):
            return load(fleet, policy, fleet_file=str(files.fleet), policy_file=str(files.policy), env=env)
        case _:
            return Invalid(tuple(one for one in texts if isinstance(one, Problem)), ())


def _mark(text: str | Problem) -> str | Problem:
    """What tells a text from another one."""
    return revision(text) if isinstance(text, str) else text


class Configuration:
    """What is in force.

    Attributes:
        config: Fleet and policy in force.
        warnings: What the files in force are warned of.
        problems: Why the files on disk are not in force; empty when they are.
    """

    def __init__(self, fleet: Path, policy: Path, loaded: Loaded[Config]) -> None:
        """Keep a configuration and the files it came from.

        Args:
            fleet: The fleet file.
            policy: The policy file.
            loaded: What they said at the start.
        """
        self._files = _Files(fleet, policy)
        self._seen: tuple[str | Problem, ...] = (loaded.value.fleet.revision, loaded.value.policy.revision)
        self._changed: list[Callable[[Config], None]] = []
        self._rejected: list[Callable[[], None]] = []
        self.config = loaded.value
        self.warnings = loaded.warnings
        self.problems: tuple[Problem, ...] = ()

    def on_change(self, callback: Callable[[Config], None]) -> None:
        """Call this with each new configuration, as soon as it is in force."""
        self._changed.append(callback)

    def on_reject(self, callback: Callable[[], None]) -> None:
        """Call this each time other files are found on disk and are bad."""
        self._rejected.append(callback)

    def reload(self) -> bool:
        """Read the files again; a mistake in them leaves in force what was. Returns whether all is well.

        Files that say what they said at the last reading are not looked at any further.
        """
        texts = (_read(self._files.fleet), _read(self._files.policy))
        seen = (_mark(texts[0]), _mark(texts[1]))
        if seen == self._seen:
            return not self.problems
        self._seen = seen
        loaded = _load(self._files, texts, os.environ)
        if isinstance(loaded, Invalid):
            if loaded.problems != self.problems:
                for problem in loaded.problems:
                    _log.error("%s (the last good configuration stays in force)", problem)
            self.problems = loaded.problems
            for rejected in self._rejected:
                rejected()
            return False
        self.problems = ()
        self.warnings = loaded.warnings
        if loaded.value != self.config:
            self.config = loaded.value
            _log.info(
                "in force: policy %s, fleet %s", loaded.value.policy.revision, loaded.value.fleet.revision
            )
            for changed in self._changed:
                changed(loaded.value)
        return True

    async def watch(self, stop: Event) -> None:
        """Reload whenever something changes beside the files, until stopped; earlier changes count too."""
        while not stop.is_set():
            folders = self._folders()
            watching = awatch(*folders, watch_filter=None, stop_event=stop, recursive=False)
            async with aclosing(watching) as changes:
                # This runs as soon as the loop below waits, thus when the watch stands: nothing is missed.
                get_running_loop().call_soon(self.reload)
                async for _ in changes:
                    self.reload()
                    if self._folders() != folders:
                        break

    def _folders(self) -> set[Path]:
        return {folder for path in self._files for folder in _watched(path)}


def _watched(path: Path) -> set[Path]:
    """Folders in which a change can give the path another content.

    Folders are watched, not files: editors replace a file, and a Kubernetes ConfigMap swaps a link. So the
    folder of each link on the way counts too, and for one that is not there the nearest one above it.
    """
    absolute = path.absolute()
    links = (one for one in absolute.parents if one.is_symlink())
    places = {absolute.parent, absolute.resolve().parent, *(link.parent for link in links)}
    return {next(one for one in (place, *place.parents) if one.is_dir()) for place in places}
