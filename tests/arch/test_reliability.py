"""The table of promises names tests that exist, and leaves out none of the complaints it is about."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \|.*$", TEXT, flags=re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)))
EXPECTED = {
    1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 17, 18, 19, 20, 21, 23, 24, 26, 27, 44, 46, 47, 48, 49, 50, 51, 52,
    55, 57, 59, 60, 62, 63, 64, 69, 72,
}  # fmt: skip


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name or path for path, name in NAMED])
def test_a_test_that_is_named_exists(path, name):
    source = (ROOT / path).read_text(encoding="utf-8")
    wanted = f"{name}\\(" if name else "test_"
    assert re.search(rf"^(async )?def {wanted}", source, flags=re.MULTILINE)


def test_every_complaint_has_one_row():
    assert sorted(map(int, ROWS)) == sorted(EXPECTED)


def test_every_row_names_a_test():
    rows = [line for line in TEXT.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [row for row in rows if "`tests/" not in row] == []
