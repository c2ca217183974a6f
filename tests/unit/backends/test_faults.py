from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backends import faults

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("processor\t: 0\nflags\t\t: fpu amx_tile\n\nprocessor\t: 1\nflags\t\t: fpu\n", {"fpu", "amx_tile"}),
        ("processor\t: 0\nFeatures\t: fp asimd\n", set()),
        ("", set()),
    ],
)
def test_a_processor_is_asked_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, found: set[str]
) -> None:
    monkeypatch.setattr(faults, "CPU_INFO", tmp_path / "cpuinfo")
    assert faults.features() == frozenset()
    (tmp_path / "cpuinfo").write_text(shown, encoding="utf-8")
    assert faults.features() == found
