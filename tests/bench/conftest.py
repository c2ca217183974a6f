"""Benchmarks of single functions run when they are asked for: beside other tests their figures say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent
BENCHMARKS = {"test_decide.py", "test_telemetry.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave them out unless an argument names this folder or something in it."""
    if collection_path.name not in BENCHMARKS:
        return None
    named = (Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args)
    return None if any(path.resolve().is_relative_to(HERE) for path in named) else True
