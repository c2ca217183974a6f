from __future__ import annotations

import pytest

from backends.server_log import cause


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ValueError: No available memory for the cache blocks.", "ValueError: No available memory for the cache blocks."),
        (
            "(EngineCore pid=7) ERROR 12-03 16:00:00 [core.py:708] torch.OutOfMemoryError: HIP out of memory.",
            "torch.OutOfMemoryError: HIP out of memory.",
        ),
        ("api_server.py: error: unrecognized arguments: --max-nun-seqs 4", "error: unrecognized arguments: --max-nun-seqs 4"),
        ("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", None),
        ("Exception: WorkerProc initialization failed. See stack trace for root cause.", None),
        ("INFO 12-03 16:00:00 [core.py:1] loading", None),
        ("ERROR 12-03 16:00:00 [core.py:708] Traceback (most recent call last):", None),
    ],
)  # fmt: skip
def test_a_line_tells_an_error_of_its_own_or_none(line: str, told: str | None) -> None:
    assert cause(line) == told
