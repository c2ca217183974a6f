"""Owner of the configuration in force: loads both files, keeps the last good ones, reloads on change."""

from __future__ import annotations

import logging
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

from watchfiles import awatch

from gateway.policy.load import Config, Invalid, Loaded, load
from gateway.policy.problems import Problem

if TYPE_CHECKING:
    from asyncio import Event
    from collections.abc import Callable, Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)


def load_files(fleet: Path, policy: Path, env: Mapping[str, str]) -> Loaded[Config] | Invalid:
    """Load both files; one that cannot be read is a problem like any other."""
    texts: list[str] = []
    problems: list[Problem] = []
    for path in (fleet, policy):
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except OSError as error:
            problems.append(
                Problem(str(path), 1, 1, "", f"cannot be read: {error.strerror}", "name a file that exists")
            )
        except UnicodeDecodeError as error:
            problems.append(Problem(str(path), 1, 1, "", f"is not UTF-8: {error.reason}", "save it as UTF-8"))
    if problems:
        return Invalid(tuple(problems), ())
    return load(texts[0], texts[1], fleet_file=str(fleet), policy_file=str(policy), env=env)


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
        self._files = (fleet, policy)
        self._changed: list[Callable[[Config], None]] = []
        self._rejected: list[Callable[[], None]] = []
        self.config = loaded.value
        self.warnings = loaded.warnings
        self.problems: tuple[Problem, ...] = ()

    def on_change(self, callback: Callable[[Config], None]) -> None:
        """Call this with each new configuration, as soon as it is in force."""
        self._changed.append(callback)

    def on_reject(self, callback: Callable[[], None]) -> None:
        """Call this each time the files on disk turn out to be bad."""
        self._rejected.append(callback)

    def reload(self) -> bool:
        """Read the files again; a mistake in them leaves in force what was. Returns whether all is well."""
        loaded = load_files(*self._files, os.environ)
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
        """Reload whenever something changes beside the files, until stopped."""
        while not stop.is_set():
            folders = self._folders()
            async with aclosing(awatch(*folders, stop_event=stop, recursive=False)) as changes:
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
