from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gateway.cli import workers
from gateway.settings import Settings

if TYPE_CHECKING:
    import pytest


def test_without_memory_to_share_it_says_so_and_starts_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def promised(_workers: int) -> NoReturn:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    begun = []
    monkeypatch.setattr(workers, "Memory", promised)
    settings = Settings(fleet=Path("f"), policy=Path("p"), workers=3, port=0)
    assert workers.Supervisor(settings, lambda worker: begun.append(worker) or 0).run() == 1
    assert caplog.messages == ["no memory for 3 workers to share: Cannot allocate memory"]
    assert begun == []
