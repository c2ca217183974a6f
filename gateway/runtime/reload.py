"""Owner of the configuration in force: loads both files, keeps the last good ones, reloads on change."""

from __future__ import annotations

import logging
import os
from asyncio import Lock, to_thread
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from watchfiles import awatch

from gateway.policy.compile import revision
from gateway.policy.load import Beside, Config, Invalid, Loaded, load, policy_revision
from gateway.policy.problems import Problem
from gateway.runtime.tasks import spawn

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
            return load(
                fleet,
                policy,
                fleet_file=str(files.fleet),
                policy_file=str(files.policy),
                folder=files.policy.parent,
                env=env,
            )
        case _:
            return Invalid(tuple(one for one in texts if isinstance(one, Problem)), ())


class _Marks(NamedTuple):
    """What tells the files from what they were before: revisions, or why they cannot be read."""

    fleet: str | Problem
    policy: str | Problem
    beside: tuple[Beside, ...]

    @classmethod
    def of(cls, texts: tuple[str | Problem, str | Problem], beside: tuple[Beside, ...]) -> _Marks:
        fleet, policy = texts
        return cls(
            revision(fleet) if isinstance(fleet, str) else fleet,
            policy_revision(policy, beside) if isinstance(policy, str) else policy,
            beside,
        )


def _news(
    files: _Files, seen: _Marks, env: Mapping[str, str]
) -> tuple[_Marks, Loaded[Config] | Invalid] | None:
    """What the files say, with their marks; None if that is what they said before."""
    texts = (_read(files.fleet), _read(files.policy))
    beside = tuple(Beside.find(files.policy.parent, one.name)[0] for one in seen.beside)
    if _Marks.of(texts, beside) == seen:
        return None
    loaded = _load(files, texts, env)
    return _Marks.of(texts, loaded.beside), loaded


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
        # Marked by what was loaded, not by what lies there by now: a change since then must not be missed.
        self._seen = _Marks(loaded.value.fleet.revision, loaded.value.policy.revision, loaded.beside)
        self._reloading = Lock()
        self._changed: list[Callable[[Config], None]] = []
        self.config = loaded.value
        self.warnings = loaded.warnings
        self.problems: tuple[Problem, ...] = ()

    def on_change(self, callback: Callable[[Config], None]) -> None:
        """Call this with each new configuration, as soon as it is in force."""
        self._changed.append(callback)

    async def reload(self) -> bool:
        """Read the files again; a mistake in them leaves in force what was. Returns whether all is well.

        Files that say what they said at the last reading are not looked at any further. They are read and
        checked in a thread, one reload after the other, and come into force in the loop.
        """
        async with self._reloading:
            news = await to_thread(_news, self._files, self._seen, os.environ)
            if news is None:
                return not self.problems
            self._seen, loaded = news
            if isinstance(loaded, Invalid):
                self._reject(loaded)
            else:
                self._accept(loaded)
            return isinstance(loaded, Loaded)

    def _reject(self, loaded: Invalid) -> None:
        if loaded.problems != self.problems:
            for problem in loaded.problems:
                _log.error("%s (the last good configuration stays in force)", problem)
        self.problems = loaded.problems

    def _accept(self, loaded: Loaded[Config]) -> None:
        mended = bool(self.problems)
        self.problems = ()
        self.warnings = loaded.warnings
        if loaded.value == self.config:
            if mended:
                _log.info("the files are right again and say what is in force")
            return
        self.config = loaded.value
        _log.info("in force: policy %s, fleet %s", loaded.value.policy.revision, loaded.value.fleet.revision)
        for changed in self._changed:
            changed(loaded.value)

    async def watch(self, stop: Event) -> None:
        """Reload whenever something changes beside the files, until stopped; earlier changes count too.

        Files that the policy names are watched like those two.
        """
        while not stop.is_set():
            folders = self._folders()
            watching = awatch(*folders, watch_filter=None, stop_event=stop, recursive=False)
            async with aclosing(watching) as changes:
                # It begins as soon as the loop below waits, thus when the watch stands: nothing is missed.
                early = spawn(self.reload(), name="reload")
                async for _ in changes:
                    await self.reload()
                    if self._folders() != folders:
                        break
                await early

    def _folders(self) -> set[Path]:
        named = (self._files.policy.parent / one.name for one in self._seen.beside)
        return {folder for path in (*self._files, *named) for folder in _watched(path)}


def _watched(path: Path) -> set[Path]:
    """Folders in which a change can give the path another content.

    Folders are watched, not files: editors replace a file, and a Kubernetes ConfigMap swaps a link. So the
    folder of each link on the way counts too, and for one that is not there the nearest one above it.
    """
    absolute = path.absolute()
    links = (one for one in absolute.parents if one.is_symlink())
    places = {absolute.parent, absolute.resolve().parent, *(link.parent for link in links)}
    return {next(one for one in (place, *place.parents) if one.is_dir()) for place in places}
