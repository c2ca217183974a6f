from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer

from gateway.cli.files import read_text, refuse

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("é\r\n".encode())
    assert read_text(tmp_path / "f") == "é\r\n"


@pytest.mark.parametrize(
    ("content", "message"), [(None, "Is a directory"), (b"ab\xff", "not UTF-8 text, at byte 2")]
)
def test_what_cannot_be_read_ends_the_command(
    tmp_path: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(typer.Exit) as ended:
        read_text(path)
    assert ended.value.exit_code == 2
    assert message in capsys.readouterr().err


def test_a_refusal_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        refuse("no")
    assert capsys.readouterr() == ("", "no\n")
