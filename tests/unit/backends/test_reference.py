from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backends import measured, reference
from backends.methods import methods

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[3] / "docs" / "methods.md"


def test_the_page_is_what_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.markdown()


def test_evidence_is_of_methods_that_are_known() -> None:
    for one in reference.evidence():
        assert {*one.methods, *one.parameters, *one.runs, *one.failures} <= set(methods())
        assert one.command


def test_lengths_on_real_text_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = measured.RealText(
        model="A model", prompts=4, tokens=96, differing=3, answers=40,
        mean_accepted_length={"ngram": {"code": 1.625, "chat": 1.0}},
        tokens_per_step={"ngram": {"code": 1.25, "chat": 1.0}},
        note="Seen twice.",
    )  # fmt: skip
    monkeypatch.setattr(reference, "real_text", lambda: told)
    page = reference.markdown()
    assert "|  | code | chat |" in page
    assert "| `ngram`, mean accepted length | 1.62 | 1.00 |" in page
    assert "| `ngram`, tokens a step | 1.25 | 1.00 |" in page
    assert "3 of 40 answers were not those of the server without speculation. Seen twice." in page
    monkeypatch.setattr(reference, "real_text", lambda: None)
    assert "## Prompt lookup on real text\n\nNot measured yet." in reference.markdown()


def test_counts_of_a_run_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured.GpuRun(draft_tokens=7, requests=6, steps=40, drafted=280, accepted=120, equal=True)
    told = measured.Evidence(
        engine="vLLM 0.26.0 on NVIDIA H200", command="python -m x", date="2026-11-30", methods=("dspark",),
        runs={"dspark": run}, failures={"medusa": "no such checkpoint"}, note="It is old.",
    )  # fmt: skip
    monkeypatch.setattr(reference, "evidence", lambda: [told])
    page = reference.markdown()
    assert (
        "- `dspark`, N = 7, on vLLM 0.26.0 on NVIDIA H200: 6 requests, 40 steps, 120 of 280 draft tokens accepted, "
        "the same in gateway and server." in page
    )
    assert "not verified: no such checkpoint" in page
    assert "- vLLM 0.26.0 on NVIDIA H200: `python -m x`, 2026-11-30. It is old." in page
    assert "Not measured yet." in page


def test_what_was_never_run_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    page = reference.markdown()
    section = page.partition("## What was not run")[2].partition("##")[0]
    assert "- ROCm: no server of any method" in section
    assert "on no engine at all" not in section
    monkeypatch.setattr(reference, "evidence", list)
    assert "- `dspark` (DSpark): on no engine at all." in reference.markdown()
