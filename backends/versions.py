"""Compares versions of vLLM as they are printed: 0.29.0, 0.23.1rc1.dev1120+g0f0f28b53, v0.32.0."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def parse(version: str) -> Version | None:
    """A version; None where the text is none."""
    try:
        return Version(version)
    except InvalidVersion:
        return None


def release(version: str) -> tuple[int, int, int] | None:
    """Major, minor and patch; None where the text is no version."""
    found = parse(version)
    return None if found is None else (found.major, found.minor, found.micro)


def at_least(version: str, wanted: str) -> bool:
    """Whether a version surely has what came with a release. One that cannot be read counts as new."""
    have, need = parse(version), parse(wanted)
    return have is None or need is None or have >= need


def may_have(version: str, wanted: str) -> bool:
    """Whether a development build may have what came with a release, though its number comes before it.

    0.23.1rc1.dev1120 is built from what became 0.24: it is named after the release before, so its number
    tells only that it cannot have what came later than with the next one.
    """
    have, need = parse(version), parse(wanted)
    if have is None or need is None or not have.is_prerelease:
        return False
    return have < need and (need.major, need.minor) <= (have.major, have.minor + 1)
