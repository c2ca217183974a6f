from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.telemetry import names, reference
from gateway.telemetry.reference import markdown

if TYPE_CHECKING:
    import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_document_is_in_step_with_the_names() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == markdown(), (
        "run: python -m gateway.telemetry.reference > docs/metrics.md"
    )


def test_it_holds_every_metric_and_attribute() -> None:
    text = markdown()
    for metric in (*names.METRICS, *names.GENAI["0.1.0"].metrics, *names.GENAI["1.41"].metrics):
        assert f"| `{metric.prometheus}` | `{metric.name}` |" in text
    for attribute in (*names.SERVER_SPAN, *names.ATTEMPT_SPAN):
        assert f"| `{attribute.name}` |" in text


def test_every_row_has_as_many_cells_as_its_head() -> None:
    for table in markdown().split("\n\n"):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def test_run_as_a_module_it_prints_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(reference.__file__, run_name="__main__")
    assert capsys.readouterr().out == markdown()
