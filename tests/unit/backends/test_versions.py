from __future__ import annotations

import pytest

from backends.versions import at_least, release


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.29.0", (0, 29, 0)),
        ("v0.32.0", (0, 32, 0)),
        ("0.23.1rc1.dev1120+g0f0f28b53", (0, 23, 1)),
        ("0.9", (0, 9, 0)),
        ("dev", None),
    ],
)
def test_a_version_is_read(version: str, numbers: tuple[int, int, int] | None) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("version", "wanted", "enough"),
    [
        ("0.32.0", "0.29.0", True),
        ("0.9.2", "0.29.0", False),
        ("0.29.0", "0.29.0", True),
        ("dev", "0.29.0", True),
    ],
)
def test_versions_are_compared_by_number(version: str, wanted: str, enough: bool) -> None:
    assert at_least(version, wanted) is enough
