"""The gateway authenticates nobody, so the page for operators has to name whatever it answers itself."""

from __future__ import annotations

from pathlib import Path

from gateway.wire.control import CONTROL_PATHS

PAGE = Path("docs/observability.md")
BELOW = ("/-/board", "/-/decide", "/-/learned", "/-/policy", "/-/policy/check", "/-/reload", "/ui/explain")


def test_the_page_for_operators_names_every_path_of_the_gateways_own() -> None:
    section = PAGE.read_text().split("## Who may ask\n")[1].split("\n## ")[0]
    assert [path for path in (*CONTROL_PATHS, *BELOW) if f"`{path}`" not in section] == []
