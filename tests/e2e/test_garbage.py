"""A request leaves nothing behind that only a garbage collection ends: those took a tenth of all time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["answer", "stream"])
def test_a_request_leaves_no_circles(tmp_path, kind):
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "tests.e2e.circles", tmp_path, kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
