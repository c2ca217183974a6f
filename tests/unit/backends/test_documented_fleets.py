"""The fleets that the documentation begins with are ones that can be started as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from backends.fleet_file import read_fleet
from backends.machine import Machine
from backends.preflight import preflight
from gateway.policy.load import Invalid

ROOT: Final = Path(__file__).parents[3]
_BLOCK: Final = re.compile(r"```yaml\n((?:# fleet\.yaml\n)?version: 1\nbackends:\n.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/methods.md"])
@pytest.mark.parametrize("platform", ["rocm", "cuda", "cpu"])
def test_nothing_is_wrong_with_it(page: str, platform: str) -> None:
    fleets = _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert fleets
    for text in fleets:
        specs = read_fleet(text, page)
        assert not isinstance(specs, Invalid), specs.problems
        assert [str(one) for one in preflight(specs, Machine(platform)) if not one.unchecked] == []  # type: ignore[arg-type]
