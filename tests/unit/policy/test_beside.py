from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gateway.policy.beside import MOST_BYTES, UnreadableError, read_beside

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_in_the_folder_or_below_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text("é")
    (tmp_path / "more").mkdir()
    (tmp_path / "more/own.json").write_text("more")
    assert read_beside(tmp_path, "own.json") == "é"
    assert read_beside(tmp_path, "more/own.json") == "more"


def test_a_link_is_followed_as_a_mounted_folder_needs_it(tmp_path: Path) -> None:
    (tmp_path / "..v1").mkdir()
    (tmp_path / "..v1/own.json").write_text("mounted")
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "own.json").symlink_to("..data/own.json")
    assert read_beside(tmp_path, "own.json") == "mounted"


@pytest.mark.parametrize("name", ["/etc/passwd", "../own.json", "more/../../own.json"])
def test_a_file_elsewhere_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "own.json").write_text("there")
    folder = tmp_path / "policies"
    folder.mkdir()
    with pytest.raises(UnreadableError, match="not in the policy's folder"):
        read_beside(folder, name)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "zero", "folder"):
        with pytest.raises(UnreadableError, match="not a regular file"):
            read_beside(tmp_path, name)


def test_a_file_may_be_so_large_and_no_larger(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(b"x" * MOST_BYTES)
    assert len(read_beside(tmp_path, "own.json")) == MOST_BYTES
    (tmp_path / "own.json").write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(UnreadableError, match="larger than 4 MiB"):
        read_beside(tmp_path, "own.json")


def test_a_file_whose_size_is_not_told_is_read_no_further_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.policy.beside.MOST_BYTES", 4)
    (tmp_path / "own.json").symlink_to("/proc/self/status")  # a regular file of size 0
    with pytest.raises(UnreadableError, match="larger than"):
        read_beside(tmp_path, "own.json")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.json", None, "No such file"),
        ("own.json", b"\xff", "not UTF-8"),
        ("o\0wn.json", None, "cannot be the name of a file"),
        ("x" * 5000, None, "too long"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableError, match=says):
        read_beside(tmp_path, name)
