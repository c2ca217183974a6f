from __future__ import annotations

import pytest

from backends.versions import at_least, may_have, release


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.29.0", (0, 29, 0)),
        ("v0.32.0", (0, 32, 0)),
        ("0.23.1rc1.dev1120+g0f0f28b53", (0, 23, 1)),
        ("0.9", (0, 9, 0)),
        ("0.29.0+rocm720", (0, 29, 0)),
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
        ("0.29.0+rocm720", "0.29.0", True),
        ("0.29.0.post1", "0.29.0", True),
        ("0.29.1rc1.dev4+g123", "0.29.0", True),
        ("0.29.0rc2", "0.29.0", False),
        ("0.23.1rc1.dev12+g123", "0.24.0", False),
    ],
)
def test_versions_are_compared_by_number(version: str, wanted: str, enough: bool) -> None:
    assert at_least(version, wanted) is enough


@pytest.mark.parametrize(
    ("version", "wanted", "perhaps"),
    [
        ("0.23.1rc1.dev12+g123", "0.24.0", True),
        ("0.23.1rc1.dev12+g123", "0.24.1", True),
        ("0.23.1rc1.dev12+g123", "0.25.0", False),
        ("0.23.1rc1.dev12+g123", "0.23.0", False),  # surely: at_least
        ("0.24.0rc1", "0.24.0", True),
        ("0.24.0.dev3", "0.24.0", True),
        ("0.23.0", "0.24.0", False),
        ("0.23.0+rocm720", "0.24.0", False),
        ("dev", "0.24.0", False),
    ],
)
def test_a_development_build_may_have_what_came_with_the_next_release(
    version: str, wanted: str, perhaps: bool
) -> None:
    assert may_have(version, wanted) is perhaps
